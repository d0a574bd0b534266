//! A place in the queue of a lock.

use tokio::time::Instant;
use zk_core::NodePath;
use zk_core::Session;

use crate::error::AcquireError;
use crate::guard::FencingToken;
use crate::guard::Guard;
use crate::node_monitor;
use crate::queue::Enlisted;
use crate::queue::Progress;
use crate::queue::Queue;

/// A place in the queue of a lock, to be told about before the lock is granted; made by
/// [`FairLock::enlist`](crate::FairLock::enlist).
///
/// # Dropping
///
/// The place is lost.
/// The node is removed in the background, as that of a [`Guard`].
#[derive(Debug)]
#[must_use = "the place in the queue is lost when the waiter is dropped"]
pub struct Waiter {
    queue: Queue,
    enlisted: Enlisted,
    /// When the queue was looked at.
    looked: Instant,
}

impl Waiter {
    pub(crate) fn new(queue: Queue, enlisted: Enlisted) -> Self {
        Self {
            queue,
            enlisted,
            looked: Instant::now(),
        }
    }

    /// Returns the path of the node that keeps the place.
    pub fn path(&self) -> &NodePath {
        self.enlisted.node().path()
    }

    /// Returns the fencing token that goes with the lock once it is granted.
    pub fn fencing_token(&self) -> FencingToken {
        FencingToken::of(self.enlisted.node().stat())
    }

    /// Returns a future that resolves when the place is lost: when somebody else deleted the node, or the session is over.
    ///
    /// [`granted`](Self::granted) notices the former only at its next wake-up, which may be far away.
    /// It owns what it needs, costs one watch, and dropping it is safe.
    /// Once the lock is granted, [`Guard::lost`] is the one to look at.
    pub fn removed(&self) -> impl Future<Output = AcquireError> + Send + use<> {
        let session: Session = self.queue.session.clone();
        let path = self.path().clone();
        let czxid = self.enlisted.node().stat().czxid;
        async move {
            let loss = node_monitor::until_gone(&session, &path, czxid, None, || true).await;
            AcquireError::gone(loss, &path)
        }
    }

    /// Waits for the lock, for as long as it takes.
    ///
    /// # Errors
    ///
    /// Those of [`FairLock::acquire`](crate::FairLock::acquire).
    ///
    /// # Cancel safety
    ///
    /// Safe, the place in the queue is lost; the node is removed in the background.
    ///
    /// # Session loss
    ///
    /// [`AcquireError::SessionLost`].
    ///
    /// # Cost
    ///
    /// None for a lock that is free, otherwise that of [`FairLock::acquire`](crate::FairLock::acquire) without the first
    /// round trip; one round trip more when the waiter was left to lie for more than ten milliseconds.
    pub async fn granted(mut self) -> Result<Guard, AcquireError> {
        if self.looked.elapsed() > node_monitor::REST {
            // What was seen then may say that it is our turn, and our node may be gone since.
            self.queue.look_again(&mut self.enlisted).await?;
        }
        let granted = self.queue.wait(self.enlisted, &Progress::default()).await?;
        Ok(Guard::granted(&self.queue.session, granted))
    }
}
