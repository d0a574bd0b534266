//! Reads and writes `run.json`, which describes a run and its checkers.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::check::Checker;

/// The contents of `run.json`, besides its version.
///
/// Unknown fields are ignored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Description {
    /// The name of the run.
    pub name: String,
    /// The seed.
    pub seed: u64,
    /// The checkers.
    pub checkers: Vec<Checker>,
    /// The command that repeats the test; empty if unknown.
    #[serde(default)]
    pub again: String,
}

/// Why `run.json` could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DescriptionError {
    /// It does not exist or cannot be read.
    #[error("cannot read {path}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// It does not describe a run.
    #[error("{path} does not describe a run")]
    Json {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: serde_json::Error,
    },
    /// It has another version.
    #[error(
        "{path} has version {version}, and this program reads version {}",
        Description::VERSION
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// The version.
        version: u64,
    },
}

/// The text of `run.json`.
#[derive(Serialize)]
struct File<'a> {
    version: u32,
    #[serde(flatten)]
    description: &'a Description,
}

impl Description {
    /// The version of `run.json` that this program writes and reads.
    const VERSION: u32 = 1;

    /// Reads the description of a run from its directory.
    ///
    /// # Errors
    ///
    /// There is none, or it cannot be read.
    pub fn read(directory: &Path) -> Result<Self, DescriptionError> {
        let path = directory.join(NAME);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(source) => return Err(DescriptionError::Io { path, source }),
        };
        let version = serde_json::from_str::<serde_json::Value>(&text)
            .ok()
            .and_then(|json| json.get("version")?.as_u64())
            .filter(|version| *version != u64::from(Self::VERSION));
        if let Some(version) = version {
            return Err(DescriptionError::Version { path, version });
        }
        serde_json::from_str(&text).map_err(|source| DescriptionError::Json { path, source })
    }

    pub(super) fn write(&self, directory: &Path) -> io::Result<()> {
        let file = File {
            version: Self::VERSION,
            description: self,
        };
        let text = serde_json::to_string_pretty(&file)?;
        std::fs::write(directory.join(NAME), text + "\n")
    }
}

const NAME: &str = "run.json";
