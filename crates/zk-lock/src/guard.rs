//! A lock that is held.

use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Instant;

use tokio::sync::watch;
use zk_core::ErrorClass;
use zk_core::NodePath;
use zk_core::OwnedNode;
use zk_core::Session;
use zk_core::Stat;
use zk_core::Transaction;
use zk_core::Trusted;
use zk_core::Watch;

use crate::error::AcquireError;
use crate::error::Loss;
use crate::error::ReleaseError;
use crate::node_monitor::Keeper;
use crate::queue::Granted;
use crate::retry::proved;
use crate::revoke::Memory;

/// A lock that is held.
///
/// It is a value: it may be moved to other tasks and threads, and whoever has it owns the lock.
///
/// A guard does not stop time.
/// When its process is paused or cut off for longer than the session timeout, the ensemble gives the lock to the next
/// one, while code under the guard may be in the middle of something.
/// Three things help, from the weakest to the strongest:
///
/// - [`lost`](Self::lost) tells of it, so that work can be stopped;
/// - [`is_trusted`](Self::is_trusted) asks, right before something that must not be done without the lock;
/// - [`fencing_token`](Self::fencing_token) lets the resource itself refuse what comes too late, and
///   [`txn`](Self::txn) does so for writes to ZooKeeper. Only these two are safe whatever happens in between.
///
/// # Dropping
///
/// At once, [`lost`](Self::lost) resolves for whoever holds such a future.
/// The request to delete the node leaves at once if there is a connection, before any later one of this session: a
/// `try_acquire` right behind the drop finds the lock free.
/// It is repeated in the background over connection losses, until the node or the session is gone.
/// [`Session::settled`] and [`Session::close`] wait for that; [`release`](Self::release) also tells how it went.
/// If the process dies, the ensemble deletes the node when it expires the session.
#[must_use = "the lock is released when the guard is dropped"]
pub struct Guard {
    /// `None` once it is being released.
    node: Option<OwnedNode>,
    held: Arc<Held>,
    _keeper: Keeper,
}

/// What is known of a lock that is or was held.
pub(crate) struct Held {
    pub(crate) session: Session,
    pub(crate) path: NodePath,
    /// Which node it is that has this path.
    pub(crate) czxid: i64,
    pub(crate) token: FencingToken,
    pub(crate) trusted: Trusted,
    /// Why it is over for good. The first reason stays.
    end: watch::Sender<Option<Loss>>,
    /// Whether the node was seen to be gone, for whatever reason.
    is_gone: AtomicBool,
    pub(crate) revocations: Memory,
}

impl Guard {
    /// Makes a guard for one whose turn it is.
    pub(crate) fn granted(session: &Session, granted: Granted) -> Self {
        let Granted {
            node,
            trusted,
            watch,
        } = granted;
        let token = FencingToken::of(node.stat());
        let guard = Self::watched(session.clone(), node, trusted, token, watch);
        tracing::debug!(path = %guard.path(), token = %guard.fencing_token(), "lock acquired");
        guard
    }

    /// Makes a guard of a node that is what it takes to hold the lock.
    pub(crate) fn new(session: Session, node: OwnedNode, trusted: Trusted) -> Self {
        let token = FencingToken::of(node.stat());
        Self::watched(session, node, trusted, token, None)
    }

    /// Makes a guard of a node that goes on with the lock, and so with the token, of another one.
    pub(crate) fn with_token(
        session: Session,
        node: OwnedNode,
        trusted: Trusted,
        token: FencingToken,
    ) -> Self {
        Self::watched(session, node, trusted, token, None)
    }

    /// Makes a guard of a node that is first in its queue, of a session known to be alive.
    fn watched(
        session: Session,
        node: OwnedNode,
        trusted: Trusted,
        token: FencingToken,
        watch: Option<Watch>,
    ) -> Self {
        let held = Arc::new(Held {
            session,
            path: node.path().clone(),
            czxid: node.stat().czxid,
            token,
            trusted,
            end: watch::Sender::new(None),
            is_gone: AtomicBool::new(false),
            revocations: Memory::default(),
        });
        Self {
            _keeper: Keeper::spawn(&held, watch),
            node: Some(node),
            held,
        }
    }

    /// Returns a number that is higher for every later holder of the lock.
    ///
    /// Pass it along with whatever is done under the lock, and let the resource remember the highest one it has seen
    /// and refuse lower ones: then nothing that a holder does too late gets through.
    ///
    /// It is the `czxid` of the lock's node, a number of 64 bits that grows with every creation in the whole ensemble.
    /// (The number in the node's name is no such token: it restarts when an idle parent is removed.)
    pub fn fencing_token(&self) -> FencingToken {
        self.held.token
    }

    /// Returns the path of the lock's node.
    pub fn path(&self) -> &NodePath {
        &self.held.path
    }

    /// Returns a future that resolves when the lock is lost, or no longer known to be held.
    ///
    /// It owns what it needs: it may be moved to another task and outlive the guard, whose release resolves it, too.
    /// After [`Loss::TrustLapsed`] the lock may turn out to be held after all, see [`is_trusted`](Self::is_trusted);
    /// the other losses are final.
    ///
    /// A deletion of the node by somebody else is noticed from about ten milliseconds after the acquire on, and about
    /// a round trip after it happened; one that happened before is noticed then.
    ///
    /// Each poll of it looks at the clock: polled first, as by a `select!` that is `biased`, it answers before other
    /// code goes on after a stop of the process.
    /// Dropping the future is safe.
    pub fn lost(&self) -> impl Future<Output = Loss> + Send + use<> {
        let held = Arc::clone(&self.held);
        async move { held.lost().await }
    }

    /// Tells whether the lock is certainly held, as far as this client has proof. Asks nobody.
    ///
    /// That is so while the ensemble cannot have expired the session (see [`Trusted`] for what this rests on) and
    /// nothing was heard of a deletion of the node.
    /// It may be false for a while, when the connection is broken, and true again when the session has survived:
    /// then the lock was held all the time.
    ///
    /// An answer is about the moment it is given, of course: what is done next may happen a pause of the process
    /// later. See [`fencing_token`](Self::fencing_token) for the cure.
    pub fn is_trusted(&self) -> bool {
        !self.held.is_over() && self.held.trusted.is_trusted()
    }

    /// Returns the instant until which the lock is certainly held, if nobody deletes its node.
    ///
    /// While the session is connected it moves on by itself.
    /// `None` when the lock is lost.
    pub fn trusted_until(&self) -> Option<Instant> {
        if self.held.is_over() {
            return None;
        }
        self.held.trusted.until()
    }

    /// Starts a transaction that is refused unless the lock is held at the moment the ensemble carries it out.
    ///
    /// Its first part checks the lock's node; add what is to be done.
    /// A transaction of a lock that is lost changes nothing: it ends as
    /// [`NoNode`](zk_core::ErrorKind::NoNode) with [`failed_part`](zk_core::Error::failed_part) zero, or with a
    /// fatal error.
    pub fn txn(&self) -> Transaction {
        self.held.session.transaction().check(&self.held.path)
    }

    /// What is known of it, for those who hold several.
    pub(crate) fn held(&self) -> &Arc<Held> {
        &self.held
    }

    /// Why it is not held any more, for good; `None` while it may be.
    pub(crate) fn loss(&self) -> Option<Loss> {
        self.held.loss()
    }

    /// Releases the lock and waits until the ensemble has carried that out.
    ///
    /// The deletion is repeated over connection losses, until the session's operation timeout.
    ///
    /// # Errors
    ///
    /// [`ReleaseError::Lost`] when the lock had been lost before, whatever the reason.
    /// [`ReleaseError::Pending`] when there was no answer in time: the release goes on in the background.
    /// [`ReleaseError::Refused`] when the session may create the lock's node but not delete it.
    ///
    /// # Cancel safety
    ///
    /// Safe, the release continues in the background.
    ///
    /// # Session loss
    ///
    /// [`ReleaseError::Lost`], since the lock went with the session.
    ///
    /// # Cost
    ///
    /// One round trip.
    pub async fn release(mut self) -> Result<(), ReleaseError> {
        let path = self.held.path.clone();
        let Some(node) = self.node.take() else {
            return Ok(());
        };
        if let Some(loss) = self.held.end(Loss::Released) {
            return Err(ReleaseError::Lost { path, loss });
        }
        // Not the node's own delete: it makes no difference who deleted it, and here that is the question.
        let mut delete = self.held.session.delete(&path);
        if !node.is_unique() {
            delete = delete.created_by(node.stat().czxid);
        }
        let deleted = delete.await;
        // The keeper stays until here, so that its watch ends by itself instead of being taken back.
        match deleted {
            Ok(()) => {
                node.keep();
                Ok(())
            }
            Err(error) if error.is_no_node() => {
                node.keep();
                let loss = Loss::NodeDeleted;
                Err(ReleaseError::Lost { path, loss })
            }
            // In all other cases dropping the node goes on with it.
            Err(source) => Err(match source.class() {
                ErrorClass::Fatal => ReleaseError::Lost {
                    path,
                    loss: Loss::SessionLost,
                },
                ErrorClass::Outcome => ReleaseError::Refused { path, source },
                ErrorClass::Recoverable => ReleaseError::Pending { path, source },
            }),
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // Dropping the node deletes it.
        self.held.end(Loss::Released);
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("path", &self.held.path)
            .field("fencing_token", &self.held.token)
            .field("is_trusted", &self.is_trusted())
            .finish_non_exhaustive()
    }
}

impl Held {
    /// Notes that it is over, and answers the reason if it already was.
    pub(crate) fn end(&self, loss: Loss) -> Option<Loss> {
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

    /// Notes that the node is gone, before it is known why; false if it is over anyway, such as by our own release.
    pub(crate) fn noticed_gone(&self) -> bool {
        let is_news = !self.is_over();
        if is_news {
            self.is_gone.store(true, Ordering::SeqCst);
        }
        is_news
    }

    /// Tells whether it is over for good.
    pub(crate) fn is_over(&self) -> bool {
        self.is_gone.load(Ordering::SeqCst) || self.end.borrow().is_some()
    }

    /// Why it is over for good.
    fn loss(&self) -> Option<Loss> {
        let told = *self.end.borrow();
        told.or_else(|| match self.trusted.until() {
            None => Some(Loss::SessionLost),
            Some(_) => self
                .is_gone
                .load(Ordering::SeqCst)
                .then_some(Loss::NodeDeleted),
        })
    }

    /// Waits until it is over for good, and the reason is known.
    pub(crate) async fn ended(&self) -> Loss {
        let mut end = self.end.subscribe();
        let ended = end.wait_for(Option::is_some).await;
        // The sender is a part of `self`.
        ended.ok().and_then(|end| *end).unwrap_or(Loss::Released)
    }

    /// Waits until it is over for good; a proof that has run out may be renewed.
    pub(crate) async fn lost_for_good(&self) -> Loss {
        tokio::select! {
            biased;
            loss = self.ended() => loss,
            _ = self.session.lost() => Loss::SessionLost,
        }
    }

    /// Makes sure that the session is alive, however long it takes to know.
    pub(crate) async fn proved(&self) -> Result<(), AcquireError> {
        proved(&self.session, &self.trusted).await
    }

    pub(crate) async fn lost(&self) -> Loss {
        let mut told = pin!(async {
            tokio::select! {
                biased;
                loss = self.ended() => loss,
                _ = self.session.lost() => Loss::SessionLost,
                () = self.trusted.lapsed() => self.lapse(),
            }
        });
        poll_fn(|cx| match told.as_mut().poll(cx) {
            Poll::Ready(loss) => Poll::Ready(loss),
            // After a stop of the process, a timer that is due has not fired yet when the first task goes on.
            Poll::Pending if !self.trusted.is_trusted() => Poll::Ready(self.lapse()),
            Poll::Pending => Poll::Pending,
        })
        .await
    }

    /// Why the session is not trusted.
    fn lapse(&self) -> Loss {
        match self.trusted.until() {
            Some(_) => Loss::TrustLapsed,
            None => Loss::SessionLost,
        }
    }
}

/// A number that grows with each grant of a lock, for resources that refuse whoever comes with a lower one than
/// somebody before.
///
/// Tokens of all locks of one ensemble are from one series.
/// An ensemble set up anew, with empty disks, begins a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(u64);

impl FencingToken {
    /// Makes a token of its number, such as a resource has stored.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Returns the number.
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    pub(crate) const fn of(stat: &Stat) -> Self {
        Self(stat.czxid.cast_unsigned())
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}
