//! The time to run: how long one delivery may take before its own process gives the claim up.
//!
//! It needs no node and no request: a task of the process waits, and then releases the claim as if it was dropped. The
//! servers decide between that release and a late acknowledgement, whichever reaches them first.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::held_claim::{HeldClaim, release_in_background};
use crate::deadline::Deadline;

/// The time that one delivery may still take. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct TimeToRun {
    limit: Duration,
    /// When it is over; `None` while the claim is being settled. It does not change any more once it is over.
    end: Arc<watch::Sender<Option<Deadline>>>,
}

impl TimeToRun {
    /// Begins now.
    pub(super) fn begin(limit: Duration) -> Self {
        let (end, _) = watch::channel(Some(Deadline::after(limit)));
        Self {
            limit,
            end: Arc::new(end),
        }
    }

    /// Begins the time again, unless it is over or the claim is being settled.
    pub(super) fn touch(&self) {
        self.change(|end| end.map(|_| Deadline::after(self.limit)));
    }

    /// Stops the time, unless it is over: a claim that is being settled is not given up.
    pub(super) fn stop(&self) {
        self.change(|_| None);
    }

    /// Begins the time again if it is stopped.
    pub(super) fn restart(&self) {
        self.change(|end| end.or_else(|| Some(Deadline::after(self.limit))));
    }

    pub(super) fn is_over(&self) -> bool {
        self.end.borrow().is_some_and(Deadline::is_over)
    }

    /// Waits until the time is over. Returns false if all clones are dropped before.
    pub(super) fn over(&self) -> impl Future<Output = bool> + Send + use<> {
        let mut end = self.end.subscribe();
        async move {
            loop {
                let next = *end.borrow_and_update();
                let next = next.unwrap_or_else(Deadline::never);
                match next.bound(end.changed()).await {
                    // A change just before the end may have been made after it was looked for.
                    None if end.borrow().is_some_and(Deadline::is_over) => return true,
                    None | Some(Ok(())) => {}
                    Some(Err(_)) => return false,
                }
            }
        }
    }

    fn change(&self, change: impl FnOnce(Option<Deadline>) -> Option<Deadline>) {
        self.end.send_if_modified(|end| {
            if end.is_some_and(Deadline::is_over) {
                return false;
            }
            *end = change(*end);
            true
        });
    }
}

impl HeldClaim {
    /// Gives the claim up when its time to run is over, also if its holder no longer does anything.
    pub(super) fn limit_time_to_run(&self) {
        let Some(time_to_run) = &self.time_to_run else {
            return;
        };
        let (over, limit) = (time_to_run.over(), time_to_run.limit);
        // The task keeps neither the claim nor the tokens of its queue.
        let (queue, identity) = (Arc::downgrade(&self.queue), self.identity.clone());
        drop(self.queue.session.spawn(async move {
            if over.await
                && let Some(queue) = queue.upgrade()
            {
                tracing::warn!(path = %identity.item, ?limit, "the claim is given up, because its time to run is over");
                release_in_background(&queue, &identity);
            }
        }));
    }
}
