//! Receives and answers requests to release a held lock.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future;
use zk_core::Error;

use super::edit_data::edit_data;
use super::seen_requests::NewRequest;
use super::wire_format::{self, CURATOR_REVOKE_MESSAGE, RequestAnswer};
use crate::error::LockLoss;
use crate::held::HeldLock;
use crate::held_node::HeldNode;

/// A request to release a held lock; created by [`HeldLock::revocation_requested`].
///
/// # Dropping
///
/// Leaves the request unanswered. The requester waits until its deadline and may then break the lock.
#[must_use = "the requester waits for an answer"]
pub struct RevocationRequest {
    held: Arc<HeldNode>,
    /// The id of the request in the data; `None` for a request of Curator.
    id: Option<String>,
    by: Option<String>,
    reason: Option<String>,
    deadline: Option<Instant>,
}

impl HeldLock {
    /// Returns a future that resolves with the next request to release the lock: by whom, why and until when.
    ///
    /// Each request is returned once; call this again for the next one.
    /// It understands requests of our own [`Revoke`](super::Revoke) and of Apache Curator's `Revoker`.
    /// The future does not borrow the guard, like that of [`lost`](Self::lost). While the connection is broken it
    /// waits. It is cancel safe: no request is lost.
    ///
    /// Of several nodes that are held together, a request may concern any one.
    ///
    /// A holder that does not call this receives no requests. One that does should answer within the deadline, since
    /// the requester may break the lock afterwards.
    ///
    /// Requesters are not authenticated: any client that may write the lock's node may use any name.
    ///
    /// # Errors
    ///
    /// The loss, once the lock is lost for good or released.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn step() -> bool { true }
    /// # async fn demo(guard: zk_lock::Guard) -> Result<(), Box<dyn std::error::Error>> {
    /// loop {
    ///     tokio::select! {
    ///         is_done = step() => if is_done { break },
    ///         asked = guard.revocation_requested() => {
    ///             if let Ok(request) = asked {
    ///                 request.accept().await?;
    ///             }
    ///             break;
    ///         }
    ///     }
    /// }
    /// guard.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn revocation_requested(
        &self,
    ) -> impl Future<Output = Result<RevocationRequest, LockLoss>> + Send + use<> {
        let (nodes, turn_ended) = (self.nodes().to_vec(), self.turn_ended());
        async move {
            let requests = nodes.iter().map(|node| Box::pin(requested(node)));
            tokio::select! {
                biased;
                () = turn_ended => Err(LockLoss::Released),
                (request, ..) = future::select_all(requests) => request,
            }
        }
    }
}

async fn requested(held: &Arc<HeldNode>) -> Result<RevocationRequest, LockLoss> {
    tokio::select! {
        biased;
        loss = held.lost_for_good() => Err(loss),
        request = next_request(held) => request,
    }
}

/// Waits for a request that has not been reported yet.
async fn next_request(held: &Arc<HeldNode>) -> Result<RevocationRequest, LockLoss> {
    loop {
        match held.session.get(&held.path).watched().await {
            Ok((data, stat, mut watch)) => {
                if let Some(request) = held.revocations.next(&data, stat.mzxid) {
                    return Ok(RevocationRequest::new(Arc::clone(held), request));
                }
                watch.changed().await;
            }
            Err(error) if error.is_no_node() => return Err(LockLoss::NodeDeleted),
            Err(error) if error.is_fatal() => return Err(LockLoss::SessionLost),
            Err(error) => {
                tracing::warn!(path = %held.path, %error, "lock node not read: requests to release it are not seen");
                let pause = held.session.session_timeout() / 10;
                held.session.pause(pause).await;
            }
        }
    }
}

impl RevocationRequest {
    fn new(held: Arc<HeldNode>, request: NewRequest) -> Self {
        match request {
            NewRequest::Line(line) => Self {
                held,
                id: Some(line.id),
                by: Some(line.by),
                reason: Some(line.reason).filter(|reason| !reason.is_empty()),
                deadline: deadline_after(line.within),
            },
            NewRequest::Curator => Self {
                held,
                id: None,
                by: None,
                reason: None,
                deadline: None,
            },
        }
    }

    /// Returns the name that the requester gives; `None` for a client of Curator, which gives none.
    pub fn by(&self) -> Option<&str> {
        self.by.as_deref()
    }

    /// Returns the reason, if one was given.
    pub fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    /// Returns until when the requester waits; `None` if it did not say.
    ///
    /// It is counted from when the request was seen here, which is slightly later than it was made.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Answers that the lock will be released; releasing it is left to the caller.
    ///
    /// A cohort then does not hand the lock over to another of its tasks, but gives it back to the ensemble.
    /// A request of Curator needs no such answer.
    /// It is no error if the requester has given up meanwhile.
    ///
    /// # Errors
    ///
    /// If the answer cannot be written, for example because the lock is lost.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the answer is either written or not.
    ///
    /// # Cost
    ///
    /// A read and a write; nothing for a request of Curator.
    pub async fn accept(self) -> Result<(), Error> {
        self.held.revocations.accept();
        match &self.id {
            Some(id) => {
                self.edit(|data| wire_format::put_answer(data, id, &RequestAnswer::Accepted))
                    .await
            }
            None => Ok(()),
        }
    }

    /// Answers that the lock will not be released now, and why.
    ///
    /// A client of Curator receives no answer, but its request is replaced with the owner's data, if that was read
    /// before. It is no error if the requester has given up meanwhile.
    ///
    /// # Errors
    ///
    /// If the answer cannot be written, for example because the lock is lost.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the answer is either written or not.
    ///
    /// # Cost
    ///
    /// A read and a write.
    pub async fn refuse(self, reason: &str) -> Result<(), Error> {
        let reason = reason.to_owned();
        let answer = RequestAnswer::Refused { reason };
        let owner = self.held.revocations.owner();
        self.edit(|data| match &self.id {
            Some(id) => wire_format::put_answer(data, id, &answer),
            None => owner.clone().filter(|_| data == CURATOR_REVOKE_MESSAGE),
        })
        .await
    }

    /// Changes the data of the lock's node.
    async fn edit(&self, change: impl Fn(&[u8]) -> Option<Vec<u8>>) -> Result<(), Error> {
        let node = &self.held;
        edit_data(&node.session, &node.path, node.czxid, change).await
    }
}

impl fmt::Debug for RevocationRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RevocationRequest")
            .field("path", &self.held.path)
            .field("by", &self.by)
            .field("reason", &self.reason)
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}

/// Returns the deadline by tokio's clock, which tests may pause.
fn deadline_after(within: Duration) -> Option<Instant> {
    let now = tokio::time::Instant::now().into_std();
    now.checked_add(within)
}
