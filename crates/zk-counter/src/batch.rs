//! The calls of one write of a counter: what it makes of the data, and the replies to its callers.

use std::sync::Arc;

use zk_core::{Error, NodePath};

use crate::call_queue::{Call, CallQueue};
use crate::decision::{Decision, decide_all};
use crate::error::{CounterError, excerpt};
use crate::format::Format;

/// The calls of one write. They belong to it from before its first request, so that each of them has a reply, whatever
/// that request comes to.
///
/// # Dropping
///
/// Its callers see that there will be no reply.
#[derive(Debug)]
pub(crate) struct Batch {
    queue: Arc<CallQueue>,
    format: Format,
    calls: Vec<Call>,
    decisions: Vec<Decision>,
    /// The data, if it is not a number.
    found: Option<String>,
}

impl Batch {
    /// Takes the calls that wait.
    pub(crate) fn new(queue: &Arc<CallQueue>, format: Format) -> Self {
        Self {
            queue: Arc::clone(queue),
            format,
            calls: queue.take().into(),
            decisions: Vec::new(),
            found: None,
        }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Returns whether all calls only read.
    pub(crate) fn is_read_only(&self) -> bool {
        self.calls.iter().all(|call| !call.operation.is_write())
    }

    /// Returns the new data, or `None` if it is to stay as it is.
    ///
    /// It is called once for each attempt, and no attempt before had an effect. Calls that arrived meanwhile join a
    /// write, which succeeds only if the data is the newest. Without a write they stay in the queue, because the data may
    /// have been read before they began.
    pub(crate) fn change(&mut self, data: &[u8]) -> Option<Vec<u8>> {
        let changed = self.decide(data)?;
        let joining = self.queue.take();
        if joining.is_empty() {
            return Some(changed);
        }
        self.calls.extend(joining);
        // If they restore the number, that is written, so that the reply is of one moment for all of them.
        self.decide(data).or_else(|| Some(data.to_vec()))
    }

    /// Decides what becomes of the calls of the batch, without those that were withdrawn. Returns the new data, or
    /// `None` if it is to stay as it is.
    pub(crate) fn decide(&mut self, data: &[u8]) -> Option<Vec<u8>> {
        for call in &self.calls {
            call.progress.wait_again();
        }
        self.calls.retain(|call| call.progress.begin());
        self.decisions.clear();
        self.found = None;
        let Some(before) = self.format.decode(data) else {
            self.found = Some(excerpt(data));
            return None;
        };
        let operations = self.calls.iter().map(|call| call.operation);
        let (after, decisions) = decide_all(self.format, before, operations);
        self.decisions = decisions;
        if after == before {
            return None;
        }
        self.format.encode(after)
    }

    /// Replies to the callers: what the last attempt decided has happened.
    pub(crate) fn done(&mut self, path: &NodePath) {
        let decisions = self.decisions.drain(..);
        let found = self.found.take();
        let mut decisions = decisions.map(Ok).chain(std::iter::repeat_with(|| {
            Err(CounterError::NotACounter {
                path: path.clone(),
                expected: self.format.expected(),
                found: found.clone().unwrap_or_default(),
            })
        }));
        for (call, decision) in self.calls.drain(..).zip(&mut decisions) {
            reply(call, decision);
        }
    }

    /// Replies to the callers that the write failed.
    pub(crate) fn failed(&mut self, error: &Error) {
        for call in self.calls.drain(..) {
            reply(call, Err(CounterError::Failed(error.clone())));
        }
    }

    /// Lets the calls wait for another write, as nothing was changed.
    pub(crate) fn put_back(&mut self) {
        self.queue.put_back(std::mem::take(&mut self.calls));
    }
}

fn reply(call: Call, result: Result<Decision, CounterError>) {
    // The caller may be gone.
    drop(call.reply.send(result));
}
