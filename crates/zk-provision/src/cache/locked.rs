//! Writes to the cache, one process at a time, and renames only complete directories to their final names.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use tempfile::TempDir;

use super::{Cache, FORMAT, RECORD, Record, RecordedFile};
use crate::error::FindError;
use crate::machine::children;
use crate::{jar, run};

const TEMPORARY: &str = "tmp-";

/// The cache while this process alone may write to it.
///
/// The lock ends with its last descriptor, which a child process may still have when this is dropped.
#[derive(Debug)]
pub(crate) struct Locked {
    dir: PathBuf,
    /// A child process with this file keeps the lock if this process is killed, so that no other process removes
    /// the directory in which the child works.
    pub(crate) lock: File,
}

impl Cache {
    /// Locks the cache, and removes the temporary directories of dead processes.
    pub(crate) fn lock(
        &self,
        timeout: Duration,
        waiting: impl FnOnce(),
    ) -> Result<Locked, FindError> {
        let path = self.dir.join("lock");
        fs::create_dir_all(&self.dir).map_err(|error| self.error("create", error))?;
        let mut options = File::options();
        let lock = options.create(true).truncate(false).read(true).write(true);
        let lock = lock
            .open(&path)
            .map_err(|error| self.error("open the lock of", error))?;
        let mut waiting = Some(waiting);
        let locked = run::until(timeout, || {
            match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => Ok(Some(())),
                Err(Errno::WOULDBLOCK) => {
                    if let Some(waiting) = waiting.take() {
                        waiting();
                    }
                    Ok(None)
                }
                Err(error) => Err(self.error("lock", error.into())),
            }
        })?;
        if locked.is_none() {
            return Err(FindError::Busy {
                lock: path,
                waited: timeout,
            });
        }
        // A process that writes to such a directory holds the lock, so the existing ones are unused.
        for stale in children(&self.dir, TEMPORARY) {
            tracing::info!(dir = %stale.display(), "removing what a dead process left");
            fs::remove_dir_all(stale).map_err(|error| self.error("clean", error))?;
        }
        Ok(Locked {
            dir: self.dir.clone(),
            lock,
        })
    }

    fn error(&self, action: &'static str, source: io::Error) -> FindError {
        FindError::Cache {
            action,
            path: self.dir.clone(),
            source,
        }
    }
}

impl Locked {
    /// Creates a directory on the cache's file system that is removed when dropped.
    pub(crate) fn temporary(&self) -> Result<TempDir, String> {
        tempfile::Builder::new()
            .prefix(TEMPORARY)
            .tempdir_in(&self.dir)
            .map_err(|error| format!("cannot write to {}: {error}", self.dir.display()))
    }

    /// Gives a finished tree its final name, with a record of its files in it, in one rename. No jar of it names
    /// jars of the machine.
    pub(crate) fn publish(&self, tree: &Path, name: &str, origin: String) -> io::Result<PathBuf> {
        let files = regular_files(tree)?;
        for jar in files.iter().filter(|path| is_jar(path)) {
            jar::hide_class_path(jar)?;
        }
        let files = files.iter().map(|file| {
            let path = file.strip_prefix(tree).map_err(io::Error::other)?;
            Ok(RecordedFile {
                path: path.to_owned(),
                bytes: fs::metadata(file)?.len(),
            })
        });
        let record = Record {
            format: FORMAT,
            origin,
            files: files.collect::<io::Result<_>>()?,
        };
        let text = serde_json::to_string_pretty(&record).map_err(io::Error::other)?;
        fs::write(tree.join(RECORD), text)?;
        let last = self.dir.join(name);
        let replaced = self.temporary().map_err(io::Error::other)?;
        if last.exists() {
            // Only a damaged directory is provisioned again. It loses its name in one step, too.
            fs::rename(&last, replaced.path().join(name))?;
        }
        fs::rename(tree, &last)?;
        Ok(last)
    }
}

fn is_jar(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "jar")
}

/// Lists the regular files of a tree, and no links.
fn regular_files(tree: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut dirs = vec![tree.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() {
                dirs.push(entry.path());
            } else if kind.is_file() {
                files.push(entry.path());
            }
        }
    }
    files.sort();
    Ok(files)
}
