//! The calls that wait for the next write of a counter, and how far each of them is.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, oneshot};

use crate::decision::{Decision, Operation};
use crate::error::CounterError;

/// An operation, and the caller that waits for it.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) operation: Operation,
    pub(crate) progress: Arc<Progress>,
    pub(crate) reply: oneshot::Sender<Result<Decision, CounterError>>,
}

/// How far a call is: it waits, is part of a write, or was withdrawn by its caller.
///
/// If its caller withdraws it while it waits, nothing was changed. If it is part of a write then, it is abandoned: that
/// write may be applied, and no other one will have it.
#[derive(Debug, Default)]
pub(crate) struct Progress(AtomicU8);

impl Progress {
    /// Makes the call part of a write. Returns false if it was withdrawn.
    pub(crate) fn begin(&self) -> bool {
        self.change(WAITING, IN_FLIGHT)
    }

    /// The write was not applied, and will not be.
    pub(crate) fn wait_again(&self) {
        if !self.change(IN_FLIGHT, WAITING) {
            self.change(ABANDONED, WITHDRAWN);
        }
    }

    /// Returns true if the call will have no effect, and false if it is part of a write.
    pub(crate) fn withdraw(&self) -> bool {
        if self.change(WAITING, WITHDRAWN) {
            return true;
        }
        // Only the caller withdraws it, but the write may end at the same time.
        !self.change(IN_FLIGHT, ABANDONED) && self.change(WAITING, WITHDRAWN)
    }

    fn is_withdrawn(&self) -> bool {
        self.0.load(Ordering::SeqCst) == WITHDRAWN
    }

    fn change(&self, from: u8, to: u8) -> bool {
        let changed = self
            .0
            .compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst);
        changed.is_ok()
    }
}

const WAITING: u8 = 0;
const IN_FLIGHT: u8 = 1;
const ABANDONED: u8 = 2;
const WITHDRAWN: u8 = 3;

/// The calls that no write has taken yet.
#[derive(Debug, Default)]
pub(crate) struct CallQueue {
    waiting: Mutex<Waiting>,
    arrived: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    calls: VecDeque<Call>,
    is_ended: bool,
}

impl CallQueue {
    /// Adds a call. Returns false if no call is taken any more.
    pub(crate) fn push(&self, call: Call) -> bool {
        let mut waiting = self.lock();
        if waiting.is_ended {
            return false;
        }
        waiting.calls.push_back(call);
        drop(waiting);
        self.arrived.notify_one();
        true
    }

    /// Takes all calls.
    pub(crate) fn take(&self) -> VecDeque<Call> {
        std::mem::take(&mut self.lock().calls)
    }

    /// Puts calls back in front, of which none had an effect.
    pub(crate) fn put_back(&self, calls: Vec<Call>) {
        let mut waiting = self.lock();
        for call in calls.into_iter().rev() {
            call.progress.wait_again();
            if !call.progress.is_withdrawn() {
                waiting.calls.push_front(call);
            }
        }
        drop(waiting);
        self.arrived.notify_one();
    }

    /// Withdraws a call, and removes it if it waits. Returns true if it will have no effect, and false if it is part of a
    /// write.
    pub(crate) fn withdraw(&self, progress: &Arc<Progress>) -> bool {
        // Within the lock, as a call may be put back at the same time.
        let mut waiting = self.lock();
        if !progress.withdraw() {
            return false;
        }
        let is_it = |call: &Call| Arc::ptr_eq(&call.progress, progress);
        let at = waiting.calls.iter().position(is_it);
        let removed = at.and_then(|at| waiting.calls.remove(at));
        drop(waiting);
        drop(removed);
        true
    }

    /// Waits until there is a call. For one waiter.
    pub(crate) async fn arrived(&self) {
        while self.lock().calls.is_empty() {
            self.arrived.notified().await;
        }
    }

    /// Takes no call any more, and drops those that wait.
    pub(crate) fn end(&self) {
        let calls = {
            let mut waiting = self.lock();
            waiting.is_ended = true;
            std::mem::take(&mut waiting.calls)
        };
        drop(calls);
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // The calls are complete at every moment, also after a panic.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(operation: Operation) -> Call {
        Call {
            operation,
            progress: Arc::default(),
            reply: oneshot::channel().0,
        }
    }

    #[test]
    fn a_call_is_withdrawn_only_while_it_waits() {
        let progress = Progress::default();
        assert!(progress.begin());
        progress.wait_again();
        assert!(progress.withdraw());
        assert!(!progress.begin());
        progress.wait_again();
        assert!(!progress.begin(), "a withdrawn call stays withdrawn");
    }

    #[test]
    fn a_call_withdrawn_from_a_write_is_part_of_no_other() {
        let progress = Progress::default();
        assert!(progress.begin());
        assert!(!progress.withdraw());
        assert!(!progress.withdraw(), "the write may be applied");
        progress.wait_again();
        assert!(!progress.begin());
    }

    #[test]
    fn queue_keeps_no_call_that_was_withdrawn() {
        let queue = CallQueue::default();
        let calls = [1, 2, 3].map(|amount| call(Operation::Add(amount)));
        let progress = calls.each_ref().map(|call| Arc::clone(&call.progress));
        for call in calls {
            assert!(queue.push(call));
        }
        assert!(queue.withdraw(&progress[1]));
        let taken = Vec::from(queue.take());
        let operations: Vec<_> = taken.iter().map(|call| call.operation).collect();
        assert_eq!(operations, [Operation::Add(1), Operation::Add(3)]);
        assert!(progress[0].begin());
        assert!(!queue.withdraw(&progress[0]), "a write has it");
        queue.put_back(taken);
        let operations: Vec<_> = queue.take().iter().map(|call| call.operation).collect();
        assert_eq!(operations, [Operation::Add(3)]);
    }

    #[test]
    fn calls_that_are_put_back_keep_their_order() {
        let queue = CallQueue::default();
        for amount in 1..=2 {
            assert!(queue.push(call(Operation::Add(amount))));
        }
        let taken = Vec::from(queue.take());
        assert!(queue.push(call(Operation::Get)));
        queue.put_back(taken);
        let operations: Vec<_> = queue.take().iter().map(|call| call.operation).collect();
        let expected = [Operation::Add(1), Operation::Add(2), Operation::Get];
        assert_eq!(operations, expected);
        queue.end();
        assert!(!queue.push(call(Operation::Get)));
    }
}
