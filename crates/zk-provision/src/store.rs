//! Writing to the cache: one process at a time, and nothing half-finished under a final name.

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

/// A directory of this process beside the final ones; removed when dropped.
#[derive(Debug)]
pub(super) struct Staging {
    pub(super) dir: PathBuf,
}

impl Cache {
    /// Waits until this process alone may write, and removes what dead processes left.
    pub(super) fn lock(&self, patience: Duration, waiting: &dyn Fn()) -> Result<Locked, FindError> {
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
        let mut told = false;
        let locked = wait::until(patience, || {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => Ok(Some(())),
                Err(error) if error == rustix::io::Errno::WOULDBLOCK => {
                    if !std::mem::replace(&mut told, true) {
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
                waited: patience,
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
    /// A second descriptor of the lock. A child that has it keeps the lock held should this process be killed, so
    /// that nobody sweeps away the directory it is still writing to.
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

    /// Whoever writes to a `tmp-` directory holds the lock, so what is there now belongs to nobody.
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
        // Closing the last descriptor unlocks; should a child still have one, that is the point.
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
