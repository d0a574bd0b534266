//! Records the operations of a process, line by line.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::clock::now;
use super::history_file::HistoryFile;
use super::line::{Line, Phase};
use super::op::Op;
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
    file: Arc<HistoryFile>,
    task: Option<Arc<str>>,
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
        Ok(Self {
            file: Arc::new(HistoryFile::open(file, process)?),
            task: None,
        })
    }

    /// Returns a recorder for a task of this process that acts independently, such as a separate holder or reader.
    #[must_use]
    pub fn task(&self, name: impl Into<Arc<str>>) -> Self {
        Self {
            file: Arc::clone(&self.file),
            task: Some(name.into()),
        }
    }

    /// Records the start of an operation. Call it before the operation has any effect.
    ///
    /// # Dropping
    ///
    /// A dropped [`Pending`] records that the outcome is unknown.
    pub fn invoke(&self, op: Op) -> Pending {
        Pending::begin(Arc::clone(&self.file), self.task.clone(), op)
    }

    /// Records the start of a fault, which ends when the guard is dropped.
    ///
    /// `name` is the kind of fault, `target` the server, link or process.
    pub fn fault(&self, name: impl Into<String>, target: impl Into<String>) -> FaultGuard {
        let id = self.file.next_id();
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
        self.file.believed_until(id, until, "");
    }

    /// Returns the first write error, after which the history is incomplete.
    ///
    /// # Errors
    ///
    /// A line could not be written.
    pub fn check(&self) -> io::Result<()> {
        self.file.take_failure().map_or(Ok(()), Err)
    }

    fn write_fault(&self, id: u64, phase: Phase, (name, target): (String, String)) {
        self.file.write(&Line::Fault {
            process: self.file.process().to_owned(),
            at: now(),
            id,
            phase,
            name,
            target,
        });
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
