//! Deleting one certain node, and never one that took its place.

use zk_core::Error;
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

/// Deletes the node that the transaction `czxid` has made, see [`created_by`](zk_core::Delete::created_by).
///
/// The names of contenders have a number that the ensemble gives once, most also a random id.
///
/// # Cancel safety
///
/// The node is deleted, or it is not; no other is.
pub(crate) async fn delete_exactly(
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
