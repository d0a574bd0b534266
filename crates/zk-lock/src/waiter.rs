//! A place in the queue of a lock, as a value.

use std::sync::Arc;

use tokio::time::Instant;
use zk_core::{NodePath, Session};

use crate::error::AcquireError;
use crate::fencing_token::FencingToken;
use crate::guard::Guard;
use crate::node_monitor::{WATCH_DELAY, node_lost, wait_until_gone};
use crate::progress::AcquireProgress;
use crate::queue::{Enlisted, Queue};

/// A place in the queue of a lock that has not been granted yet; created by
/// [`FairLock::enlist`](crate::FairLock::enlist).
///
/// # Dropping
///
/// Dropping the waiter gives up its place. The node is deleted in the background, like that of a [`Guard`].
#[derive(Debug)]
#[must_use = "the place in the queue is lost when the waiter is dropped"]
pub struct Waiter {
    queue: Arc<Queue>,
    enlisted: Enlisted,
    /// When the queue was last listed.
    listed_at: Instant,
}

impl Waiter {
    pub(crate) fn new(queue: Arc<Queue>, enlisted: Enlisted) -> Self {
        Self {
            queue,
            enlisted,
            listed_at: Instant::now(),
        }
    }

    /// Returns the path of the node that holds the place.
    pub fn path(&self) -> &NodePath {
        self.enlisted.node().path()
    }

    /// Returns the fencing token that the guard will have.
    pub fn fencing_token(&self) -> FencingToken {
        FencingToken::of(self.enlisted.node().stat())
    }

    /// Returns a future that resolves when the place is lost: its node was deleted, or the session is over.
    ///
    /// [`granted`](Self::granted) notices a deletion only at its next wake-up, which may be much later.
    /// The future does not borrow the waiter, costs one watch and is cancel safe.
    /// Once the lock is granted, use [`HeldLock::lost`](crate::HeldLock::lost).
    pub fn lost(&self) -> impl Future<Output = AcquireError> + Send + use<> {
        let session: Session = self.queue.session.clone();
        let path = self.path().clone();
        let czxid = self.enlisted.node().stat().czxid;
        async move {
            if wait_until_gone(&session, &path, czxid, None).await {
                node_lost(&session, &path).await
            } else {
                AcquireError::SessionLost { source: None }
            }
        }
    }

    /// Waits for the lock, without a time limit.
    ///
    /// # Errors
    ///
    /// The errors of [`FairLock::acquire`](crate::FairLock::acquire).
    ///
    /// # Cost
    ///
    /// None for a free lock, otherwise that of [`FairLock::acquire`](crate::FairLock::acquire) without the first
    /// round trip. One round trip more if more than ten milliseconds have passed since
    /// [`FairLock::enlist`](crate::FairLock::enlist).
    pub async fn granted(mut self) -> Result<Guard, AcquireError> {
        // An old list may grant us the lock although our node is gone since. A list as old as the time for which a
        // guard's node is not watched is no worse than that.
        if self.listed_at.elapsed() > WATCH_DELAY {
            self.queue.relist(&mut self.enlisted).await?;
        }
        let progress = AcquireProgress::new(&self.queue.path);
        let granted = self.queue.wait(self.enlisted, &progress).await?;
        Ok(self.queue.guard(granted))
    }
}
