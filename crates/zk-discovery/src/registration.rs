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
use crate::registry::Place;
use crate::shown::shown;

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
    fate: Arc<Fate>,
    watcher: AbortHandle,
}

/// What was written last.
pub(crate) struct Current<P> {
    pub(crate) instance: Instance<P>,
    pub(crate) version: i32,
}

/// Whether and why the node is gone.
#[derive(Debug)]
struct Fate {
    loss: watch::Sender<Option<Loss>>,
    leaving: Mutex<Leaving>,
    /// The place in the registry, until the node is gone.
    place: Mutex<Option<Place>>,
}

/// Whether a removal of the node is by this registration.
#[derive(Debug, Clone, Copy)]
enum Leaving {
    No,
    /// It is being unregistered.
    Now,
    /// A request to remove it may be on its way until then.
    Until(Instant),
}

/// Why an instance is not registered any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Loss {
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
        place: Place,
    ) -> Self {
        let session = node.session().clone();
        let (path, stat) = (node.path().clone(), *node.stat());
        let fate = Arc::new(Fate {
            loss: watch::Sender::new(None),
            leaving: Mutex::new(Leaving::No),
            place: Mutex::new(Some(place)),
        });
        let watcher = session.spawn(watch_over(
            session.clone(),
            path.clone(),
            stat.czxid,
            Arc::clone(&fate),
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
            fate,
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
        self.fate.loss.borrow().is_none()
    }

    /// Waits until the instance is not registered any more, and answers why.
    ///
    /// # Cancel safety
    ///
    /// Safe, nothing happened.
    ///
    /// # Session loss
    ///
    /// [`Loss::SessionLost`].
    pub async fn lost(&self) -> Loss {
        let mut loss = self.fate.loss.subscribe();
        let found = loss.wait_for(Option::is_some).await;
        found
            .ok()
            .and_then(|loss| *loss)
            .unwrap_or(Loss::SessionLost)
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
        let mut leave = Leave::begin(&self.fate, self.session.session_timeout());
        let delete = self.session.delete(&self.path).created_by(self.czxid);
        match delete.await {
            Err(error) if error.is_fatal() => self.fate.decide(Loss::SessionLost),
            Err(error) if !error.is_no_node() => {
                if !error.is_outcome_unknown() {
                    leave.may_be_on_its_way = Duration::ZERO;
                }
                return Err(error);
            }
            _ => self.fate.decide(Loss::Unregistered),
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
    pub(crate) fn let_go(&self) {
        self.watcher.abort();
        // The removal is in line before the place is free for another registration.
        let node = self
            .node
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if node.is_some() {
            drop(node);
            self.fate.decide(Loss::Unregistered);
        }
        self.fate.free();
    }
}

impl<P> Drop for Registration<P> {
    fn drop(&mut self) {
        self.let_go();
    }
}

impl<P> fmt::Debug for Registration<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registration")
            .field("path", &shown(self.path.as_str()))
            .field("session", &self.session.id())
            .field("loss", &*self.fate.loss.borrow())
            .finish_non_exhaustive()
    }
}

impl Fate {
    /// The first word is the last one.
    fn decide(&self, loss: Loss) {
        self.free();
        self.loss.send_if_modified(|found| {
            let is_first = found.is_none();
            if is_first {
                *found = Some(loss);
            }
            is_first
        });
    }

    fn set_leaving(&self, leaving: Leaving) {
        *self.leaving.lock().unwrap_or_else(PoisonError::into_inner) = leaving;
    }

    fn is_leaving(&self) -> bool {
        match *self.leaving.lock().unwrap_or_else(PoisonError::into_inner) {
            Leaving::No => false,
            Leaving::Now => true,
            Leaving::Until(end) => Instant::now() < end,
        }
    }

    /// Lets the same be registered again.
    fn free(&self) {
        let place = self
            .place
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        drop(place);
    }
}

/// An unregistration, from its begin until it is over or dropped.
struct Leave<'a> {
    fate: &'a Fate,
    /// For how long its request may have an effect when this is dropped.
    may_be_on_its_way: Duration,
}

impl<'a> Leave<'a> {
    /// A request that is not carried out by the end of a session timeout is not any more: its connection is broken by then.
    fn begin(fate: &'a Fate, session_timeout: Duration) -> Self {
        fate.set_leaving(Leaving::Now);
        Self {
            fate,
            may_be_on_its_way: session_timeout,
        }
    }
}

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        let end = Instant::now().checked_add(self.may_be_on_its_way);
        self.fate
            .set_leaving(end.map_or(Leaving::Now, Leaving::Until));
    }
}

/// Waits until the node is gone, and says why.
async fn watch_over(session: Session, path: NodePath, czxid: i64, fate: Arc<Fate>) {
    let loss = tokio::select! {
        biased;
        _ = session.lost() => Loss::SessionLost,
        () = deleted(&session, &path, czxid) => {
            if session.is_over().await {
                Loss::SessionLost
            } else if fate.is_leaving() {
                Loss::Unregistered
            } else {
                tracing::warn!(path = %shown(path.as_str()), "a node of ours was removed by somebody");
                Loss::Deleted
            }
        }
    };
    fate.decide(loss);
}

async fn deleted(session: &Session, path: &NodePath, czxid: i64) {
    loop {
        match session.wait_for_deletion(path).created_by(czxid).await {
            Ok(()) => return,
            // The end of the session is waited for beside this.
            Err(error) if error.is_fatal() => std::future::pending().await,
            Err(error) => {
                let path = shown(path.as_str());
                tracing::warn!(path, %error, "a deletion of this node of ours would not be noticed now");
                drop(timeout(session.session_timeout() / 3, session.lost()).await);
            }
        }
    }
}
