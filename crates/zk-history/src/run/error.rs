//! Defines the error of recording or judging a run.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::check::Report;
use crate::read::ReadError;

/// Why a run failed, or could not be recorded or judged.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// A file of the run cannot be read or written.
    #[error("cannot keep a run in {path}")]
    Io {
        /// The path.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The environment variable `SEED` is not a number.
    #[error(
        "SEED = {value:?} is not a whole number; set it to one, such as {} or 0xff",
        u64::MAX
    )]
    Seed {
        /// The value of `SEED`.
        value: String,
    },
    /// The history cannot be read; the run is kept.
    #[error("{text}")]
    Unreadable {
        /// The directory and the commands.
        text: String,
        /// The cause.
        #[source]
        source: ReadError,
    },
    /// A checker found a violation or had too little to judge; the run is kept.
    #[error("{text}")]
    Failed {
        /// The verdicts, the directory and the commands, for a person.
        text: String,
        /// The verdicts, for a program.
        report: Report,
    },
}

impl fmt::Debug for RunError {
    /// Like `Display`, because a test that unwraps prints this.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")?;
        let mut source = std::error::Error::source(self);
        while let Some(error) = source {
            write!(f, ": {error}")?;
            source = error.source();
        }
        Ok(())
    }
}
