//! Watch events, and the persistent watches of a transport: streams that live as long as one link.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::Stream;
use zk_wire::NodePath;

/// The event that a watch reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WatchEvent {
    /// The node was created.
    Created,
    /// The node was deleted.
    Deleted,
    /// The data of the node changed.
    DataChanged,
    /// A child of the node was created or deleted.
    ChildrenChanged,
    /// The session is over; the state of the node is unknown.
    SessionLost,
}

/// A notification of a persistent watch.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "transports make these")]
pub enum WatchNotification {
    /// A node changed: the watched one or, for a recursive watch, one below it.
    Changed {
        /// The node that changed.
        path: NodePath,
        /// How; never [`WatchEvent::SessionLost`].
        event: WatchEvent,
        /// The transaction; servers before 3.9 do not send it.
        zxid: Option<i64>,
    },
    /// The link broke or the session ended. The watch does not report later changes, and this is its last notification.
    LinkLost,
}

/// A persistent watch that a server has set: a stream of [`WatchNotification`]s, complete and in the order of the
/// changes while the link lasts.
///
/// The watch does not move to the next link. Servers replay nothing for persistent watches (ZOOKEEPER-4698), so a
/// consumer has to read the node again after each break in any case. [`WatchNotification::LinkLost`] reports the break;
/// the consumer then sets a new watch before it reads.
/// Notifications are buffered without limit until they are taken.
///
/// # Dropping
///
/// Removes the watch in the background.
/// As long as the session has another watch on the same node, the client crate leaves this one on the server, where it
/// costs a message for each change.
#[must_use = "notifications that are not polled accumulate"]
pub struct Watching(Pin<Box<dyn Stream<Item = WatchNotification> + Send + Sync>>);

impl Watching {
    /// Wraps a transport's stream, which ends after [`WatchNotification::LinkLost`].
    pub fn new(
        notifications: impl Stream<Item = WatchNotification> + Send + Sync + 'static,
    ) -> Self {
        Self(Box::pin(notifications))
    }

    /// Waits for the next notification. Returns `None` after [`WatchNotification::LinkLost`].
    pub async fn next(&mut self) -> Option<WatchNotification> {
        std::future::poll_fn(|context| self.0.as_mut().poll_next(context)).await
    }
}

impl Stream for Watching {
    type Item = WatchNotification;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<WatchNotification>> {
        self.0.as_mut().poll_next(context)
    }
}

impl fmt::Debug for Watching {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Watching").finish_non_exhaustive()
    }
}
