//! The lease that a leader's task sees, and the state of the leadership behind it.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::watch;
use zk_core::{Acl, NodePath, Session, Transaction};
use zk_lock::{FencingToken, Guard, ReadGuard};

use crate::error::{LeadershipLoss, ResignError};
use crate::step_down::StepDownRequest;

/// A leadership, as its task sees it. It can be cloned and kept.
///
/// A lease reports whether the leadership lasts; it does not prolong the leadership.
/// Once the leadership is over, its lease never changes again. A participant that leads again has a new lease with a
/// higher token.
///
/// If the process is paused or cut off for longer than the session timeout, the ensemble lets the next participant lead
/// while code of this leader may still run.
/// [`fencing_token`](Self::fencing_token) and [`txn`](Self::txn) are safe even then;
/// [what a lock guarantees](zk_lock#guarantees) explains why.
///
/// # Dropping
///
/// Nothing happens.
#[derive(Clone)]
pub struct LeaderLease {
    state: Arc<LeadershipState>,
}

/// The shared state of a leadership.
pub(crate) struct LeadershipState {
    session: Session,
    /// The ACL of the nodes of the election; `None` for that of the session.
    acl: Option<Acl>,
    path: NodePath,
    token: FencingToken,
    /// `None` once the leadership is over and its owner has noticed.
    guard: Mutex<Option<Guard>>,
    /// Why the leadership is over. Only the first reason is kept.
    end: watch::Sender<Option<LeadershipLoss>>,
    /// Whether the leader is requested to resign.
    is_resign_requested: watch::Sender<bool>,
    /// The result of the deletion of its node.
    node: watch::Sender<Option<Result<(), ResignError>>>,
    /// Where it receives requests to step down, if it does.
    inbox: watch::Sender<Option<ReadGuard>>,
    #[cfg(feature = "metrics")]
    since: tokio::time::Instant,
}

impl LeaderLease {
    /// Returns a number that is higher for every later leader.
    ///
    /// Pass it along with each action of the leader. A resource that remembers the highest token and refuses lower ones
    /// rejects the late actions of a former leader.
    pub fn fencing_token(&self) -> FencingToken {
        self.state.token
    }

    /// Returns the path of the leader's node.
    pub fn path(&self) -> &NodePath {
        &self.state.path
    }

    /// Returns whether this leadership certainly lasts. Sends no request.
    ///
    /// See [`HeldLock::is_valid`](zk_lock::HeldLock::is_valid) for the assumptions.
    /// After the first `false` it stays `false`, and the leader steps down: a late proof does not restore the
    /// leadership.
    pub fn is_valid(&self) -> bool {
        self.state.is_valid()
    }

    /// Returns the instant until which the leadership certainly lasts, as long as no client deletes its node.
    ///
    /// While the session is connected, later calls return later instants.
    /// Returns `None` if the leadership is over.
    pub fn valid_until(&self) -> Option<Instant> {
        self.state.valid_until()
    }

    /// Returns a future that resolves when the leadership is over or no longer proven, which ends it.
    ///
    /// The future is `'static` and can be moved to another task.
    /// Each poll reads the clock: if it is polled first, as in a `biased` `select!`, it resolves before other code
    /// continues after a pause of the process.
    /// It is safe to drop the future.
    pub fn lost(&self) -> impl Future<Output = LeadershipLoss> + Send + use<> {
        let state = Arc::clone(&self.state);
        async move { state.lost().await }
    }

    /// Returns a future that resolves when the leader is requested to resign and should finish its current work.
    ///
    /// The task of a [`Selector`](crate::Selector) then has the [grace](crate::ElectionOptions::with_grace) before it
    /// is dropped, and leads until it ends.
    /// The future also resolves when the leadership is over.
    /// It is safe to drop the future.
    pub fn asked_to_resign(&self) -> impl Future<Output = ()> + Send + use<> {
        let state = Arc::clone(&self.state);
        async move {
            tokio::select! {
                biased;
                () = state.resign_requested() => {}
                _ = state.lost() => {}
            }
        }
    }

    /// Starts a transaction that the ensemble applies only if this leadership still lasts.
    ///
    /// Its first part checks that the leader's node exists. Add the operations to it.
    /// A transaction of a leadership that is over changes nothing: it fails with
    /// [`NoNode`](zk_core::ErrorKind::NoNode) and [`failed_part`](zk_core::Error::failed_part) zero, or with a
    /// fatal error.
    pub fn txn(&self) -> Transaction {
        self.state.session.transaction().check(&self.state.path)
    }

    pub(crate) const fn new(state: Arc<LeadershipState>) -> Self {
        Self { state }
    }

    pub(crate) const fn state(&self) -> &Arc<LeadershipState> {
        &self.state
    }
}

impl fmt::Debug for LeaderLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaderLease")
            .field("path", &self.state.path)
            .field("fencing_token", &self.state.token)
            .field("is_valid", &self.is_valid())
            .finish_non_exhaustive()
    }
}

impl LeadershipState {
    pub(crate) fn new(session: &Session, acl: Option<&Acl>, guard: Guard) -> Arc<Self> {
        Arc::new(Self {
            session: session.clone(),
            acl: acl.cloned(),
            path: guard.path().clone(),
            token: guard.fencing_token(),
            guard: Mutex::new(Some(guard)),
            end: watch::Sender::new(None),
            is_resign_requested: watch::Sender::new(false),
            node: watch::Sender::new(None),
            inbox: watch::Sender::new(None),
            #[cfg(feature = "metrics")]
            since: tokio::time::Instant::now(),
        })
    }

    pub(crate) const fn session(&self) -> &Session {
        &self.session
    }

    pub(crate) const fn acl(&self) -> Option<&Acl> {
        self.acl.as_ref()
    }

    pub(crate) const fn path(&self) -> &NodePath {
        &self.path
    }

    pub(crate) const fn token(&self) -> FencingToken {
        self.token
    }

    /// Takes the guard out; `None` if it was taken before.
    pub(crate) fn take_guard(&self) -> Option<Guard> {
        self.guard().take()
    }

    /// Records the end of the leadership. Returns the reason, which may be an earlier one.
    pub(crate) fn end(&self, loss: LeadershipLoss) -> LeadershipLoss {
        let mut reason = loss;
        self.end.send_if_modified(|end| {
            let is_first = end.is_none();
            reason = *end.get_or_insert(loss);
            #[cfg(feature = "metrics")]
            if is_first {
                crate::metrics::leadership_ended(reason, self.since.elapsed());
            }
            is_first
        });
        reason
    }

    /// Requests the leader to resign.
    pub(crate) fn request_resign(&self) {
        self.is_resign_requested.send_replace(true);
    }

    /// Waits until the leader is requested to resign.
    pub(crate) async fn resign_requested(&self) {
        // Never an error: `self` owns the sender.
        drop(
            self.is_resign_requested
                .subscribe()
                .wait_for(|it| *it)
                .await,
        );
    }

    /// Receives requests to step down here, until the leadership is over.
    pub(crate) fn set_inbox(&self, inbox: ReadGuard) {
        self.inbox.send_replace(Some(inbox));
        if self.end.borrow().is_some() {
            self.inbox.send_replace(None);
        }
    }

    /// Waits for the next request to step down.
    pub(crate) async fn step_down_requested(
        self: &Arc<Self>,
    ) -> Result<StepDownRequest, LeadershipLoss> {
        let mut inbox = self.inbox.subscribe();
        loop {
            let request = {
                let inbox = inbox.borrow_and_update();
                inbox.as_ref().map(|inbox| inbox.revocation_requested())
            };
            let request = async {
                match request {
                    Some(request) => match request.await {
                        Ok(request) => request,
                        // Another inbox follows, or the end of the leadership.
                        Err(_) => std::future::pending().await,
                    },
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                loss = self.lost() => return Err(loss),
                request = request => return Ok(StepDownRequest::new(request, Arc::clone(self))),
                // Never an error: `self` owns the sender.
                _ = inbox.changed() => {}
            }
        }
    }

    /// Waits until the leadership is over and the result of the deletion of its node is known.
    pub(crate) async fn removed(&self) -> Result<(), ResignError> {
        let mut node = self.node.subscribe();
        let removal = node.wait_for(Option::is_some).await;
        // Never an error: `self` owns the sender.
        removal.ok().and_then(|it| it.clone()).unwrap_or(Ok(()))
    }

    /// Ends the leadership, and deletes its node in the background.
    pub(crate) fn abandon(&self, loss: LeadershipLoss) {
        let reason = self.end(loss);
        drop(self.take_guard());
        // After the leader's node: a requester that sees it gone looks whether the leader is gone, too.
        self.inbox.send_replace(None);
        let path = self.path.clone();
        self.record_removal(Err(match reason {
            LeadershipLoss::Resigned => ResignError::Pending { path, source: None },
            loss => ResignError::Lost(loss),
        }));
    }

    /// Records the result of the deletion of its node. Only the first one is kept.
    pub(crate) fn record_removal(&self, removal: Result<(), ResignError>) {
        self.node.send_if_modified(|node| {
            let is_first = node.is_none();
            node.get_or_insert(removal);
            is_first
        });
    }

    pub(crate) async fn lost(&self) -> LeadershipLoss {
        let mut end = self.end.subscribe();
        // The returned reference is dropped at once: it would lock the reason.
        let ended = async move { drop(end.wait_for(Option::is_some).await) };
        let lost = self.guard().as_ref().map(|guard| guard.lost());
        let lost = async {
            match lost {
                Some(lost) => LeadershipLoss::of(lost.await),
                // The leadership is over, and `ended` resolves.
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = ended => self.end(LeadershipLoss::Resigned),
            loss = lost => self.end(loss),
        }
    }

    pub(crate) fn is_valid(&self) -> bool {
        if self.end.borrow().is_some() {
            return false;
        }
        let (is_valid, is_over) = match self.guard().as_ref() {
            Some(guard) if guard.is_valid() => (true, false),
            // The guard reports a final end with its reason.
            Some(guard) => (false, guard.valid_until().is_none()),
            None => (false, true),
        };
        if !is_valid && !is_over {
            self.end(LeadershipLoss::SessionLeaseExpired);
        }
        is_valid
    }

    fn valid_until(&self) -> Option<Instant> {
        if self.end.borrow().is_some() {
            return None;
        }
        self.guard().as_ref().and_then(|guard| guard.valid_until())
    }

    fn guard(&self) -> MutexGuard<'_, Option<Guard>> {
        // Nothing panics while it is locked.
        self.guard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
