//! Records the start and the end of an operation, and how long a grant is held.

use std::sync::Arc;

use super::clock::now;
use super::history_file::HistoryFile;
use super::line::Line;
use super::op::Op;
use super::outcome::{Outcome, ReturnValue};

/// An operation whose end is not recorded yet.
///
/// # Dropping
///
/// Records the outcome as unknown, which is right for an early return and a dropped future.
#[derive(Debug)]
#[must_use = "dropping it records the outcome as unknown"]
pub struct Pending {
    file: Arc<HistoryFile>,
    task: Option<Arc<str>>,
    id: u64,
    path: String,
    open: bool,
}

impl Pending {
    /// Records the start of an operation.
    pub(super) fn begin(file: Arc<HistoryFile>, task: Option<Arc<str>>, op: Op) -> Self {
        let id = file.next_id();
        let path = op.path().to_owned();
        file.write(&Line::Invoke {
            process: file.process().to_owned(),
            task: task.as_deref().map(str::to_owned),
            at: now(),
            id,
            op,
        });
        Self {
            file,
            task,
            id,
            path,
            open: true,
        }
    }

    /// Records that it took effect; pass `()` if it returned no value.
    pub fn ok(mut self, answer: impl Into<ReturnValue>) {
        self.end(Outcome::Ok(answer.into()));
    }

    /// Records a grant, which is held from now on.
    pub fn granted(mut self, answer: impl Into<ReturnValue>) -> Held {
        self.end(Outcome::Ok(answer.into()));
        Held {
            file: Arc::clone(&self.file),
            task: self.task.clone(),
            id: self.id,
            path: self.path.clone(),
            open: true,
        }
    }

    /// Records that it certainly had no effect, and will have none.
    ///
    /// For a timeout or a broken connection use [`unknown`](Self::unknown).
    pub fn failed(mut self, reason: impl Into<String>) {
        self.end(Outcome::Failed {
            reason: reason.into(),
        });
    }

    /// Records that it may have taken effect, or may do so later.
    pub fn unknown(mut self, reason: impl Into<String>) {
        self.end(Outcome::Unknown {
            reason: reason.into(),
        });
    }

    fn end(&mut self, outcome: Outcome) {
        self.open = false;
        self.file.returned(self.id, outcome);
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if self.open {
            self.end(Outcome::Unknown {
                reason: "dropped".to_owned(),
            });
        }
    }
}

/// A grant that is held.
///
/// # Dropping
///
/// Records that the holder relied on it until now. Drop it when the holder learns that it lost the grant.
#[derive(Debug)]
#[must_use = "the holder relies on the grant until this is released or dropped"]
pub struct Held {
    file: Arc<HistoryFile>,
    task: Option<Arc<str>>,
    id: u64,
    path: String,
    open: bool,
}

impl Held {
    /// Returns the id of the acquire.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Records that the holder begins to release it, and no longer relies on it.
    pub fn release(mut self) -> Pending {
        self.open = false;
        let path = std::mem::take(&mut self.path);
        let of = Some(self.id);
        let release = Op::Release { path, of };
        Pending::begin(Arc::clone(&self.file), self.task.clone(), release)
    }

    /// Records that the holder relied on it until a time of [`now`], which may be in the past: the last one
    /// at which its guard was valid.
    ///
    /// A later record replaces an earlier one. Call [`forget`](Self::forget) afterwards, since a drop records as well.
    pub fn believed_until(&self, until: u64) {
        self.file.believed_until(self.id, until, "");
    }

    /// Drops it without recording anything.
    pub fn forget(mut self) {
        self.open = false;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.open {
            self.file.believed_until(self.id, now(), "dropped");
        }
    }
}
