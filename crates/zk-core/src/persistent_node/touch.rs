//! Keeps a TTL node alive by touching its child.
//!
//! Servers delete a TTL node that has no children and was not written for its time to live. The child is a TTL node, too,
//! and is written in each third of the time. So clients that watch the data of the node itself are not disturbed, and
//! when the process dies, the servers delete first the child and then the node.
//! Curator's `PersistentTtlNode` keeps a container alive in the same way. A container whose child was never created is
//! never deleted; a TTL node is.

use std::time::Duration;

use tokio::sync::watch;
use zk_wire::NodePath;

use super::options::PersistentNodeOptions;
use super::state::{PersistentNodeProblem, State};
use crate::error::Error;
use crate::session::Session;
use crate::transport::child_of;

/// Touches the child of a node, for ever.
pub(super) async fn keep_alive(
    session: &Session,
    path: &NodePath,
    options: &PersistentNodeOptions,
    state: &watch::Sender<State>,
) -> std::convert::Infallible {
    let Some(ttl) = options.time_to_live() else {
        return std::future::pending().await;
    };
    loop {
        let pause = match touch(session, path, options).await {
            Ok(()) => {
                state.send_if_modified(|state| state.problem.take().is_some());
                ttl / TOUCHES
            }
            // The caller waits for the end of the session, and for the deletion of the node.
            Err(error) if error.is_fatal() => return std::future::pending().await,
            Err(error) if error.is_no_node() => ttl / (4 * TOUCHES),
            Err(error) => {
                tracing::warn!(%path, %error, "cannot touch the child of a TTL node; retrying");
                let problem = PersistentNodeProblem::Failed(error);
                state.send_modify(|state| state.problem = Some(problem));
                ttl / (4 * TOUCHES)
            }
        };
        session.pause(pause.max(SHORTEST_PAUSE)).await;
    }
}

async fn touch(
    session: &Session,
    path: &NodePath,
    options: &PersistentNodeOptions,
) -> Result<(), Error> {
    let child = child_of(path, CHILD);
    match session.set(&child, "").await {
        Err(error) if error.is_no_node() => {}
        result => return result.map(drop),
    }
    match options.create_below(session, &child, b"").await {
        Err(error) if !error.is_node_exists() => Err(error),
        _ => Ok(()),
    }
}

/// The name of the child, as Curator's `PersistentTtlNode` has it.
pub(super) const CHILD: &str = "touch";
/// How often the child is touched in its time to live.
const TOUCHES: u32 = 3;
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);
