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
mod distribution;
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

pub use self::distribution::Distribution;
pub use self::distribution::Logging;
pub use self::distribution::Progress;
pub use self::distribution::Source;
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
