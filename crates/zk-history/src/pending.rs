//! Operations that have begun, and grants that are held.

use super::answer::{Answer, Outcome};
use super::clock::now;
use super::op::Op;
use super::recorder::Recorder;

/// An operation that was begun and whose end is not recorded yet.
///
/// # Dropping
///
/// The outcome is recorded as unknown: that is right for an early return and for a future that is dropped.
#[derive(Debug)]
#[must_use = "an operation whose end is not recorded is unknown"]
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

    /// The number of the call, unique within the process.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// It took effect; `()` if there is nothing to tell about it.
    pub fn ok(mut self, answer: impl Into<Answer>) {
        self.end(Outcome::Ok(answer.into()));
    }

    /// It was granted, and is held from now on.
    pub fn granted(mut self, answer: impl Into<Answer>) -> Held {
        self.end(Outcome::Ok(answer.into()));
        Held {
            recorder: self.recorder.clone(),
            id: self.id,
            path: self.path.clone(),
            open: true,
        }
    }

    /// It certainly had no effect, and will have none.
    ///
    /// A timeout or a connection that broke is no such thing; [`unknown`](Self::unknown) is for these.
    pub fn failed(mut self, reason: impl Into<String>) {
        self.end(Outcome::Failed {
            reason: reason.into(),
        });
    }

    /// Nobody knows whether it took effect, or will.
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
/// The history says that the holder relied on it until then.
#[derive(Debug)]
#[must_use = "the holder relies on the grant until this is released or dropped"]
pub struct Held {
    recorder: Recorder,
    id: u64,
    path: String,
    open: bool,
}

impl Held {
    /// The number of the call that was granted.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Says that the holder begins to give it back, and relies on it no more.
    pub fn release(mut self) -> Pending {
        self.open = false;
        let path = std::mem::take(&mut self.path);
        self.recorder.invoke(Op::Release {
            path,
            of: Some(self.id),
        })
    }

    /// Says that the holder knows it lost it, and relies on it no more.
    pub fn lost(mut self, reason: impl Into<String>) {
        self.open = false;
        self.recorder.believed_until(self.id, now(), &reason.into());
    }

    /// Says that the holder relied on it until a moment of [`now`], which may be in the past: the last one
    /// at which its guard was trusted.
    ///
    /// A later word replaces an earlier one, that of a drop included: [`forget`](Self::forget) it when all is told.
    pub fn believed_until(&self, until: u64) {
        self.recorder.believed_until(self.id, until, "");
    }

    /// Ends the recording of this grant when all is told: it says nothing more.
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
