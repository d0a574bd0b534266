//! Deletes a node only if it is the one that was seen, and not a later node of the same name.

use zk_core::{Error, NodePath, Session};

/// The result of removing a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "either this call or another client deleted the node"
)]
pub enum Removal {
    /// This call deleted the node. If a reply was lost, its owner may have deleted it at the same time.
    Deleted,
    /// The node was already gone. A later node of the same name was not touched.
    Gone,
}

/// Deletes the node that was created by the transaction `czxid`, see [`created_by`](zk_core::Delete::created_by).
///
/// # Cancel safety
///
/// The node may or may not be deleted; no other node is.
pub(crate) async fn delete_if_created_by(
    session: &Session,
    path: &NodePath,
    czxid: i64,
) -> Result<Removal, Error> {
    match session.delete(path).created_by(czxid).await {
        Ok(()) => Ok(Removal::Deleted),
        Err(error) if error.is_no_node() => Ok(Removal::Gone),
        Err(error) => Err(error),
    }
}
