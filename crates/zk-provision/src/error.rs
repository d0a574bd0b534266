//! Reports why a search failed, and the command that fixes it.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Why no ZooKeeper could be found or provisioned.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FindError {
    /// A setting of the search has a value that cannot be used.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The explicit home is not usable; nothing else was tried.
    #[error("{} is not a usable ZooKeeper home: {reason}", path.display())]
    Home {
        /// The directory that was named.
        path: PathBuf,
        /// The problem and the requirement.
        reason: String,
    },
    /// The explicit Java is not usable; nothing else was tried.
    #[error("{} is not a usable Java: {reason}", path.display())]
    Java {
        /// The program that was named.
        path: PathBuf,
        /// The problem and the requirement.
        reason: String,
    },
    /// The cache directory cannot be used.
    #[error("cannot {action} the cache {}; set ZK_HARNESS_CACHE to a directory that can be written", path.display())]
    Cache {
        /// The failed action, for example `create`.
        action: &'static str,
        /// The cache.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// Another process held the cache's lock for longer than this search waits.
    #[error(
        "waited {waited:?} for another process that is provisioning and holds {}; \
         end that process, or wait longer with Search::lock_timeout",
        lock.display()
    )]
    Busy {
        /// The lock file.
        lock: PathBuf,
        /// How long this search waited.
        waited: Duration,
    },
    /// Everything was tried.
    #[error(transparent)]
    NotFound(#[from] NotFound),
}

/// A setting that cannot be used: its name, its value and the rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name} is {value:?}; it must be {rule}")]
#[non_exhaustive]
pub struct SettingError {
    /// Name of the environment variable or setter.
    pub name: &'static str,
    /// The value found there.
    pub value: String,
    /// The rule for values.
    pub rule: String,
}

/// All failed attempts, and the command that fixes the problem.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NotFound {
    /// What was searched for, for example `ZooKeeper 3.9`.
    pub wanted: String,
    /// The attempts, in order.
    pub tried: Vec<Tried>,
    /// A shell command; empty if none would help.
    pub fix: String,
}

/// One failed attempt of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tried {
    /// The place or method.
    pub what: String,
    /// Why it failed.
    pub outcome: String,
}

impl SettingError {
    pub(super) fn new(
        name: &'static str,
        value: impl Into<String>,
        rule: impl Into<String>,
    ) -> Self {
        Self {
            name,
            value: value.into(),
            rule: rule.into(),
        }
    }
}

impl fmt::Display for Tried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.outcome)
    }
}

impl fmt::Display for NotFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "cannot find {}; tried:", self.wanted)?;
        for tried in &self.tried {
            writeln!(f, "  - {tried}")?;
        }
        if self.fix.is_empty() {
            write!(
                f,
                "no command is known that would change this on this system"
            )
        } else {
            write!(f, "to fix it, run: {}", self.fix)
        }
    }
}

impl std::error::Error for NotFound {}
