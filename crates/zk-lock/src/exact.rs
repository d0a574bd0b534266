//! Deleting one certain node, and never one that took its place.

use zk_core::Error;
use zk_core::ErrorKind;
use zk_core::NodePath;
use zk_core::Session;

/// What became of a node that was to be deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "a node is deleted by us or by others"
)]
pub enum Removal {
    /// It was deleted by this call. If an answer was lost on the way, its owner may have deleted it at the same time.
    Deleted,
    /// It had gone before. Another one that has its name now was not touched.
    Gone,
}

/// Deletes the node that the transaction `czxid` has made.
///
/// ZooKeeper has no deletion by transaction. So this looks who has the name, from a server that has caught up, and
/// deletes it under the version that was seen; and it looks again before each attempt: a deletion whose answer was lost
/// is not repeated blindly, because the node may be gone by then and another one have its name (TRAPS X14).
/// What is left is a node that is replaced between a look and the arrival of the deletion and then written as often as
/// the first one. The names of contenders have a number that the ensemble gives once, most also a random id.
///
/// # Cancel safety
///
/// The node is deleted, or it is not; no other is.
pub(crate) async fn delete_exactly(
    session: &Session,
    path: &NodePath,
    czxid: i64,
) -> Result<Removal, Error> {
    let mut is_in_doubt = false;
    loop {
        session.sync(path).await?;
        let found = session.exists(path).await?;
        let Some(stat) = found.filter(|stat| stat.czxid == czxid) else {
            return Ok(if is_in_doubt {
                Removal::Deleted
            } else {
                Removal::Gone
            });
        };
        // A transaction is sent once, a plain deletion again and again.
        let deletion = session.transaction().delete_version(path, stat.version);
        match deletion.commit().await {
            Ok(_) => return Ok(Removal::Deleted),
            Err(error) if error.is_fatal() => return Err(error),
            Err(error) if error.is_outcome_unknown() => is_in_doubt = true,
            // Somebody wrote to it, or it went: the next look tells.
            Err(error) if matches!(error.kind(), ErrorKind::BadVersion | ErrorKind::NoNode) => {}
            Err(error) => return Err(error),
        }
    }
}
