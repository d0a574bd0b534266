//! The commands to the task of the watch manager.

use std::sync::Arc;

use tokio::sync::oneshot;
use zk_wire::NodePath;

use super::update_buffer::UpdateBuffer;
use super::watch_table::{Id, WatchScope};
use crate::transport::TransportError;

/// What the watch manager is asked to do.
#[derive(Debug)]
pub(crate) enum Command {
    Subscribe {
        id: Id,
        path: NodePath,
        scope: WatchScope,
        buffer: Arc<UpdateBuffer>,
        armed: oneshot::Sender<Result<(), TransportError>>,
    },
    Unsubscribe {
        id: Id,
    },
    /// A one-shot watch was set, removed or answered on a node that the watch manager watches.
    Disturbed {
        path: NodePath,
    },
}
