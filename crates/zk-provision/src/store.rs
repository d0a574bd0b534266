//! Writes to the cache, one process at a time, and renames only complete directories to their final names.

use std::fs;
use std::fs::File;
use std::io;
use std::path::Path;
use std::path::PathBuf;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix::fs::FlockOperation;
use rustix::fs::flock;

use super::cache;
use super::cache::Cache;
use super::error::FindError;
use super::jar;
use super::places;
use super::wait;

/// The cache while this process alone may write to it; unlocked when dropped.
#[derive(Debug)]
pub(super) struct Locked {
    dir: PathBuf,
    file: File,
}

/// A temporary directory of this process in the cache; removed when dropped.
#[derive(Debug)]
pub(super) struct Staging {
    pub(super) dir: PathBuf,
}

impl Cache {
    /// Locks the cache, and removes the temporary directories of dead processes.
    pub(super) fn lock(
        &self,
        lock_timeout: Duration,
        waiting: &dyn Fn(),
    ) -> Result<Locked, FindError> {
        let at = |action, path: &Path| {
            let path = path.to_owned();
            move |source| FindError::Cache {
                action,
                path,
                source,
            }
        };
        fs::create_dir_all(&self.dir).map_err(at("create", &self.dir))?;
        let lock = self.dir.join("lock");
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .read(true)
            .open(&lock);
        let file = file.map_err(at("open", &lock))?;
        let mut reported = false;
        let locked = wait::until(lock_timeout, || {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => Ok(Some(())),
                Err(error) if error == rustix::io::Errno::WOULDBLOCK => {
                    if !std::mem::replace(&mut reported, true) {
                        waiting();
                    }
                    Ok(None)
                }
                Err(error) => Err(at("lock", &lock)(io::Error::from(error))),
            }
        })?;
        if locked.is_none() {
            return Err(FindError::Busy {
                lock,
                waited: lock_timeout,
            });
        }
        let locked = Locked {
            dir: self.dir.clone(),
            file,
        };
        locked.sweep().map_err(at("clean", &self.dir))?;
        Ok(locked)
    }
}

impl Locked {
    /// Returns a second descriptor of the lock. A child process with it keeps the lock if this process is killed, so that
    /// no other process deletes the directory that the child still writes to.
    pub(super) fn descriptor(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(super) fn downloads(&self) -> PathBuf {
        self.dir.join("downloads")
    }

    pub(super) fn staging(&self) -> io::Result<Staging> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let dir = self
            .dir
            .join(format!("tmp-{}-{number}", std::process::id()));
        fs::create_dir(&dir)?;
        Ok(Staging { dir })
    }

    /// Gives a finished tree its final name, with a record of `essential` files in it, in one rename. No jar of it names
    /// jars of the machine.
    pub(super) fn publish(
        &self,
        tree: &Path,
        name: &str,
        origin: String,
        essential: &[PathBuf],
    ) -> io::Result<PathBuf> {
        jar::hide_class_paths(tree)?;
        cache::write_record(tree, origin, essential)?;
        let last = self.dir.join(name);
        if last.exists() {
            // Only a damaged directory is provisioned again.
            let away = self.staging()?;
            fs::rename(&last, away.dir.join("damaged"))?;
        }
        fs::rename(tree, &last)?;
        Ok(last)
    }

    /// A process that writes to a `tmp-` directory holds the lock, so the existing ones are unused.
    fn sweep(&self) -> io::Result<()> {
        for stale in places::children(&self.dir, "tmp-") {
            tracing::info!(dir = %stale.display(), "removing what a dead process left");
            fs::remove_dir_all(stale)?;
        }
        Ok(())
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        // The lock ends with its last descriptor, which a child process may still have.
        tracing::trace!(dir = %self.dir.display(), lock = ?self.file, "leaving the cache");
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.dir)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(dir = %self.dir.display(), %error, "cannot remove a temporary directory");
        }
    }
}
