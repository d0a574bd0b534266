//! Deletes nodes that are not wanted, many at a time.

use std::cmp::Reverse;

use futures_util::future::join_all;
use zk_core::{Error, ErrorKind, NodePath, Session};

use super::deletion_plan::Extra;
use crate::escape;
use crate::failure::Failure;
use crate::output::Output;
use crate::progress::Progress;

/// Which of the nodes that are not wanted were deleted.
#[derive(Debug, Default)]
pub(crate) struct Deleted {
    pub(crate) count: u64,
    /// Nodes that this session may not delete.
    pub(crate) refused: u64,
}

/// Deletes nodes, children before their parents: those that are still what the walk has seen. Any other is kept, and
/// named on standard error with the reason.
pub(crate) async fn delete(
    session: &Session,
    root: &NodePath,
    mut extras: Vec<Extra>,
    output: &Output,
    progress: &Progress,
) -> Result<Deleted, Failure> {
    let depth = |extra: &Extra| extra.path.names().count();
    extras.sort_by_key(|extra| Reverse(depth(extra)));
    let mut deleted = Deleted::default();
    let levels = extras.chunk_by(|one, other| depth(one) == depth(other));
    for some in levels.flat_map(|level| level.chunks(DELETED_AT_ONCE)) {
        let mut paths = Vec::with_capacity(some.len());
        for extra in some {
            paths.push(extra.path.below(root)?);
        }
        let deletions = paths.iter().zip(some).map(|(path, extra)| {
            let delete = session.delete(path).version(extra.version);
            delete.created_by(extra.czxid).into_future()
        });
        for (result, path) in join_all(deletions).await.into_iter().zip(&paths) {
            progress.add(1);
            let reason = match result.as_ref().map_err(Error::kind) {
                Ok(()) => {
                    deleted.count += 1;
                    continue;
                }
                Err(ErrorKind::NoNode) => "it vanished meanwhile, or was replaced by another node",
                Err(ErrorKind::BadVersion) => "its data was changed meanwhile",
                Err(ErrorKind::NotEmpty) => "there are nodes below it",
                Err(ErrorKind::NoAuth) => {
                    deleted.refused += 1;
                    "this session may not delete it"
                }
                Err(_) => {
                    result?;
                    continue;
                }
            };
            note_kept(output, path, reason).await;
        }
    }
    Ok(deleted)
}

/// Notes why a node that is not wanted stays.
pub(crate) async fn note_kept(output: &Output, path: &NodePath, reason: &str) {
    let note = format!("kept {}: {reason}", escape::line(path.as_str()));
    output.note(&note).await;
}

/// How many nodes are deleted at the same time.
const DELETED_AT_ONCE: usize = 64;
