//! Manages the directory of the named ensembles, with a lock per ensemble against concurrent changes.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use rustix::fs::FlockOperation;
use zk_harness::{Ensemble, Error};

use crate::output::note;

/// The directory that contains one directory per ensemble.
#[derive(Debug, Clone)]
pub(crate) struct Store {
    root: PathBuf,
    is_given: bool,
}

impl Store {
    pub(crate) fn new(root: Option<PathBuf>) -> anyhow::Result<Self> {
        let environment = std::env::var_os("ZK_ENSEMBLE_DIR").map(PathBuf::from);
        let is_given = root.is_some() && root != environment;
        let root = match root {
            Some(root) => root,
            None => default_root()
                .context("neither XDG_STATE_HOME nor HOME is an absolute path; set --dir")?,
        };
        Ok(Self {
            root: std::path::absolute(root)?,
            is_given,
        })
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Returns whether the directory was set on the command line, so that another command has to set it, too.
    pub(crate) fn is_given(&self) -> bool {
        self.is_given
    }

    pub(crate) fn directory(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Returns the sorted names of all ensembles.
    pub(crate) fn names(&self) -> anyhow::Result<Vec<String>> {
        let entries = match fs::read_dir(&self.root) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read {}", self.root.display()));
            }
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry?;
            if Ensemble::exists(&entry.path()) {
                names.extend(entry.file_name().into_string());
            }
        }
        names.sort();
        Ok(names)
    }

    /// Opens an ensemble without a lock.
    pub(crate) fn open(&self, name: &str) -> anyhow::Result<Ensemble> {
        let directory = self.directory(name);
        if !Ensemble::exists(&directory) {
            let hint = match self.names()?.as_slice() {
                [] => "start it with `up`".to_owned(),
                names => format!(
                    "existing ensembles: {}; start it with `up --name {name}`",
                    names.join(", ")
                ),
            };
            bail!("there is no ensemble named {name}; {hint}");
        }
        Ensemble::attach(&directory).map_err(|error| {
            let hint = match error {
                Error::BadState { .. } => format!(
                    "; if {} contains nothing of value, remove that directory",
                    directory.display()
                ),
                _ => String::new(),
            };
            anyhow::Error::new(error).context(format!("the ensemble {name} cannot be used{hint}"))
        })
    }

    /// Opens an ensemble for changes.
    pub(crate) fn open_locked(&self, name: &str) -> anyhow::Result<(Ensemble, File)> {
        self.open(name)?;
        let lock = self.lock(name, false)?;
        // Again, because another command may have changed it before the lock.
        Ok((self.open(name)?, lock))
    }

    /// Locks an ensemble's directory for changes, and creates it first if `create`.
    ///
    /// The lock is on the directory itself, so no lock file is left when it is removed.
    pub(crate) fn lock(&self, name: &str, create: bool) -> anyhow::Result<File> {
        let directory = self.directory(name);
        let deadline = Instant::now() + LOCK_WITHIN;
        let mut is_noted = false;
        loop {
            let made = if create { make(&directory) } else { Ok(()) };
            let lock = match made.and_then(|()| File::open(&directory)) {
                Ok(lock) => lock,
                Err(error) => {
                    if let Some(link) = dangling_link(&directory) {
                        bail!(
                            "cannot create {}: {} is a dangling link",
                            directory.display(),
                            link.display()
                        );
                    }
                    // A `down` has removed it between two of these calls.
                    if create && is_not_found(&error) && Instant::now() < deadline {
                        continue;
                    }
                    return Err(error)
                        .with_context(|| format!("cannot open {}", directory.display()));
                }
            };
            match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
                // A `down` may have removed the locked directory, and an `up` created it again.
                Ok(()) if is_same(&lock, &directory) => return Ok(lock),
                Ok(()) if !create && !directory.exists() => {
                    bail!("the ensemble {name} was taken down meanwhile")
                }
                Ok(()) => {}
                Err(rustix::io::Errno::WOULDBLOCK) => {
                    if Instant::now() > deadline {
                        bail!(
                            "another command is still busy with the ensemble {name} after {LOCK_WITHIN:?}"
                        );
                    }
                    if !is_noted {
                        is_noted = true;
                        note(&format!(
                            "waiting for another command that is busy with the ensemble {name}"
                        ));
                    }
                    #[expect(
                        clippy::disallowed_methods,
                        reason = "the pause between two attempts to lock"
                    )]
                    std::thread::sleep(Duration::from_millis(20));
                }
                Err(errno) => {
                    return Err(errno)
                        .with_context(|| format!("cannot lock {}", directory.display()));
                }
            }
        }
    }

    /// Removes the directory of an ensemble that did not start, if it is empty.
    pub(crate) fn discard(&self, name: &str, lock: File) {
        let directory = self.directory(name);
        // Only the holder of the lock on the existing directory may remove it.
        if is_same(&lock, &directory) {
            drop(fs::remove_dir(&directory));
        }
        drop(lock);
        self.remove_if_empty();
    }

    /// Removes the root if no ensemble is left in it.
    pub(crate) fn remove_if_empty(&self) {
        // It fails if the root is not empty or already removed.
        drop(fs::remove_dir(&self.root));
    }
}

fn make(directory: &Path) -> io::Result<()> {
    match fs::create_dir_all(directory) {
        // It was removed meanwhile; the caller retries.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && !directory.exists() => {
            Err(io::ErrorKind::NotFound.into())
        }
        other => other,
    }
}

/// Returns the dangling link on the path of a directory, if there is one.
fn dangling_link(directory: &Path) -> Option<&Path> {
    directory
        .ancestors()
        .find(|path| path.is_symlink() && !path.exists())
}

fn is_not_found(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
}

fn is_same(lock: &File, directory: &Path) -> bool {
    match (lock.metadata(), fs::metadata(directory)) {
        (Ok(held), Ok(there)) => (held.dev(), held.ino()) == (there.dev(), there.ino()),
        _ => false,
    }
}

fn default_root() -> Option<PathBuf> {
    let state = std::env::var_os("XDG_STATE_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute());
    // A relative path would depend on the working directory.
    let home = || std::env::home_dir().filter(|path| path.is_absolute());
    let state = state.or_else(|| Some(home()?.join(".local/state")))?;
    Some(state.join("zk-ensembles"))
}

/// Longer than any start.
const LOCK_WITHIN: Duration = Duration::from_secs(120);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_of_a_replaced_directory_is_not_valid() {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("one");
        fs::create_dir(&directory).unwrap();
        let lock = File::open(&directory).unwrap();
        assert!(is_same(&lock, &directory));
        fs::remove_dir(&directory).unwrap();
        assert!(!is_same(&lock, &directory));
        fs::create_dir(&directory).unwrap();
        assert!(!is_same(&lock, &directory));
    }

    #[test]
    fn the_error_for_a_missing_ensemble_lists_the_others() {
        let root = tempfile::tempdir().unwrap();
        let store = Store::new(Some(root.path().to_owned())).unwrap();
        let error = store.open("x").unwrap_err().to_string();
        assert_eq!(error, "there is no ensemble named x; start it with `up`");
        fs::create_dir(store.directory("other")).unwrap();
        fs::write(store.directory("other").join("ensemble.json"), "{}").unwrap();
        let error = store.open("x").unwrap_err().to_string();
        assert_eq!(
            error,
            "there is no ensemble named x; existing ensembles: other; start it with `up --name x`"
        );
    }
}
