//! Subscriptions: streams of node changes, which set their watches again after a connection loss.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::Stream;
use zk_wire::NodePath;

use crate::engine::watch_manager::Registration;
use crate::engine::watch_manager::update_buffer::UpdateBuffer;
use crate::engine::watch_manager::watch_table::WatchScope;
use crate::error::{ErrorKind, Operation};
use crate::operation::{OperationFuture, Target};
use crate::transport::WatchEvent;
use crate::update::{Kinds, Update};

/// A request to subscribe to the changes of a node; created by [`Session::subscribe`](crate::Session::subscribe).
///
/// The node need not exist.
/// By default the subscription reports when the node is created or deleted and when its data changes.
///
/// # Errors
///
/// [`NotConnected`](ErrorKind::NotConnected) or [`TimedOut`](ErrorKind::TimedOut) if the watch was not set by the
/// deadline.
/// The call needs no permission, but the server does not report changes of a node that the session may not read.
///
/// # Cost
///
/// One round trip, or none if another subscription of this session has a watch that covers it; again after each
/// connection loss.
/// The server sends each change once, however many subscriptions of the session report it.
#[derive(Debug, Clone)]
#[must_use = "no watch is set until it is awaited"]
pub struct Subscribe {
    target: Target,
    scope: WatchScope,
    kinds: Kinds,
    most: usize,
}

impl Subscribe {
    pub(crate) fn new(target: Target) -> Self {
        Self {
            target,
            scope: WatchScope::Node,
            kinds: Kinds::all(),
            most: DEFAULT_BUFFER,
        }
    }

    /// Sets how long to wait for the watch. Default: the session's operation timeout.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.target.timeout(timeout);
        self
    }

    /// Also reports [`WatchEvent::ChildrenChanged`] when children of the node are created or deleted.
    pub fn children(mut self) -> Self {
        self.scope = WatchScope::Children;
        self
    }

    /// Reports creations, deletions and data changes of the node and of all nodes below it.
    ///
    /// It reports no [`WatchEvent::ChildrenChanged`], because each child has events of its own.
    pub fn recursive(mut self) -> Self {
        self.scope = WatchScope::Below;
        self
    }

    /// Reports only changes of these kinds. Default: all.
    ///
    /// [`Update::Resynchronize`], [`Update::Stale`] and [`Update::SessionLost`] are always reported.
    pub fn only(mut self, kinds: impl IntoIterator<Item = WatchEvent>) -> Self {
        self.kinds = kinds.into_iter().collect();
        self
    }

    /// Sets how many changes are buffered for the consumer, at least one. Default: 1024.
    ///
    /// If another change arrives, one [`Update::Resynchronize`] replaces all of them.
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
            scope,
            kinds,
            most,
        } = self;
        target.run(Operation::Subscribe, async move |call, path| {
            let engine = call.engine();
            let buffer = Arc::new(UpdateBuffer::new(kinds, most));
            let watch_manager = call.session().watch_manager();
            let (registration, armed) =
                watch_manager.register(call.wire(&path), scope, Arc::clone(&buffer));
            let subscription = Subscription {
                path: path.clone(),
                namespace: call.session().defaults().namespace.clone(),
                buffer,
                _registration: registration,
            };
            let fault = match call.deadline().bound(armed).await {
                Some(Ok(Ok(()))) => return Ok(subscription),
                Some(Ok(Err(fault))) => fault,
                // The task that sets watches has ended with the session.
                Some(Err(_)) => crate::transport::TransportError::Ended(engine.ended().await),
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

/// A stream of the changes of a node, which sets its watch again after a connection loss; created by
/// [`Session::subscribe`](crate::Session::subscribe).
///
/// Servers do not report changes that happened while the connection was broken (ZOOKEEPER-4698). The stream yields
/// [`Update::Stale`] when the connection breaks and [`Update::Resynchronize`] when the watch is set again; the consumer
/// then reads again. No change is reported between the two, and none is missed after the second.
/// Compare reads by `czxid` and `mzxid`: a node that was deleted and created again may have the same version.
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
///         Update::Stale => { /* the last read may be out of date */ }
///         _ => break,
///     }
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Buffering
///
/// Updates are buffered from the moment the watch is set until the consumer takes them, up to [`Subscribe::buffer`]
/// changes; one [`Update::Resynchronize`] replaces those that do not fit.
/// A slow or idle consumer delays no other consumer.
///
/// # Dropping
///
/// The watch is removed in the background, unless other subscriptions need it.
/// A subscription does not keep the session open.
#[must_use = "updates are only delivered through the stream"]
pub struct Subscription {
    path: NodePath,
    namespace: NodePath,
    buffer: Arc<UpdateBuffer>,
    _registration: Registration,
}

impl Subscription {
    /// Returns the path of the node, relative to the namespace.
    pub fn path(&self) -> &NodePath {
        &self.path
    }

    /// Waits for the next update. Returns `None` after [`Update::SessionLost`].
    pub async fn next(&mut self) -> Option<Update> {
        std::future::poll_fn(|context| self.poll(context)).await
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Update>> {
        let update = std::task::ready!(self.buffer.poll_next(context));
        Poll::Ready(update.map(|update| match update {
            Update::Changed { path, event, zxid } => Update::Changed {
                path: path.relative_to(&self.namespace).unwrap_or(path),
                event,
                zxid,
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

const DEFAULT_BUFFER: usize = 1024;
