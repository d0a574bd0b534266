//! Deletions of this session that are not finished, for attempts that must not wait for other holders.

use zk_core::{NodePath, Session};

/// Whether the session had unfinished deletions at a path or directly below it, when this value was created.
///
/// The deletion of the node of a dropped guard or waiter normally leaves before any later request of the session. It
/// does not if there was no connection, or if the create was dropped before its reply reported the number of the node.
/// An attempt that must not wait for other holders therefore records this before it lists, and lists again if it finds
/// a predecessor that may be one of these nodes.
#[derive(Debug)]
pub(crate) struct PendingDeletes<'a> {
    session: &'a Session,
    path: &'a NodePath,
    any: bool,
}

impl<'a> PendingDeletes<'a> {
    pub(crate) fn at(session: &'a Session, path: &'a NodePath) -> Self {
        Self {
            session,
            path,
            any: !session.is_settled_at(path),
        }
    }

    /// Waits until they are finished, for at most an operation timeout; returns false if there were none.
    pub(crate) async fn wait(&self) -> bool {
        if self.any {
            let limit = self.session.operation_timeout();
            let settled = self.session.settled_at(self.path);
            if tokio::time::timeout(limit, settled).await.is_err() {
                tracing::debug!(path = %self.path, "the session still has unfinished deletions here");
            }
        }
        self.any
    }
}
