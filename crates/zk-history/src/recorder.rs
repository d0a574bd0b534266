//! Recording: what a test or a process does, line by line.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::answer::Outcome;
use super::clock::now;
use super::line::{FORMAT_VERSION, Line, Phase};
use super::op::Op;
use super::pending::Pending;

/// Writes what one process does to a history.
///
/// It is cheap to clone and to share between threads and tasks.
/// Each line goes to the file with one `write` before the call returns, so that `kill -9` loses nothing that was
/// told; only a crash of the host does.
///
/// Several processes may write to one file, each through a recorder of its own with a name of its own.
///
/// ```
/// # fn main() -> std::io::Result<()> {
/// use zk_history::{Answer, Op, Recorder};
///
/// # let dir = std::env::temp_dir().join(format!("zk-recorder-doc-{}", std::process::id()));
/// # std::fs::create_dir_all(&dir)?;
/// let recorder = Recorder::open(&dir.join("history-a.jsonl"), "a")?;
/// let pending = recorder.invoke(Op::acquire("/locks/a"));
/// // let guard = lock.acquire().await?;      an early return here is recorded as unknown
/// let held = pending.granted(Answer::token(7));
/// // … what the lock protects …
/// let pending = held.release();
/// // guard.release().await?;
/// pending.ok(());
/// # drop(recorder);
/// # std::fs::remove_dir_all(&dir)
/// # }
/// ```
///
/// # Dropping
///
/// When the last clone and all that it began are dropped, the history says that the process ended in order.
#[derive(Debug, Clone)]
pub struct Recorder {
    shared: Arc<Shared>,
    task: Option<Arc<str>>,
}

#[derive(Debug)]
struct Shared {
    process: String,
    file: File,
    next_id: AtomicU64,
    /// The first line that could not be written.
    failure: Mutex<Option<io::Error>>,
}

impl Recorder {
    /// Begins to record into a file, behind what is there already.
    ///
    /// `process` is how reports name this process.
    ///
    /// # Errors
    ///
    /// The file cannot be opened or written.
    pub fn open(file: &Path, process: &str) -> io::Result<Self> {
        let mut file = File::options().append(true).create(true).open(file)?;
        let line = Line::Begin {
            process: process.to_owned(),
            at: now(),
            version: FORMAT_VERSION,
            pid: std::process::id(),
        };
        file.write_all(line.to_text().as_bytes())?;
        Ok(Self {
            shared: Arc::new(Shared {
                process: process.to_owned(),
                file,
                next_id: AtomicU64::new(1),
                failure: Mutex::new(None),
            }),
            task: None,
        })
    }

    /// Records for a task of this process that acts on its own: a holder of its own, a reader of its own.
    #[must_use]
    pub fn task(&self, name: impl Into<Arc<str>>) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            task: Some(name.into()),
        }
    }

    /// The name of the process.
    pub fn process(&self) -> &str {
        &self.shared.process
    }

    /// Says that an operation begins; call it before the operation does anything.
    ///
    /// # Dropping
    ///
    /// A [`Pending`] that is dropped records that the outcome is unknown.
    pub fn invoke(&self, op: Op) -> Pending {
        let id = self.next_id();
        let path = op.path().to_owned();
        self.write(&Line::Invoke {
            process: self.shared.process.clone(),
            task: self.task.as_deref().map(str::to_owned),
            at: now(),
            id,
            op,
        });
        Pending::new(self.clone(), id, path)
    }

    /// Says that a fault begins; it ends when what this returns is dropped.
    ///
    /// `name` is what is done in a word, `target` is to whom. Checkers know `pause`, of the process with that name.
    pub fn fault(&self, name: impl Into<String>, target: impl Into<String>) -> FaultGuard {
        let id = self.next_id();
        self.write_fault(id, Phase::Begin, (name.into(), target.into()));
        FaultGuard {
            recorder: self.clone(),
            id,
        }
    }

    /// Says of a grant that its holder relied on it until a moment of [`now`] at the latest, however it was given back.
    ///
    /// It is [`Held::believed_until`](super::Held::believed_until) for what is known only when the grant is released:
    /// that its session had been ended by force. `id` is [`Held::id`](super::Held::id), of a grant of this process.
    pub fn relied_until(&self, id: u64, until: u64) {
        self.believed_until(id, until, "");
    }

    /// The first error of writing, if there was one: from then on the history is not whole.
    ///
    /// # Errors
    ///
    /// A line could not be written.
    pub fn check(&self) -> io::Result<()> {
        let mut failure = self.shared.failure.lock();
        let failure = failure
            .as_deref_mut()
            .map_or_else(|poisoned| poisoned.get_mut().take(), Option::take);
        failure.map_or(Ok(()), Err)
    }

    pub(super) fn returned(&self, id: u64, outcome: Outcome) {
        self.write(&Line::returned(&self.shared.process, now(), id, outcome));
    }

    pub(super) fn believed_until(&self, id: u64, until: u64, reason: &str) {
        self.write(&Line::Until {
            process: self.shared.process.clone(),
            at: now(),
            id,
            until,
            reason: reason.to_owned(),
        });
    }

    fn write_fault(&self, id: u64, phase: Phase, (name, target): (String, String)) {
        self.write(&Line::Fault {
            process: self.shared.process.clone(),
            at: now(),
            id,
            phase,
            name,
            target,
        });
    }

    fn next_id(&self) -> u64 {
        self.shared.next_id.fetch_add(1, Ordering::Relaxed)
    }

    fn write(&self, line: &Line) {
        self.shared.write(line);
    }
}

impl Shared {
    fn write(&self, line: &Line) {
        // One write to a file opened for appending: lines of threads and processes do not mix.
        if let Err(error) = (&self.file).write_all(line.to_text().as_bytes()) {
            let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
            failure.get_or_insert(error);
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // A process that panics has not ended in order.
        if !std::thread::panicking() {
            self.write(&Line::End {
                process: self.process.clone(),
                at: now(),
            });
        }
    }
}

/// A fault that goes on.
///
/// # Dropping
///
/// The history says that the fault is over.
#[derive(Debug)]
#[must_use = "the fault is over when this is dropped"]
pub struct FaultGuard {
    recorder: Recorder,
    id: u64,
}

impl FaultGuard {
    /// Says that the fault is over: what was broken works again.
    pub fn ends(self) {
        drop(self);
    }
}

impl Drop for FaultGuard {
    fn drop(&mut self) {
        self.recorder
            .write_fault(self.id, Phase::End, (String::new(), String::new()));
    }
}

#[cfg(test)]
mod tests;
