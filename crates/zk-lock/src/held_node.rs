//! What is known about a node that holds or held a lock: whether and why it is lost.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Instant;

use tokio::sync::watch;
use zk_core::{NodePath, OwnedNode, Session, SessionLease};

use crate::error::LockLoss;
use crate::fencing_token::FencingToken;
use crate::revoke::seen_requests::SeenRequests;

/// A node that holds or held a lock, alone or together with others.
///
/// Four things can happen to it. A release, the end of the session and the deletion of the node by another client are
/// final. The fourth is not: the session lease runs out ([`LockLoss::SessionLeaseExpired`]), and may be renewed.
pub(crate) struct HeldNode {
    pub(crate) session: Session,
    pub(crate) path: NodePath,
    /// Identifies the node among all that ever had this path.
    pub(crate) czxid: i64,
    /// Whether no other node ever has this path.
    pub(crate) has_unique_name: bool,
    pub(crate) token: FencingToken,
    pub(crate) session_lease: SessionLease,
    /// The reason of a final loss. The first one is kept.
    end: watch::Sender<Option<LockLoss>>,
    /// Whether the node is known to be gone, possibly before the reason is.
    is_node_gone: AtomicBool,
    pub(crate) revocations: SeenRequests,
}

impl HeldNode {
    /// Describes a node that holds a lock.
    pub(crate) fn new(
        session: Session,
        node: &OwnedNode,
        session_lease: SessionLease,
        token: FencingToken,
    ) -> Self {
        Self {
            session,
            path: node.path().clone(),
            czxid: node.stat().czxid,
            has_unique_name: node.is_unique(),
            token,
            session_lease,
            end: watch::Sender::new(None),
            is_node_gone: AtomicBool::new(false),
            revocations: SeenRequests::default(),
        }
    }

    /// Waits until the lock is lost or no longer known to be held.
    pub(crate) async fn lost(&self) -> LockLoss {
        let mut lost = pin!(async {
            tokio::select! {
                biased;
                loss = self.lost_for_good() => loss,
                () = self.session_lease.lapsed() => self.lapse(),
            }
        });
        poll_fn(|cx| match lost.as_mut().poll(cx) {
            Poll::Ready(loss) => Poll::Ready(loss),
            // After the process was stopped, the first task may resume before a due timer fires.
            Poll::Pending if !self.session_lease.is_valid() => Poll::Ready(self.lapse()),
            Poll::Pending => Poll::Pending,
        })
        .await
    }

    /// Waits for a final loss.
    pub(crate) async fn lost_for_good(&self) -> LockLoss {
        tokio::select! {
            biased;
            loss = self.ended() => loss,
            _ = self.session.lost() => LockLoss::SessionLost,
        }
    }

    /// Waits until the reason of a final loss is recorded. The end of the session is recorded only once the node
    /// monitor notices it.
    pub(crate) async fn ended(&self) -> LockLoss {
        let mut end = self.end.subscribe();
        let ended = end.wait_for(Option::is_some).await;
        // The sender is a field of `self`, so the channel is open.
        ended
            .ok()
            .and_then(|end| *end)
            .unwrap_or(LockLoss::Released)
    }

    /// Records the reason of a final loss; returns the earlier reason, if there is one.
    pub(crate) fn end(&self, loss: LockLoss) -> Option<LockLoss> {
        let mut earlier = None;
        self.end.send_if_modified(|end| {
            earlier = *end;
            if earlier.is_none() {
                *end = Some(loss);
            }
            earlier.is_none()
        });
        earlier
    }

    /// Records that the node is gone, before the reason is known; returns false if the lock was already over.
    pub(crate) fn mark_node_gone(&self) -> bool {
        let is_news = !self.has_ended();
        if is_news {
            self.is_node_gone.store(true, Ordering::SeqCst);
        }
        is_news
    }

    /// Returns whether the lock is over for good.
    pub(crate) fn has_ended(&self) -> bool {
        self.is_node_gone.load(Ordering::SeqCst) || self.end.borrow().is_some()
    }

    /// Returns whether the lock is certainly held.
    pub(crate) fn is_valid(&self) -> bool {
        !self.has_ended() && self.session_lease.is_valid()
    }

    /// Returns the instant until which the lock is certainly held; `None` if it is over.
    pub(crate) fn valid_until(&self) -> Option<Instant> {
        if self.has_ended() {
            return None;
        }
        self.session_lease.valid_until()
    }

    /// Returns why the lock is lost or not known to be held; `None` while it is certainly held.
    pub(crate) fn loss(&self) -> Option<LockLoss> {
        let is_lapsed = || !self.session_lease.is_valid();
        self.final_loss()
            .or_else(|| is_lapsed().then(|| self.lapse()))
    }

    /// Returns the reason of a final loss; `None` while the lock may be held.
    pub(crate) fn final_loss(&self) -> Option<LockLoss> {
        let end = *self.end.borrow();
        end.or_else(|| match self.session_lease.valid_until() {
            None => Some(LockLoss::SessionLost),
            Some(_) => self
                .is_node_gone
                .load(Ordering::SeqCst)
                .then_some(LockLoss::NodeDeleted),
        })
    }

    /// Returns why the session lease is not valid.
    fn lapse(&self) -> LockLoss {
        match self.session_lease.valid_until() {
            Some(_) => LockLoss::SessionLeaseExpired,
            None => LockLoss::SessionLost,
        }
    }
}
