//! The state of a proxy, for its own thread and for those who hold a handle.

use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::core::Core;
use super::core::LinkId;
use super::core::Ticket;
use super::rules::Close;
use crate::error::Error;

/// The state, and the bells that are rung when it changes.
#[derive(Debug)]
pub(super) struct Shared {
    core: Mutex<Core>,
    started: std::time::Instant,
    /// Rung after everything that happens, for those who wait for it.
    happened: watch::Sender<()>,
    /// Rung when connections are to look at what is wanted of them.
    wanted: watch::Sender<()>,
}

impl Shared {
    pub(super) fn new(core: Core) -> Self {
        Self {
            core: Mutex::new(core),
            started: std::time::Instant::now(),
            happened: watch::Sender::new(()),
            wanted: watch::Sender::new(()),
        }
    }

    /// The time of the events: since the start.
    pub(super) fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// When a time of the events is.
    pub(super) fn instant(&self, at: Duration) -> Instant {
        (self.started + at).into()
    }

    pub(super) fn look(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes something, with the time of it.
    pub(super) fn note<T>(&self, note: impl FnOnce(&mut Core, Duration) -> T) -> T {
        let noted = {
            let mut core = self.look();
            // Under the lock, so that the times in the journal only grow.
            let now = self.now();
            note(&mut core, now)
        };
        self.happened.send_replace(());
        noted
    }

    /// Changes what is wanted of the connections.
    pub(super) fn want<T>(&self, change: impl FnOnce(&mut Core) -> T) -> T {
        let changed = change(&mut self.look());
        self.wanted.send_replace(());
        self.happened.send_replace(());
        changed
    }

    /// Waits until the connection is to be cut.
    pub(super) async fn cut_wanted(&self, link: LinkId) -> Close {
        self.until_wanted(|core| core.wants_cut(link)).await
    }

    pub(super) async fn released(&self, ticket: Ticket) {
        self.until_wanted(|core| (!core.is_held(ticket)).then_some(()))
            .await;
    }

    async fn until_wanted<T>(&self, look: impl Fn(&Core) -> Option<T>) -> T {
        let mut wanted = self.wanted.subscribe();
        loop {
            if let Some(found) = look(&self.look()) {
                return found;
            }
            // The sender is in `self`, so it is there.
            drop(wanted.changed().await);
        }
    }

    /// Waits for at most `within` until `look` finds something.
    pub(super) async fn until<T>(
        &self,
        what: &str,
        within: Duration,
        mut look: impl FnMut(&Core) -> Option<T>,
    ) -> Result<T, Error> {
        let deadline = Instant::now() + within;
        let mut happened = self.happened.subscribe();
        loop {
            if let Some(found) = look(&self.look()) {
                return Ok(found);
            }
            let changed = tokio::time::timeout_at(deadline, happened.changed()).await;
            if changed.is_err() {
                return Err(Error::NotSeen {
                    what: what.to_owned(),
                    within,
                    seen: self.look().journal.tail(),
                });
            }
        }
    }
}
