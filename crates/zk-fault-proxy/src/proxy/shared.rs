//! Shares the state of a proxy between its thread and the handles, with waiting for changes.

use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::core::Core;
use super::core::HoldId;
use super::core::LinkId;
use super::rules::Close;
use crate::error::Error;

/// The state, and the channels that signal its changes.
#[derive(Debug)]
pub(super) struct Shared {
    core: Mutex<Core>,
    started: std::time::Instant,
    /// Signals every change.
    changed: watch::Sender<()>,
    /// Signals a change of what connections have to do: a cut or a release.
    requested: watch::Sender<()>,
}

impl Shared {
    pub(super) fn new(core: Core) -> Self {
        Self {
            core: Mutex::new(core),
            started: std::time::Instant::now(),
            changed: watch::Sender::new(()),
            requested: watch::Sender::new(()),
        }
    }

    /// Returns the time since the start, as in the events.
    pub(super) fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// Converts a time of an event.
    pub(super) fn instant(&self, at: Duration) -> Instant {
        (self.started + at).into()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports something to the core, with its time.
    pub(super) fn report<T>(&self, report: impl FnOnce(&mut Core, Duration) -> T) -> T {
        let result = {
            let mut core = self.lock();
            // Under the lock, so that the times in the journal never decrease.
            let now = self.now();
            report(&mut core, now)
        };
        self.changed.send_replace(());
        result
    }

    /// Changes what connections have to do.
    pub(super) fn request<T>(&self, change: impl FnOnce(&mut Core) -> T) -> T {
        let result = change(&mut self.lock());
        self.requested.send_replace(());
        self.changed.send_replace(());
        result
    }

    /// Waits until a cut of the connection is requested.
    pub(super) async fn cut_requested(&self, link: LinkId) -> Close {
        self.until_requested(|core| core.requested_cut(link)).await
    }

    pub(super) async fn released(&self, hold: HoldId) {
        self.until_requested(|core| (!core.is_held(hold)).then_some(()))
            .await;
    }

    async fn until_requested<T>(&self, find: impl Fn(&Core) -> Option<T>) -> T {
        let mut requested = self.requested.subscribe();
        loop {
            if let Some(found) = find(&self.lock()) {
                return found;
            }
            // It cannot fail: the sender is in `self`.
            drop(requested.changed().await);
        }
    }

    /// Waits at most `within` until `find` returns a value.
    pub(super) async fn until<T>(
        &self,
        what: &str,
        within: Duration,
        mut find: impl FnMut(&Core) -> Option<T>,
    ) -> Result<T, Error> {
        let deadline = Instant::now() + within;
        let mut changed = self.changed.subscribe();
        loop {
            if let Some(found) = find(&self.lock()) {
                return Ok(found);
            }
            let changed = tokio::time::timeout_at(deadline, changed.changed()).await;
            if changed.is_err() {
                return Err(Error::NotSeen {
                    what: what.to_owned(),
                    within,
                    seen: self.lock().journal.tail(),
                });
            }
        }
    }
}
