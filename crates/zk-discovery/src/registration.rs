//! An instance that is registered.

use std::fmt;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tokio::time::timeout;
use zk_core::Error;
use zk_core::NodePath;
use zk_core::OwnedNode;
use zk_core::Session;
use zk_core::SessionId;

use crate::instance::Instance;
use crate::layout::Format;
use crate::redact::redact;
use crate::registry::PathReservation;

/// An instance that is registered, until this is dropped.
///
/// It says when it is gone, see [`lost`](Self::lost), and is not put again by itself:
/// [`keep_registered`](crate::Registry::keep_registered) does that.
/// It keeps its session open, as each clone of that does.
///
/// # Dropping
///
/// The instance is unregistered in the background, by the session's own task; its node, and never one that took its place.
/// [`Session::settled`] and [`Session::close`] wait for that.
#[must_use = "the instance is unregistered when this is dropped"]
pub struct Registration<P> {
    pub(crate) session: Session,
    pub(crate) path: NodePath,
    pub(crate) czxid: i64,
    pub(crate) format: Arc<dyn Format<P>>,
    /// Held over an update: one after the other.
    pub(crate) current: tokio::sync::Mutex<Current<P>>,
    node: Mutex<Option<OwnedNode>>,
    state: Arc<RegistrationState>,
    watcher: AbortHandle,
}

/// What was written last.
pub(crate) struct Current<P> {
    pub(crate) instance: Instance<P>,
    pub(crate) version: i32,
}

/// Whether and why the node is gone.
#[derive(Debug)]
struct RegistrationState {
    loss: watch::Sender<Option<RegistrationLoss>>,
    unregistering: Mutex<Unregistering>,
    /// The place in the registry, until the node is gone.
    reservation: Mutex<Option<PathReservation>>,
}

/// Whether a removal of the node is by this registration.
#[derive(Debug, Clone, Copy)]
enum Unregistering {
    No,
    /// It is being unregistered.
    Now,
    /// A request to remove it may be on its way until then.
    Until(Instant),
}

/// Why an instance is not registered any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum RegistrationLoss {
    /// The session is over. Register with the next one.
    #[error("the session is over")]
    SessionLost,
    /// Somebody has removed the node.
    ///
    /// For a session timeout after an [`unregister`](Registration::unregister) that was dropped, or of which nobody knows
    /// what became, its removal is taken for that one's.
    #[error("somebody has removed the node")]
    Deleted,
    /// It was [unregistered](Registration::unregister).
    #[error("it was unregistered")]
    Unregistered,
}

impl<P: 'static> Registration<P> {
    pub(crate) fn new(
        instance: Instance<P>,
        node: OwnedNode,
        format: Arc<dyn Format<P>>,
        reservation: PathReservation,
    ) -> Self {
        let session = node.session().clone();
        let (path, stat) = (node.path().clone(), *node.stat());
        let state = Arc::new(RegistrationState {
            loss: watch::Sender::new(None),
            unregistering: Mutex::new(Unregistering::No),
            reservation: Mutex::new(Some(reservation)),
        });
        let watcher = session.spawn(watch_over(
            session.clone(),
            path.clone(),
            stat.czxid,
            Arc::clone(&state),
        ));
        Self {
            session,
            path,
            czxid: stat.czxid,
            format,
            current: tokio::sync::Mutex::new(Current {
                instance,
                version: stat.version,
            }),
            node: Mutex::new(Some(node)),
            state,
            watcher: watcher.abort_handle(),
        }
    }

    /// Returns the node of the instance.
    pub fn path(&self) -> &NodePath {
        &self.path
    }

    /// Returns the session that the node goes with, for
    /// [`succeeding`](crate::Registry::succeeding) of the next session's registry.
    pub fn session_id(&self) -> SessionId {
        self.session.id()
    }

    /// Tells whether the instance is registered as far as is known here. Asks nobody.
    ///
    /// While the connection is broken that is what was known before.
    pub fn is_registered(&self) -> bool {
        self.state.loss.borrow().is_none()
    }

    /// Waits until the instance is not registered any more, and answers why.
    ///
    /// # Cancel safety
    ///
    /// Safe, nothing happened.
    ///
    /// # Session loss
    ///
    /// [`RegistrationLoss::SessionLost`].
    pub async fn lost(&self) -> RegistrationLoss {
        let mut loss = self.state.loss.subscribe();
        let found = loss.wait_for(Option::is_some).await;
        found
            .ok()
            .and_then(|loss| *loss)
            .unwrap_or(RegistrationLoss::SessionLost)
    }

    /// Returns the instance as it was written last.
    ///
    /// # Cancel safety
    ///
    /// Safe, nothing happened.
    pub async fn instance(&self) -> Instance<P>
    where
        P: Clone,
    {
        self.current.lock().await.instance.clone()
    }

    /// Unregisters the instance, and waits until the ensemble has done it, at most for the operation timeout.
    ///
    /// Only the node of this registration is removed, never one that took its place.
    /// That it is gone already is no error, and so it may be called again and again.
    ///
    /// # Errors
    ///
    /// When it is not known to be gone: call it again, or drop this, and the removal continues in the background.
    ///
    /// # Cancel safety
    ///
    /// Safe: it may be removed or not, and can be called again.
    ///
    /// # Session loss
    ///
    /// No error: the node goes with the session.
    pub async fn unregister(&self) -> Result<(), Error> {
        if !self.is_registered() {
            return Ok(());
        }
        let mut leave = UnregisterCall::begin(&self.state, self.session.session_timeout());
        let delete = self.session.delete(&self.path).created_by(self.czxid);
        match delete.await {
            Err(error) if error.is_fatal() => self.state.set_loss(RegistrationLoss::SessionLost),
            Err(error) if !error.is_no_node() => {
                if !error.is_outcome_unknown() {
                    leave.in_flight_for = Duration::ZERO;
                }
                return Err(error);
            }
            _ => self.state.set_loss(RegistrationLoss::Unregistered),
        }
        let node = self
            .node
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        drop(node.map(OwnedNode::keep));
        Ok(())
    }
}

impl<P> Registration<P> {
    /// Does what dropping it does.
    pub(crate) fn unregister_in_background(&self) {
        self.watcher.abort();
        // The removal is in line before the place is free for another registration.
        let node = self
            .node
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if node.is_some() {
            drop(node);
            self.state.set_loss(RegistrationLoss::Unregistered);
        }
        self.state.free_path();
    }
}

impl<P> Drop for Registration<P> {
    fn drop(&mut self) {
        self.unregister_in_background();
    }
}

impl<P> fmt::Debug for Registration<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registration")
            .field("path", &redact(self.path.as_str()))
            .field("session", &self.session.id())
            .field("loss", &*self.state.loss.borrow())
            .finish_non_exhaustive()
    }
}

impl RegistrationState {
    /// The first word is the last one.
    fn set_loss(&self, loss: RegistrationLoss) {
        self.free_path();
        self.loss.send_if_modified(|found| {
            let is_first = found.is_none();
            if is_first {
                *found = Some(loss);
            }
            is_first
        });
    }

    fn set_unregistering(&self, unregistering: Unregistering) {
        *self
            .unregistering
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = unregistering;
    }

    fn is_unregistering(&self) -> bool {
        match *self
            .unregistering
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
        {
            Unregistering::No => false,
            Unregistering::Now => true,
            Unregistering::Until(end) => Instant::now() < end,
        }
    }

    /// Lets the same be registered again.
    fn free_path(&self) {
        let reservation = self
            .reservation
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        drop(reservation);
    }
}

/// An unregistration, from its begin until it is over or dropped.
struct UnregisterCall<'a> {
    state: &'a RegistrationState,
    /// For how long its request may have an effect when this is dropped.
    in_flight_for: Duration,
}

impl<'a> UnregisterCall<'a> {
    /// A request that is not carried out by the end of a session timeout is not any more: its connection is broken by then.
    fn begin(state: &'a RegistrationState, session_timeout: Duration) -> Self {
        state.set_unregistering(Unregistering::Now);
        Self {
            state,
            in_flight_for: session_timeout,
        }
    }
}

impl Drop for UnregisterCall<'_> {
    fn drop(&mut self) {
        let end = Instant::now().checked_add(self.in_flight_for);
        self.state
            .set_unregistering(end.map_or(Unregistering::Now, Unregistering::Until));
    }
}

/// Waits until the node is gone, and says why.
async fn watch_over(session: Session, path: NodePath, czxid: i64, state: Arc<RegistrationState>) {
    let loss = tokio::select! {
        biased;
        _ = session.lost() => RegistrationLoss::SessionLost,
        () = deleted(&session, &path, czxid) => {
            if session.is_over().await {
                RegistrationLoss::SessionLost
            } else if state.is_unregistering() {
                RegistrationLoss::Unregistered
            } else {
                tracing::warn!(path = %redact(path.as_str()), "a node of ours was removed by somebody");
                RegistrationLoss::Deleted
            }
        }
    };
    state.set_loss(loss);
}

async fn deleted(session: &Session, path: &NodePath, czxid: i64) {
    loop {
        match session.wait_for_deletion(path).created_by(czxid).await {
            Ok(()) => return,
            // The end of the session is waited for beside this.
            Err(error) if error.is_fatal() => std::future::pending().await,
            Err(error) => {
                let path = redact(path.as_str());
                tracing::warn!(path, %error, "a deletion of this node of ours would not be noticed now");
                drop(timeout(session.session_timeout() / 3, session.lost()).await);
            }
        }
    }
}
