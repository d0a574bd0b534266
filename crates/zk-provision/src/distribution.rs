//! What a search finds, where it came from, and how far a download has come.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::java;
use crate::version::Version;

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
    /// The directory with the jars.
    pub home: PathBuf,
    /// The source of ZooKeeper; its Java may have another one.
    pub source: Source,
}

impl Distribution {
    /// Returns how this release of ZooKeeper loses acknowledged writes, if it is known to.
    pub fn warning(&self) -> Option<&'static str> {
        Version::parse(&self.version)?.known_loss()
    }

    /// The feature release of its Java (8, 11, 17 …), if known.
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

/// The source of a distribution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Source {
    /// The caller named the directory.
    Explicit,
    /// A package or an unpacked release of the machine.
    Installed,
    /// The harness's cache.
    Cached,
    /// This search put it into the cache.
    Provisioned,
}

/// The progress of one step of provisioning.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// The step, for example `downloading apache-zookeeper-3.9.6-bin.tar.gz`.
    pub what: String,
    /// Bytes so far; 0 while waiting or unpacking.
    pub done: u64,
    /// All bytes, where known.
    pub total: Option<u64>,
}
