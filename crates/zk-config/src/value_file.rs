//! The file with the last good value, with which a program starts without servers.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use crate::problem::Problem;
use crate::subtree::Subtree;

pub(crate) mod format;

use format::{FileSubject, FormatError};

/// A problem with the file of a value; see [`TypedBuilder::with_file`](crate::TypedBuilder::with_file).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileProblem {
    /// The file exists and cannot be read.
    #[error("the file {} cannot be read", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The file cannot be written. It is written again after the next change.
    #[error("the file {} cannot be written", file.display())]
    Unwritable {
        /// The file.
        file: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The file was changed after it was written, or is incomplete. It is not used.
    #[error("the file {} is damaged, and is not used: {reason}", file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The file contains something else than this value. It is not used, and is replaced by the next value that is read.
    #[error("the file {} is of something else, and is not used: {reason}", file.display())]
    OtherSubject {
        /// The file.
        file: PathBuf,
        /// What it is, and what it should be.
        reason: String,
    },
    /// The value in the file cannot be decoded, or the validation refuses it. It is not used.
    #[error("the value in the file {} is not used: {problem}", file.display())]
    Unusable {
        /// The file.
        file: PathBuf,
        /// The problem with the value.
        problem: Problem,
    },
}

/// The value of a file.
#[derive(Debug)]
pub(crate) struct SavedValue {
    pub(crate) revision: Option<i64>,
    pub(crate) nodes: Subtree,
    pub(crate) at: SystemTime,
}

/// The file of one value. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct ValueFile {
    shared: Arc<Shared>,
    wait: Duration,
}

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    subject: FileSubject,
    state: Mutex<FileState>,
}

#[derive(Debug, Default)]
struct FileState {
    /// The newest value, until it is being written.
    unsaved: Option<(Option<i64>, Arc<Subtree>)>,
    is_writing: bool,
    problem: Option<Arc<FileProblem>>,
}

impl ValueFile {
    pub(crate) fn new(path: PathBuf, wait: Duration, subject: FileSubject) -> Self {
        let state = Mutex::default();
        Self {
            shared: Arc::new(Shared {
                path,
                subject,
                state,
            }),
            wait,
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.shared.path
    }

    /// Returns how long to wait for a session's value before the file is loaded.
    pub(crate) const fn wait(&self) -> Duration {
        self.wait
    }

    pub(crate) fn problem(&self) -> Option<Arc<FileProblem>> {
        self.shared.state().problem.clone()
    }

    pub(crate) fn report(&self, problem: FileProblem) {
        self.shared.report(problem);
    }

    /// Writes a value in the background: one value at a time, and of those that wait only the newest.
    pub(crate) fn save(&self, revision: Option<i64>, nodes: &Arc<Subtree>) {
        let mut state = self.shared.state();
        state.unsaved = Some((revision, Arc::clone(nodes)));
        if std::mem::replace(&mut state.is_writing, true) {
            return;
        }
        drop(state);
        let writer = Writer {
            shared: Arc::clone(&self.shared),
            is_over: false,
        };
        drop(tokio::task::spawn_blocking(move || writer.run()));
    }

    /// Reads the file; `None` if there is none or it cannot be used, which is reported.
    ///
    /// Cancel safe: it only reads.
    pub(crate) async fn load(&self) -> Option<SavedValue> {
        let shared = Arc::clone(&self.shared);
        let reading = tokio::task::spawn_blocking(move || shared.read());
        match reading.await.ok()? {
            Ok(saved) => saved,
            Err(problem) => {
                self.report(problem);
                None
            }
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, FileState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn report(&self, problem: FileProblem) {
        tracing::warn!(%problem, "the file of a configured value");
        self.state().problem = Some(Arc::new(problem));
    }

    fn read(&self) -> Result<Option<SavedValue>, FileProblem> {
        let file = || self.path.clone();
        let read = fs::read(&self.path).and_then(|data| {
            let written = fs::metadata(&self.path)?.modified()?;
            Ok((data, written))
        });
        let (data, at) = match read {
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => {
                return Err(FileProblem::Unreadable {
                    file: file(),
                    source,
                });
            }
        };
        match self.subject.decode(&data) {
            Ok((revision, nodes)) => Ok(Some(SavedValue {
                revision,
                nodes,
                at,
            })),
            Err(FormatError::Damaged(reason)) => Err(FileProblem::Damaged {
                file: file(),
                reason,
            }),
            Err(FormatError::OtherSubject(reason)) => Err(FileProblem::OtherSubject {
                file: file(),
                reason,
            }),
        }
    }

    /// Replaces the file as a whole, so that a crash at any moment leaves the old one or the new one.
    fn write(&self, data: &[u8]) -> io::Result<()> {
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".{}.tmp", std::process::id()));
        let temporary = PathBuf::from(name);
        let written = create_private(&temporary)
            .and_then(|mut file| {
                file.write_all(data)?;
                file.sync_all()
            })
            .and_then(|()| fs::rename(&temporary, &self.path));
        if written.is_err() {
            drop(fs::remove_file(&temporary));
            return written;
        }
        sync_directory_of(&self.path)
    }
}

/// Writes on a thread for blocking work.
///
/// # Dropping
///
/// If it has not run to its end, as after the end of the runtime, the next value is written by another one.
struct Writer {
    shared: Arc<Shared>,
    is_over: bool,
}

impl Writer {
    fn run(mut self) {
        loop {
            let (revision, nodes) = {
                let mut state = self.shared.state();
                let Some(unsaved) = state.unsaved.take() else {
                    state.is_writing = false;
                    self.is_over = true;
                    return;
                };
                unsaved
            };
            let data = self.shared.subject.encode(revision, &nodes);
            match self.shared.write(&data) {
                Ok(()) => self.shared.state().problem = None,
                Err(source) => self.shared.report(FileProblem::Unwritable {
                    file: self.shared.path.clone(),
                    source,
                }),
            }
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if !self.is_over {
            self.shared.state().is_writing = false;
        }
    }
}

/// Creates a file that only this user can read. One that a crash has left under the name is removed.
fn create_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_file(path)?;
            options.open(path)
        }
        opened => opened,
    }
}

/// Makes the new name of a file survive a crash of the system.
fn sync_directory_of(path: &Path) -> io::Result<()> {
    if !cfg!(unix) {
        return Ok(());
    }
    let directory = path.parent().filter(|it| !it.as_os_str().is_empty());
    File::open(directory.unwrap_or_else(|| Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests;
