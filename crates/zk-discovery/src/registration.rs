//! A registered instance: its node, and the task that watches for its loss.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use zk_core::{Error, NodePath, OwnedNode, Session, SessionBound, SessionId, Stat};

use crate::instance::Instance;
use crate::layout::Format;
use crate::redact::redact;
use crate::reserved_paths::PathReservation;

/// Keeps an instance registered until dropped, or for ever if it is [static or permanent](crate::ServiceType).
///
/// [`lost`](Self::lost) reports when the instance is no longer registered. It is not registered again automatically;
/// see [`keep_registered`](crate::Registry::keep_registered).
/// Like each clone of the session, it keeps the session open.
///
/// # Dropping
///
/// A dynamic instance is unregistered in the background, by the session's own task. Only its own node is removed, never
/// one that replaced it. A static or permanent one stays: [`unregister`](Self::unregister) it, or register it again to
/// get another handle.
/// [`Session::settled`] and [`Session::close`] wait for that.
#[must_use = "a dynamic instance is unregistered when this is dropped"]
pub struct Registration<P> {
    pub(crate) session: Session,
    pub(crate) path: NodePath,
    pub(crate) czxid: i64,
    pub(crate) format: Arc<dyn Format<P>>,
    /// Locked during an update, which serialises updates.
    pub(crate) current: tokio::sync::Mutex<Current<P>>,
    /// The node of a dynamic instance.
    node: Mutex<Option<OwnedNode>>,
    is_persistent: bool,
    state: Arc<RegistrationState>,
    watcher: AbortHandle,
}

/// The node of an instance that was registered.
pub(crate) enum RegisteredNode {
    /// It is removed when dropped.
    Owned(OwnedNode),
    Persistent {
        session: Session,
        path: NodePath,
        stat: Stat,
    },
}

/// The instance as last written.
pub(crate) struct Current<P> {
    pub(crate) instance: Instance<P>,
    pub(crate) version: i32,
}

/// Whether the instance is registered, and why it no longer is.
#[derive(Debug)]
struct RegistrationState {
    loss: watch::Sender<Option<RegistrationLoss>>,
    unregistering: Mutex<Unregistering>,
    /// The reservation of the path in the registry, until the node is gone.
    reservation: Mutex<Option<PathReservation>>,
}

/// Whether a removal of the node was requested by this registration.
#[derive(Debug, Clone, Copy)]
enum Unregistering {
    No,
    /// An unregistration is in progress.
    Now,
    /// A delete request may be in flight until then.
    Until(Instant),
}

/// Why an instance is no longer registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum RegistrationLoss {
    /// The session is over. Register with the next one.
    ///
    /// A static or permanent instance is still registered, but no longer watched.
    #[error("the session is over")]
    SessionLost,
    /// Another client removed the node.
    ///
    /// For one session timeout after an [`unregister`](Registration::unregister) that was dropped or whose outcome is
    /// unknown, a removal is attributed to that call and reported as [`Unregistered`](Self::Unregistered).
    #[error("another client removed the node")]
    Deleted,
    /// It was [unregistered](Registration::unregister).
    #[error("the instance was unregistered")]
    Unregistered,
}

impl<P: 'static> Registration<P> {
    pub(crate) fn new(
        instance: Instance<P>,
        node: RegisteredNode,
        format: Arc<dyn Format<P>>,
        reservation: PathReservation,
    ) -> Self {
        let (session, path, stat, node) = match node {
            RegisteredNode::Owned(node) => {
                let session = node.session().clone();
                (session, node.path().clone(), *node.stat(), Some(node))
            }
            RegisteredNode::Persistent {
                session,
                path,
                stat,
            } => (session, path, stat, None),
        };
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
            is_persistent: node.is_none(),
            node: Mutex::new(node),
            state,
            watcher: watcher.abort_handle(),
        }
    }

    /// Returns the node of the instance.
    pub fn path(&self) -> &NodePath {
        &self.path
    }

    /// Returns the session that owns the node, or that registered a persistent one, for
    /// [`succeeding`](crate::Registry::succeeding) of the next session's registry.
    pub fn session_id(&self) -> SessionId {
        self.session.id()
    }

    /// Returns whether the instance is registered, as far as this process knows. Sends no request.
    ///
    /// While the connection is broken, this is the last known state.
    pub fn is_registered(&self) -> bool {
        self.state.loss.borrow().is_none()
    }

    /// Waits until the instance is no longer registered, and returns why.
    pub async fn lost(&self) -> RegistrationLoss {
        let mut loss = self.state.loss.subscribe();
        let found = loss.wait_for(Option::is_some).await;
        found
            .ok()
            .and_then(|loss| *loss)
            .unwrap_or(RegistrationLoss::SessionLost)
    }

    /// Returns the instance as last written.
    pub async fn instance(&self) -> Instance<P>
    where
        P: Clone,
    {
        self.current.lock().await.instance.clone()
    }

    /// Unregisters the instance, and waits for the ensemble to confirm it, for at most the operation timeout.
    ///
    /// Only the node of this registration is removed, never one that replaced it.
    /// The call succeeds if the node is already gone, so it may be repeated.
    /// A dynamic instance is gone with its session. To unregister a static or permanent one after its session,
    /// register it with the next one first.
    ///
    /// # Errors
    ///
    /// If the node is not known to be gone. Call it again, or drop the registration to continue in the background.
    ///
    /// # Cancel safety
    ///
    /// Safe: the node may or may not be removed. Call it again.
    ///
    /// # Session loss
    ///
    /// No error: the node ends with the session. A fatal error if the instance is static or permanent.
    pub async fn unregister(&self) -> Result<(), Error> {
        let loss = *self.state.loss.borrow();
        let stays = self.is_persistent && loss == Some(RegistrationLoss::SessionLost);
        if loss.is_some() && !stays {
            return Ok(());
        }
        let mut leave = UnregisterCall::begin(&self.state, self.session.session_timeout());
        let delete = self.session.delete(&self.path).created_by(self.czxid);
        match delete.await {
            Err(error) if error.is_fatal() => {
                self.state.set_loss(RegistrationLoss::SessionLost);
                if self.is_persistent {
                    return Err(error);
                }
            }
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
    /// Unregisters a dynamic instance as a drop does. A persistent one stays, and is watched while a handle is left.
    pub(crate) fn unregister_in_background(&self) {
        if self.is_persistent {
            return;
        }
        self.watcher.abort();
        // Queue the removal before the path becomes free for another registration.
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

impl<P: Send + Sync + 'static> SessionBound for Registration<P> {
    type Loss = RegistrationLoss;

    async fn lost(&self) -> RegistrationLoss {
        Self::lost(self).await
    }
}

impl<P> Drop for Registration<P> {
    fn drop(&mut self) {
        self.unregister_in_background();
        self.watcher.abort();
        self.state.free_path();
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
    /// Sets the loss, unless one was set before.
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

    /// Frees the path for another registration.
    fn free_path(&self) {
        let reservation = self
            .reservation
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        drop(reservation);
    }
}

/// A call of `unregister`, from its start until it returns or is dropped.
struct UnregisterCall<'a> {
    state: &'a RegistrationState,
    /// How long the delete request may still take effect after the drop.
    in_flight_for: Duration,
}

impl<'a> UnregisterCall<'a> {
    /// A request takes effect within one session timeout or never: after that time its connection is broken.
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

/// Waits until the node is gone, and records why.
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
                tracing::warn!(path = %redact(path.as_str()), "another client removed a registered node");
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
            // The caller waits for the end of the session.
            Err(error) if error.is_fatal() => std::future::pending().await,
            Err(error) => {
                let path = redact(path.as_str());
                tracing::warn!(path, %error, "cannot watch a registered node; retrying");
                session.pause(session.session_timeout() / 3).await;
            }
        }
    }
}
