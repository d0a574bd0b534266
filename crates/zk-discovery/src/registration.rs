//! An instance that is registered.

use std::fmt;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;

use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use zk_core::Error;
use zk_core::ErrorKind;
use zk_core::NodePath;
use zk_core::OwnedNode;
use zk_core::Session;
use zk_core::SessionId;

use crate::error::UpdateError;
use crate::instance::Instance;
use crate::layout::Format;
use crate::registry::Place;

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
    session: Session,
    path: NodePath,
    czxid: i64,
    format: Arc<dyn Format<P>>,
    /// Held over an update: one after the other.
    current: tokio::sync::Mutex<Current<P>>,
    node: Mutex<Option<OwnedNode>>,
    fate: Arc<Fate>,
    watcher: AbortHandle,
}

/// What was written last.
struct Current<P> {
    instance: Instance<P>,
    version: i32,
}

/// Whether and why the node is gone.
#[derive(Debug)]
struct Fate {
    loss: watch::Sender<Option<Loss>>,
    is_leaving: AtomicBool,
    /// The place in the registry, until the node is gone.
    place: Mutex<Option<Place>>,
}

/// Why an instance is not registered any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Loss {
    /// The session is over. Register with the next one.
    #[error("the session is over")]
    SessionLost,
    /// Somebody has removed the node.
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
            is_leaving: AtomicBool::new(false),
            place: Mutex::new(Some(place)),
        });
        let watcher = tokio::spawn(watch_over(
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

    /// Changes the instance in place: its node is written, and never removed and made again.
    ///
    /// `change` is applied to what the node has now, also if somebody else has written there meanwhile, and so may be called
    /// more than once; to what was written last, if what the node has cannot be read.
    /// Nothing is written if nothing changes.
    /// Updates of one registration are made one after the other.
    ///
    /// # Errors
    ///
    /// [`UpdateError::Gone`] when the instance is not registered any more; a node that has taken its place is not touched,
    /// unless it does so between the look and the write and was written as often: ZooKeeper has no write under a
    /// transaction.
    /// [`UpdateError::Failed`] with [`ErrorKind::OutcomeUnknown`] when it may have been written; update again.
    ///
    /// # Cancel safety
    ///
    /// Not safe: it may be written or not. Update again; each update begins with what is there.
    ///
    /// # Session loss
    ///
    /// [`UpdateError::Failed`] with a fatal error.
    ///
    /// # Cost
    ///
    /// Two round trips, and two more for each time that somebody else writes between them.
    pub async fn update(
        &self,
        mut change: impl FnMut(&mut Instance<P>) + Send,
    ) -> Result<(), UpdateError>
    where
        P: Clone + Send + Sync,
    {
        let gone = || UpdateError::Gone {
            path: self.path.clone(),
        };
        let mut current = self.current.lock().await;
        for _ in 0..ROUNDS {
            // A server that lags shows what it was, and the write would be refused.
            let (synced, read) = tokio::join!(
                biased;
                self.session.sync(&self.path).into_future(),
                self.session.get(&self.path).into_future(),
            );
            synced?;
            let (data, stat) = match read {
                Err(error) if error.is_no_node() => return Err(gone()),
                read => read?,
            };
            if stat.czxid != self.czxid {
                return Err(gone());
            }
            let mut instance = current.instance.clone();
            if stat.version != current.version
                && let Some(node) = self.path.name()
                && let Ok(found) = self.format.decode(&instance.name, node, &data)
            {
                instance = found;
            }
            change(&mut instance);
            let entry = self.format.encode(&instance)?;
            if Some(entry.name.as_str()) != self.path.name() {
                return Err(UpdateError::OtherNode {
                    path: self.path.clone(),
                });
            }
            if entry.data == data {
                *current = Current {
                    instance,
                    version: stat.version,
                };
                return Ok(());
            }
            // Whoever else has written the same to this node has done what was asked for.
            let set = self.session.set(&self.path, entry.data);
            match set.version(stat.version).idempotent().await {
                Ok(stat) => {
                    let version = stat.version;
                    *current = Current { instance, version };
                    return Ok(());
                }
                Err(error) if error.is_no_node() => return Err(gone()),
                Err(error) if error.kind() == ErrorKind::BadVersion => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(UpdateError::Contended {
            path: self.path.clone(),
            rounds: ROUNDS,
        })
    }

    /// Replaces the payload in place.
    ///
    /// # Errors
    ///
    /// Those of [`update`](Self::update).
    ///
    /// # Cancel safety
    ///
    /// Not safe, see [`update`](Self::update).
    ///
    /// # Session loss
    ///
    /// [`UpdateError::Failed`] with a fatal error.
    pub async fn set_payload(&self, payload: P) -> Result<(), UpdateError>
    where
        P: Clone + Send + Sync,
    {
        self.update(|instance| instance.set_payload(payload.clone()))
            .await
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
        self.fate.is_leaving.store(true, Ordering::SeqCst);
        let delete = self.session.delete(&self.path).created_by(self.czxid);
        match delete.await {
            Err(error) if error.is_fatal() => self.fate.decide(Loss::SessionLost),
            Err(error) if !error.is_no_node() => return Err(error),
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

impl<P> Drop for Registration<P> {
    fn drop(&mut self) {
        self.watcher.abort();
        // The removal is in line before the place is free for another registration.
        let node = self
            .node
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        drop(node);
        self.fate.free();
    }
}

impl<P> fmt::Debug for Registration<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registration")
            .field("path", &self.path)
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

/// Waits until the node is gone, and says why.
async fn watch_over(session: Session, path: NodePath, czxid: i64, fate: Arc<Fate>) {
    let loss = tokio::select! {
        biased;
        () = session.lost() => Loss::SessionLost,
        () = deleted(&session, &path, czxid) => {
            // A server tells that a session has expired after it has told of its nodes.
            let asked = session.exists(&path).into_future();
            match timeout(session.session_timeout() / 10, asked).await {
                Ok(Err(error)) if error.is_fatal() => Loss::SessionLost,
                _ if fate.is_leaving.load(Ordering::SeqCst) => Loss::Unregistered,
                _ => Loss::Deleted,
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
                tracing::warn!(%path, %error, "a deletion of this node of ours would not be noticed now");
                drop(timeout(session.session_timeout() / 3, session.lost()).await);
            }
        }
    }
}

/// How often an update is tried while others write.
const ROUNDS: u32 = 8;
