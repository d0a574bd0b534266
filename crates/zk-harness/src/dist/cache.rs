//! The harness's own cache: what counts as complete, who may write.
//!
//! ```text
//! <cache>/lock                      held by whoever provisions
//! <cache>/zookeeper-3.9.3/          complete from the moment it has this name
//!         zookeeper-3.9.3/distribution.json
//! <cache>/java-17-bookworm-x86_64/  a runtime for this release of the system
//! <cache>/downloads/*.part          archives on their way, resumable
//! <cache>/tmp-<pid>-<n>/            work of a live process, or rubbish of a dead one
//! ```

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
use serde::Deserialize;
use serde::Serialize;

use super::error::FindError;
use super::error::Tried;
use super::home;
use super::home::Found;
use super::java;
use super::places;
use super::version::Request;
use super::version::Version;
use super::wait;

const RECORD: &str = "distribution.json";
const FORMAT: u32 = 1;

/// The cache directory, which need not exist.
#[derive(Debug, Clone)]
pub(super) struct Cache {
    dir: PathBuf,
}

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

/// What a complete directory of the cache holds, so that one which lost files since is noticed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    format: u32,
    /// Where it came from, for people.
    pub(super) origin: String,
    files: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Part {
    path: PathBuf,
    bytes: u64,
}

impl Cache {
    pub(super) fn new(dir: PathBuf) -> Self {
        Self { dir }
    }

    /// The newest ZooKeeper that will do.
    pub(super) fn zookeeper(&self, request: Request, tried: &mut Vec<Tried>) -> Option<Found> {
        self.complete("zookeeper-", tried, |dir, name| {
            let version = Version::parse(name.strip_prefix("zookeeper-")?)?;
            if !request.accepts(version) {
                return None;
            }
            Some(home::inspect(dir))
        })
        .or_else(|| {
            self.nothing(&request.to_string(), tried);
            None
        })
    }

    /// A Java runtime for this system.
    pub(super) fn java(&self, tag: &str, tried: &mut Vec<Tried>) -> Option<PathBuf> {
        self.complete("java-", tried, |dir, name| {
            let feature = name
                .strip_prefix("java-")?
                .strip_suffix(tag)?
                .strip_suffix('-')?;
            feature.parse::<u32>().ok()?;
            let java = java_of(dir).ok_or_else(|| "no bin/java in it".to_owned());
            Some(java.and_then(|java| java::check(&java).map(|_| java)))
        })
        .or_else(|| {
            self.nothing("Java", tried);
            None
        })
    }

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

    fn complete<T>(
        &self,
        prefix: &str,
        tried: &mut Vec<Tried>,
        look: impl Fn(&Path, &str) -> Option<Result<T, String>>,
    ) -> Option<T> {
        for dir in places::children(&self.dir, prefix) {
            let name = dir
                .file_name()
                .map(|name| name.to_string_lossy().into_owned())
                .unwrap_or_default();
            let Some(found) = look(&dir, &name) else {
                continue;
            };
            match verify(&dir).and(found) {
                Ok(found) => return Some(found),
                Err(reason) => tried.push(Tried::new(
                    dir.display().to_string(),
                    format!("damaged: {reason}"),
                )),
            }
        }
        None
    }

    fn nothing(&self, wanted: &str, tried: &mut Vec<Tried>) {
        tried.push(Tried::new(
            format!("cache {}", self.dir.display()),
            format!("nothing for {wanted}"),
        ));
    }
}

impl Locked {
    /// A second descriptor of the lock. A child that has it keeps the lock held should this process be killed, so
    /// that nobody sweeps away the directory it is still writing to.
    #[cfg(feature = "provision")]
    pub(super) fn descriptor(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    #[cfg(feature = "provision")]
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    #[cfg(feature = "provision")]
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

    /// Gives a finished tree its final name, with a record of `essential` files in it, in one rename.
    pub(super) fn publish(
        &self,
        tree: &Path,
        name: &str,
        origin: String,
        essential: &[PathBuf],
    ) -> io::Result<PathBuf> {
        let files = essential
            .iter()
            .map(|path| {
                let bytes = fs::metadata(path)?.len();
                let path = path
                    .strip_prefix(tree)
                    .map_err(io::Error::other)?
                    .to_owned();
                Ok(Part { path, bytes })
            })
            .collect::<io::Result<_>>()?;
        let record = Record {
            format: FORMAT,
            origin,
            files,
        };
        let text = serde_json::to_string_pretty(&record).map_err(io::Error::other)?;
        fs::write(tree.join(RECORD), text)?;
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

/// The `java` of a runtime in the cache: a tree of Debian packages.
pub(super) fn java_of(dir: &Path) -> Option<PathBuf> {
    places::children(&dir.join("usr/lib/jvm"), "java-")
        .into_iter()
        .filter(|home| !home.is_symlink())
        .map(|home| home.join("bin/java"))
        .find(|java| java.is_file())
}

fn verify(dir: &Path) -> Result<(), String> {
    let path = dir.join(RECORD);
    let text = fs::read_to_string(&path).map_err(|error| format!("{RECORD}: {error}"))?;
    let record: Record =
        serde_json::from_str(&text).map_err(|error| format!("{RECORD}: {error}"))?;
    if record.format != FORMAT {
        return Err(format!(
            "{RECORD} has format {}, this version reads {FORMAT}",
            record.format
        ));
    }
    for part in &record.files {
        match fs::metadata(dir.join(&part.path)) {
            Ok(found) if found.len() == part.bytes => {}
            Ok(found) => {
                return Err(format!(
                    "{} has {} bytes instead of {}",
                    part.path.display(),
                    found.len(),
                    part.bytes
                ));
            }
            Err(error) => return Err(format!("{}: {error}", part.path.display())),
        }
    }
    Ok(())
}
