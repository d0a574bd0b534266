//! Who is ahead of a waiter, as an acquire reports it while it waits, and the time limit of an acquire.

use std::pin::pin;
use std::time::Duration;

use tokio::sync::watch;
use zk_core::NodePath;

use crate::error::{AcquireError, Ahead, TimedOut};

/// What an acquire reports while it waits: which lock it waits for, and who is ahead. Clones share it.
///
/// [`Lock::acquire_reporting_to`](crate::Lock::acquire_reporting_to) keeps it up to date.
#[derive(Debug, Clone)]
pub struct AcquireProgress(watch::Sender<WaitingFor>);

#[derive(Debug)]
struct WaitingFor {
    path: NodePath,
    ahead: Option<Ahead>,
}

impl AcquireProgress {
    /// Starts to report on an acquire of the lock at `path`.
    pub fn new(path: &NodePath) -> Self {
        Self(watch::Sender::new(WaitingFor {
            path: path.clone(),
            ahead: None,
        }))
    }

    /// Returns who was ahead at the last wake-up, or at the start if there was none.
    ///
    /// `None` if the ensemble has not replied yet.
    pub fn ahead(&self) -> Option<Ahead> {
        self.0.borrow().ahead.clone()
    }

    pub(crate) fn set_ahead(&self, ahead: Ahead) {
        self.0.send_modify(|waiting| waiting.ahead = Some(ahead));
    }

    /// Continues with another lock.
    pub(crate) fn set_path(&self, path: &NodePath) {
        let (path, ahead) = (path.clone(), None);
        self.0.send_replace(WaitingFor { path, ahead });
    }

    /// Limits an acquire that reports to this value to `limit`. The error of a timeout says who was ahead.
    pub(crate) async fn within<T>(
        &self,
        limit: Duration,
        acquiring: impl Future<Output = Result<T, AcquireError>>,
    ) -> Result<T, AcquireError> {
        let acquired = tokio::time::timeout(limit, acquiring).await;
        acquired.unwrap_or_else(|_| {
            let WaitingFor { path, ahead } = &*self.0.borrow();
            Err(AcquireError::TimedOut(TimedOut {
                path: path.clone(),
                limit,
                ahead: ahead.clone(),
            }))
        })
    }

    /// Calls `on_progress` whenever an acquire that reports to this value learns who is ahead.
    pub(crate) async fn observe<T>(
        &self,
        acquiring: impl Future<Output = T>,
        mut on_progress: impl FnMut(&Ahead),
    ) -> T {
        let mut updates = self.0.subscribe();
        let mut acquiring = pin!(acquiring);
        loop {
            tokio::select! {
                biased;
                acquired = &mut acquiring => return acquired,
                // An update that is sent while `acquiring` is polled is delivered in the same poll.
                Ok(()) = updates.changed() => {
                    let ahead = updates.borrow_and_update().ahead.clone();
                    if let Some(ahead) = ahead.filter(Ahead::is_waiting) {
                        on_progress(&ahead);
                    }
                }
            }
        }
    }
}
