//! Subscriptions: streams of what happens to nodes, which set their watches again by themselves.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Context;
use std::task::Poll;
use std::time::Duration;

use futures_util::Stream;

use crate::engine::hub::Reach;
use crate::engine::hub::Registration;
use crate::error::ErrorKind;
use crate::error::Operation;
use crate::operation::OperationFuture;
use crate::operation::Target;
use crate::path::NodePath;
use crate::transport::WatchEvent;

pub(crate) mod buffer;

use buffer::Buffer;

/// Subscribes to what happens to a node; made by [`Session::subscribe`](crate::Session::subscribe).
///
/// The node need not exist.
/// By default the subscription is told when the node itself is created or deleted and when its data changes.
///
/// # Errors
///
/// [`NotConnected`](ErrorKind::NotConnected) or [`TimedOut`](ErrorKind::TimedOut) when the watch was not set by the
/// deadline; [`TooManyWatches`](ErrorKind::TooManyWatches) when there is no room for it.
/// No permission is asked for, but what happens to a node that the session may not read is not told.
///
/// # Cancel safety
///
/// Safe, nothing is left behind.
///
/// # Session loss
///
/// A fatal error.
///
/// # Cost
///
/// One round trip, none if a watch of another subscription of this session serves it too; again after each break of the
/// connection.
/// Each change is one message of the server, however many subscriptions of the session are told of it.
#[derive(Debug, Clone)]
#[must_use = "nothing is watched until it is awaited"]
pub struct Subscribe {
    target: Target,
    reach: Reach,
    kinds: Kinds,
    most: usize,
}

impl Subscribe {
    pub(crate) fn new(target: Target) -> Self {
        Self {
            target,
            reach: Reach::Node,
            kinds: Kinds::all(),
            most: DEFAULT_BUFFER,
        }
    }

    /// Bounds the wait for the watch; the default is the session's operation timeout.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.target.timeout(timeout);
        self
    }

    /// Is told, too, when children of the node come and go, as [`WatchEvent::ChildrenChanged`] of the node.
    pub fn children(mut self) -> Self {
        self.reach = Reach::Children;
        self
    }

    /// Is told of the node and of everything below it: who is created, deleted, or has other data.
    ///
    /// There is no [`WatchEvent::ChildrenChanged`] then: children tell of themselves.
    pub fn recursive(mut self) -> Self {
        self.reach = Reach::Below;
        self
    }

    /// Is told only of changes of these kinds; default all.
    /// [`Update::Resynchronize`] and the like are told in any case.
    pub fn only(mut self, kinds: impl IntoIterator<Item = WatchEvent>) -> Self {
        self.kinds = kinds.into_iter().collect();
        self
    }

    /// Keeps at most so many changes that were not taken yet, at least one; default 1024.
    ///
    /// One more takes the place of all of them as an [`Update::Resynchronize`].
    pub fn buffer(mut self, changes: usize) -> Self {
        self.most = changes.max(1);
        self
    }
}

impl IntoFuture for Subscribe {
    type Output = Result<Subscription, crate::Error>;
    type IntoFuture = OperationFuture<Subscription>;

    fn into_future(self) -> Self::IntoFuture {
        let Self {
            target,
            reach,
            kinds,
            most,
        } = self;
        target.run(Operation::Subscribe, async move |call, path| {
            let engine = call.engine();
            let buffer = Arc::new(Buffer::new(kinds, most));
            let (registration, armed) =
                engine
                    .hub()
                    .register(call.wire(&path), reach, Arc::clone(&buffer));
            let subscription = Subscription {
                path: path.clone(),
                namespace: call.session().namespace().clone(),
                buffer,
                _registration: registration,
            };
            let fault = match call.deadline().bound(armed).await {
                Some(Ok(Ok(()))) => return Ok(subscription),
                Some(Ok(Err(fault))) => fault,
                // Nobody is there any more who could set it.
                Some(Err(_)) => crate::transport::Fault::Ended(engine.ended().await),
                None => {
                    let (kind, wanted) = if engine.is_connected() {
                        (ErrorKind::TimedOut, "a watch to be set")
                    } else {
                        (ErrorKind::NotConnected, "a connection")
                    };
                    let allowed = call.deadline().allowed();
                    return Err(call
                        .error(&path, kind)
                        .detail(format!("waited {allowed:?} for {wanted}")));
                }
            };
            Err(call.failure(&path, false, 1, &fault))
        })
    }
}

/// What a [`Subscription`] tells.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Update {
    /// Read again whatever you rely on: what happened before this may have been missed; what happens after it is told.
    ///
    /// The first update of every subscription, and told again each time the watch was set again, or more had happened
    /// than is kept.
    Resynchronize,
    /// Nothing is told until the next [`Resynchronize`](Self::Resynchronize): the connection broke, or the watch has to be
    /// set anew for the sake of others on the same node.
    Stale,
    /// A node changed.
    ///
    /// Something may have happened to it since, and a change may be told that a read after the last
    /// [`Resynchronize`](Self::Resynchronize) has seen already.
    Changed {
        /// The node, below the namespace.
        path: NodePath,
        /// How it changed; never [`WatchEvent::SessionLost`].
        event: WatchEvent,
    },
    /// The session is over. The last update.
    SessionLost,
}

/// What happens to a node, as a stream that sets its watch again by itself; made by
/// [`Session::subscribe`](crate::Session::subscribe).
///
/// Servers tell nothing of what happened while the connection was broken (ZOOKEEPER-4698). The stream says
/// [`Update::Stale`] when that begins and [`Update::Resynchronize`] when it is over, and it is for the consumer to read
/// again then. Between the two nothing is told, and after the second nothing is missed: the watch is set before it.
/// Compare what is read by `czxid` and `mzxid`: a node that was deleted and created again may have the same version.
///
/// ```no_run
/// # async fn demo(session: zk_core::Session) -> Result<(), zk_core::Error> {
/// use zk_core::Update;
///
/// let mut updates = session.subscribe("/app/config").await?;
/// while let Some(update) = updates.next().await {
///     match update {
///         Update::Resynchronize | Update::Changed { .. } => {
///             let _now = session.exists("/app/config").await?;
///         }
///         Update::Stale => { /* what was read last may be old */ }
///         _ => break,
///     }
/// }
/// # Ok(())
/// # }
/// ```
///
/// # What is kept
///
/// Updates are kept from the moment the watch is set until they are taken, so that a consumer need not be ready when they
/// come: at most so many changes as [`Subscribe::buffer`] says, then a [`Update::Resynchronize`] in their place.
/// A consumer that is slow, or never looks, holds up nobody else.
///
/// # Dropping
///
/// Takes the watch back in the background, unless other subscriptions need it.
/// It does not keep the session open.
#[must_use = "what is told is only in the stream"]
pub struct Subscription {
    path: NodePath,
    namespace: NodePath,
    buffer: Arc<Buffer>,
    _registration: Registration,
}

impl Subscription {
    /// Returns the node, below the namespace.
    pub fn path(&self) -> &NodePath {
        &self.path
    }

    /// Waits for the next update; `None` after [`Update::SessionLost`].
    ///
    /// # Cancel safety
    ///
    /// Safe, nothing is missed.
    ///
    /// # Session loss
    ///
    /// Answered as [`Update::SessionLost`], then `None`.
    pub async fn next(&mut self) -> Option<Update> {
        std::future::poll_fn(|context| self.poll(context)).await
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Update>> {
        let update = std::task::ready!(self.buffer.poll_next(context));
        Poll::Ready(update.map(|update| match update {
            Update::Changed { path, event } => Update::Changed {
                path: path.above(&self.namespace),
                event,
            },
            other => other,
        }))
    }
}

impl Stream for Subscription {
    type Item = Update;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Update>> {
        self.poll(context)
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

/// Kinds of changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kinds(u8);

impl Kinds {
    pub(crate) const fn all() -> Self {
        Self(u8::MAX)
    }

    pub(crate) const fn contains(self, event: WatchEvent) -> bool {
        self.0 & Self::bit(event) != 0
    }

    const fn bit(event: WatchEvent) -> u8 {
        match event {
            WatchEvent::Created => 1,
            WatchEvent::Deleted => 2,
            WatchEvent::DataChanged => 4,
            WatchEvent::ChildrenChanged => 8,
            WatchEvent::SessionLost => 16,
        }
    }
}

impl FromIterator<WatchEvent> for Kinds {
    fn from_iter<I: IntoIterator<Item = WatchEvent>>(events: I) -> Self {
        let bits = events.into_iter().map(Self::bit);
        Self(bits.fold(0, |all, bit| all | bit))
    }
}

const DEFAULT_BUFFER: usize = 1024;
