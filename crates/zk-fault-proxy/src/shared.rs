//! Shares a state between the thread that relays and the handles, with waiting for changes.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

/// A state, its clock, and the channel that signals its changes.
#[derive(Debug)]
pub(crate) struct Shared<T> {
    state: Mutex<T>,
    started: std::time::Instant,
    changed: watch::Sender<()>,
}

impl<T> Shared<T> {
    pub(crate) fn new(state: T) -> Self {
        Self {
            state: Mutex::new(state),
            started: std::time::Instant::now(),
            changed: watch::Sender::new(()),
        }
    }

    /// Returns the time since the start.
    pub(crate) fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// Waits until this time since the start.
    pub(crate) async fn pause_until(&self, due: Duration) {
        if due > self.now() {
            pause_until((self.started + due).into()).await;
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state and signals it. Under the lock, so that the times of successive changes never decrease.
    pub(crate) fn change<R>(&self, change: impl FnOnce(&mut T, Duration) -> R) -> R {
        let result = {
            let mut state = self.lock();
            let now = self.now();
            change(&mut state, now)
        };
        self.changed.send_replace(());
        result
    }

    /// Waits until `find` returns a value.
    pub(crate) async fn until<R>(&self, find: impl Fn(&T) -> Option<R>) -> R {
        self.until_signalled(&self.changed, find).await
    }

    /// Waits until `find` returns a value, and calls it again only after this signal.
    pub(crate) async fn until_signalled<R>(
        &self,
        signal: &watch::Sender<()>,
        find: impl Fn(&T) -> Option<R>,
    ) -> R {
        let mut signalled = signal.subscribe();
        loop {
            if let Some(found) = find(&self.lock()) {
                return found;
            }
            // It cannot fail: the caller has the sender.
            drop(signalled.changed().await);
        }
    }
}

/// Waits until this instant.
pub(crate) async fn pause_until(due: Instant) {
    #[expect(clippy::disallowed_methods, reason = "the delay is the purpose")]
    tokio::time::sleep(due.saturating_duration_since(Instant::now())).await;
}
