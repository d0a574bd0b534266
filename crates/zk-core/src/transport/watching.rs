//! Persistent watches at the boundary: streams that live as long as one link.

use std::fmt;
use std::pin::Pin;
use std::task::Context;
use std::task::Poll;

use futures_util::Stream;

use super::WatchEvent;
use crate::path::NodePath;

/// What a persistent watch tells.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "transports make these")]
pub enum WatchNotification {
    /// A node changed: the one under watch, or, of a recursive watch, one below it.
    Changed {
        /// The node that changed.
        path: NodePath,
        /// How; never [`WatchEvent::SessionLost`].
        event: WatchEvent,
        /// The transaction; servers before 3.9 do not tell it.
        zxid: Option<i64>,
    },
    /// The link broke, or the session ended: whatever happens from here on is not told. Nothing comes after it.
    LinkLost,
}

/// A persistent watch that a server has set: a stream of [`WatchNotification`]s, complete and in the order of the changes while
/// the link lasts.
///
/// It is not carried over to the next link. Servers replay nothing for persistent watches (ZOOKEEPER-4698), so that
/// whoever follows a node has to look at it again after each break anyway; [`WatchNotification::LinkLost`] says when, and the watch
/// that is set before that look takes the place of this one.
/// Notices are kept until they are taken, without limit.
///
/// # Dropping
///
/// Takes the watch back, in the background.
/// As long as the session has another watch on the same node, the client crate leaves it with the server, where it costs
/// a message for each change.
#[must_use = "what nobody polls piles up"]
pub struct Watching(Pin<Box<dyn Stream<Item = WatchNotification> + Send + Sync>>);

impl Watching {
    /// Makes one of what a transport has; the stream ends after [`WatchNotification::LinkLost`].
    pub fn new(notices: impl Stream<Item = WatchNotification> + Send + Sync + 'static) -> Self {
        Self(Box::pin(notices))
    }

    /// Waits for the next notice; `None` after [`WatchNotification::LinkLost`].
    ///
    /// # Cancel safety
    ///
    /// Safe, nothing is missed.
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
