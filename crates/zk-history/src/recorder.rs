//! Records the operations of a process, line by line.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::clock::now;
use super::line::{FORMAT_VERSION, Line, Phase};
use super::op::Op;
use super::outcome::Outcome;
use super::pending::Pending;

/// Records the operations of one process in a history file.
///
/// It is cheap to clone and to share between threads and tasks.
/// Each line goes to the file with one `write` before the call returns, so that `kill -9` loses nothing recorded;
/// only a crash of the host does.
///
/// Several processes may write to one file, each through a recorder of its own with a name of its own.
///
/// ```
/// # fn main() -> std::io::Result<()> {
/// use zk_history::{Op, Recorder, ReturnValue};
///
/// # let dir = std::env::temp_dir().join(format!("zk-recorder-doc-{}", std::process::id()));
/// # std::fs::create_dir_all(&dir)?;
/// let recorder = Recorder::open(&dir.join("history-a.jsonl"), "a")?;
/// let pending = recorder.invoke(Op::acquire("/locks/a"));
/// // let guard = lock.acquire().await?;      an early return here is recorded as unknown
/// let held = pending.granted(ReturnValue::token(7));
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
/// When the last clone and all pending operations are dropped, records that the process ended normally.
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
    /// The first write error.
    failure: Mutex<Option<io::Error>>,
}

impl Recorder {
    /// Starts recording at the end of a file.
    ///
    /// `process` is the name of this process in reports.
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

    /// Returns a recorder for a task of this process that acts independently, such as a separate holder or reader.
    #[must_use]
    pub fn task(&self, name: impl Into<Arc<str>>) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            task: Some(name.into()),
        }
    }

    /// Records the start of an operation. Call it before the operation has any effect.
    ///
    /// # Dropping
    ///
    /// A dropped [`Pending`] records that the outcome is unknown.
    pub fn invoke(&self, op: Op) -> Pending {
        let id = self.next_id();
        let path = op.path().to_owned();
        self.shared.write(&Line::Invoke {
            process: self.shared.process.clone(),
            task: self.task.as_deref().map(str::to_owned),
            at: now(),
            id,
            op,
        });
        Pending::new(self.clone(), id, path)
    }

    /// Records the start of a fault, which ends when the guard is dropped.
    ///
    /// `name` is the kind of fault, `target` the server, link or process.
    pub fn fault(&self, name: impl Into<String>, target: impl Into<String>) -> FaultGuard {
        let id = self.next_id();
        self.write_fault(id, Phase::Begin, (name.into(), target.into()));
        FaultGuard {
            recorder: self.clone(),
            id,
        }
    }

    /// Records that the holder of a grant relied on it until a time of [`now`] at the latest, even if it was released later.
    ///
    /// Use it instead of [`Held::believed_until`](super::Held::believed_until) for what is known only after the release,
    /// such as that the test had closed the session. `id` is [`Held::id`](super::Held::id), of a grant of this process.
    pub fn relied_until(&self, id: u64, until: u64) {
        self.believed_until(id, until, "");
    }

    /// Returns the first write error, after which the history is incomplete.
    ///
    /// # Errors
    ///
    /// A line could not be written.
    pub fn check(&self) -> io::Result<()> {
        let failure = self.shared.failure.lock();
        let first = failure.unwrap_or_else(PoisonError::into_inner).take();
        first.map_or(Ok(()), Err)
    }

    pub(super) fn returned(&self, id: u64, outcome: Outcome) {
        self.shared
            .write(&Line::returned(&self.shared.process, now(), id, outcome));
    }

    pub(super) fn believed_until(&self, id: u64, until: u64, reason: &str) {
        self.shared.write(&Line::Until {
            process: self.shared.process.clone(),
            at: now(),
            id,
            until,
            reason: reason.to_owned(),
        });
    }

    fn write_fault(&self, id: u64, phase: Phase, (name, target): (String, String)) {
        self.shared.write(&Line::Fault {
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
}

impl Shared {
    fn write(&self, line: &Line) {
        // A single write to a file opened for appending: lines of threads and processes do not mix.
        if let Err(error) = (&self.file).write_all(line.to_text().as_bytes()) {
            let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
            failure.get_or_insert(error);
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // A panic is not a normal end.
        if !std::thread::panicking() {
            self.write(&Line::End {
                process: self.process.clone(),
                at: now(),
            });
        }
    }
}

/// An active fault.
///
/// # Dropping
///
/// Records the end of the fault.
#[derive(Debug)]
#[must_use = "dropping it records the end of the fault"]
pub struct FaultGuard {
    recorder: Recorder,
    id: u64,
}

impl Drop for FaultGuard {
    fn drop(&mut self) {
        self.recorder
            .write_fault(self.id, Phase::End, (String::new(), String::new()));
    }
}

#[cfg(test)]
mod tests;
