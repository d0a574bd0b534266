//! Reads a history from files.

use std::io;
use std::path::{Path, PathBuf};

use super::history::History;
use super::parse::ParseError;

/// Why a history could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// A file or directory cannot be read.
    #[error("cannot read {path}")]
    Io {
        /// The path.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The directory has no file of a history.
    #[error("{directory} has no file named history*.jsonl")]
    Empty {
        /// The directory.
        directory: PathBuf,
    },
    /// A file is not a history.
    #[error(transparent)]
    Parse(#[from] ParseError),
}

impl History {
    /// Reads a file, or all files named `history*.jsonl` of a directory as one history.
    ///
    /// # Errors
    ///
    /// The path has no history, cannot be read, or is [not a history](Self::parse).
    pub fn read(path: &Path) -> Result<Self, ReadError> {
        let unreadable = |path: &Path| {
            let path = path.to_owned();
            move |source| ReadError::Io { path, source }
        };
        let files = if path.is_dir() {
            files_of(path).map_err(unreadable(path))?
        } else {
            vec![path.to_owned()]
        };
        if files.is_empty() {
            let directory = path.to_owned();
            return Err(ReadError::Empty { directory });
        }
        let mut texts = Vec::with_capacity(files.len());
        for file in files {
            let bytes = std::fs::read(&file).map_err(unreadable(&file))?;
            let name = file.file_name().map_or_else(
                || file.display().to_string(),
                |name| name.to_string_lossy().into_owned(),
            );
            // A torn line may end within a character.
            texts.push((name, String::from_utf8_lossy(&bytes).into_owned()));
        }
        Ok(Self::parse(texts)?)
    }
}

fn files_of(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let extension = path.extension().is_some_and(|ext| ext == "jsonl");
        if extension && name.starts_with("history") && path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
