//! Records the end of an operation, and how long a grant is held.

use super::clock::now;
use super::op::Op;
use super::outcome::{Outcome, ReturnValue};
use super::recorder::Recorder;

/// An operation whose end is not recorded yet.
///
/// # Dropping
///
/// Records the outcome as unknown, which is right for an early return and a dropped future.
#[derive(Debug)]
#[must_use = "dropping it records the outcome as unknown"]
pub struct Pending {
    recorder: Recorder,
    id: u64,
    path: String,
    open: bool,
}

impl Pending {
    pub(super) fn new(recorder: Recorder, id: u64, path: String) -> Self {
        Self {
            recorder,
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
            recorder: self.recorder.clone(),
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
        self.recorder.returned(self.id, outcome);
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
    recorder: Recorder,
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
        self.recorder.invoke(Op::Release {
            path,
            of: Some(self.id),
        })
    }

    /// Records that the holder relied on it until a time of [`now`], which may be in the past: the last one
    /// at which its guard was valid.
    ///
    /// A later record replaces an earlier one. Call [`forget`](Self::forget) afterwards, since a drop records as well.
    pub fn believed_until(&self, until: u64) {
        self.recorder.believed_until(self.id, until, "");
    }

    /// Drops it without recording anything.
    pub fn forget(mut self) {
        self.open = false;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.open {
            self.recorder.believed_until(self.id, now(), "dropped");
        }
    }
}
