//! Finds ZooKeeper and Java on the machine, or provisions them.
//!
//! [`Search::find`] returns a [`Distribution`]: a class path and a Java that runs it.
//! The first match wins:
//!
//! 1. an explicit home ([`Search::home`], `ZK_HARNESS_HOME`);
//! 2. an installed package: `$ZOOKEEPER_HOME`, Debian's and Ubuntu's jars, Homebrew, an unpacked release;
//! 3. the harness's own cache (`ZK_HARNESS_CACHE`);
//! 4. provisioning into that cache, without root: the distribution's packages through apt with a separate state
//!    directory and checked signatures; otherwise the official release archive with a pinned SHA-512;
//! 5. a [`FindError`] that lists what was tried and names the one command that would fix it.
//!
//! The search for Java has the same order: explicit, installed, cached, provisioned (by apt only: there is no archive
//! of Java runtimes with pinned checksums).
//!
//! [`Search::packages`] finds and provisions packages that a test also needs, such as another client.
//!
//! Without a requested version, any installed one matches, or else the newest available 3.9. Releases of 3.9 before 3.9.4
//! lose acknowledged writes: only their exact version selects them, and [`Distribution::warning`] then describes the loss.
//!
//! A directory of the cache is complete as soon as it has its name: it is unpacked under another name and renamed.
//! A file lock serialises processes that provision at the same time, and the second one finds the result of the first.
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

mod advice;
#[cfg(feature = "download")]
mod apt;
#[cfg(feature = "download")]
mod archive;
mod cache;
mod distribution;
mod error;
#[cfg(feature = "download")]
mod fetch;
mod find;
mod home;
mod installed;
#[cfg(feature = "download")]
mod jar;
mod java;
mod machine;
#[cfg(feature = "download")]
mod provision;
mod release;
mod run;
mod search;
mod settings;
mod version;
mod want;

pub use self::distribution::{Distribution, Logging, Progress, Source};
pub use self::error::{FindError, NotFound, SettingError, Tried};
pub use self::search::Search;
pub use self::settings::{Installed, Provisioning};
