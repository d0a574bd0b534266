//! Where ZooKeeper and Java come from.
//!
//! [`Search::find`] answers with a [`Distribution`]: a class path and a Java that runs it.
//! The first hit wins:
//!
//! 1. an explicit home ([`Search::home`], `ZK_HARNESS_HOME`);
//! 2. an installed package: `$ZOOKEEPER_HOME`, Debian's and Ubuntu's jars, Homebrew, an unpacked release;
//! 3. the harness's own cache ([`Search::cache_dir`], `ZK_HARNESS_CACHE`);
//! 4. provisioning into that cache, without root: the distribution's packages by apt's own tools and with a state
//!    directory of the harness, signatures checked; otherwise the official release archive, SHA-512 pinned;
//! 5. a [`FindError`] that lists what was tried and names the one command that would fix it.
//!
//! Java is looked for in the same order: explicit, installed, cached, provisioned (by apt only: there is no archive
//! of Java runtimes with pinned checksums).
//!
//! [`Search::packages`] finds and provisions packages that a test wants beside them, such as another client.
//!
//! The version is, unless one is asked for, any that is installed, or else the newest 3.9 on offer. Releases of 3.9 before
//! 3.9.4 lose acknowledged writes: they are taken only by their exact version, and
//! [`Distribution::warning`] then says so.
//!
//! A directory of the cache is complete from the moment it has its name: it is unpacked beside it and renamed.
//! Processes that provision at once take turns on a file lock, and the second one finds what the first one left.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use zk_provision::Search;
//!
//! let distribution = Search::from_env()?.version("3.9").find()?;
//! println!("ZooKeeper {} with {}", distribution.version, distribution.java.display());
//! # Ok(())
//! # }
//! ```

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

#[cfg(feature = "download")]
mod apt;
#[cfg(feature = "download")]
mod archive;
mod cache;
mod error;
mod home;
#[cfg(feature = "download")]
mod jar;
mod java;
mod machine;
mod packages;
mod places;
#[cfg(feature = "download")]
mod provision;
#[cfg(feature = "download")]
mod run;
mod search;
mod settings;
#[cfg(feature = "download")]
mod store;
#[cfg(feature = "download")]
mod tree;
mod version;
mod wait;

use std::fmt;
use std::path::PathBuf;

use serde::Deserialize;
use serde::Serialize;

pub use self::error::FindError;
pub use self::error::Missing;
pub use self::error::NotFound;
pub use self::error::SettingError;
pub use self::error::Tried;
pub use self::search::Search;
pub use self::settings::Installed;
pub use self::settings::Provisioning;
pub use self::version::ParseWantedError;
pub use self::version::Wanted;

/// A ZooKeeper that can be started: its jars and the Java that runs them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Distribution {
    /// ZooKeeper's version, for example `3.9.6`.
    pub version: String,
    /// Jars in the order in which Java should search them, absolute paths.
    pub classpath: Vec<PathBuf>,
    /// The `java` program, an absolute path.
    pub java: PathBuf,
    /// The logging binding on the class path.
    pub logging: Logging,
    /// The directory that was recognised.
    pub home: PathBuf,
    /// How ZooKeeper was come by; its Java may have come another way.
    pub source: Source,
}

impl Distribution {
    /// Says how this release of ZooKeeper is known to lose acknowledged writes, if it is.
    pub fn warning(&self) -> Option<&'static str> {
        version::Version::parse(&self.version)?.known_loss()
    }

    /// The feature release of its Java (8, 11, 17 …), if that can be told.
    pub fn java_feature(&self) -> Option<u32> {
        java::check(&self.java).ok()
    }
}

/// The logging binding on a class path, which decides how a server's log is configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(
    clippy::exhaustive_enums,
    reason = "a server's log needs a configuration for each of them"
)]
pub enum Logging {
    /// `slf4j-simple`: standard error, set by `org.slf4j.simpleLogger.*` system properties.
    SlfSimple,
    /// `logback`: set by a `logback.xml` on the class path or named by a system property.
    Logback,
    /// `slf4j-log4j12` over log4j 1.2 or its drop-in: set by a `log4j.properties`.
    Log4j1,
}

/// How a distribution was come by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Source {
    /// The caller named the directory.
    Explicit,
    /// A package or an unpacked release of the machine.
    Installed,
    /// The harness's cache had it.
    Cached,
    /// This search put it into the cache.
    Provisioned,
}

/// How far a piece of provisioning has come.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// What is being done, for example `downloading apache-zookeeper-3.9.6-bin.tar.gz`.
    pub what: String,
    /// Bytes so far; 0 while waiting or unpacking.
    pub done: u64,
    /// Bytes in all, where they are known.
    pub total: Option<u64>,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Explicit => "explicit",
            Self::Installed => "installed",
            Self::Cached => "cached",
            Self::Provisioned => "provisioned",
        })
    }
}
