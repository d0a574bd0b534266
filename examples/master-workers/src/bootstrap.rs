//! The nodes that everything stands on.

use zk_core::Error;
use zk_core::Session;

use crate::reporter::Reporter;
use crate::tree::Tree;

/// Makes those that are not there.
pub(crate) async fn create_missing(session: &Session, tree: &Tree) -> Result<(), Error> {
    for path in tree.base_nodes() {
        match session.create(path, "").parents().idempotent().await {
            Err(error) if !error.is_node_exists() => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Makes those again that somebody has deleted, and says so: what was below them is lost.
pub(crate) async fn recreate_deleted(
    session: &Session,
    tree: &Tree,
    reporter: &Reporter,
) -> Result<(), Error> {
    reporter.report(format_args!(
        "makes nodes again that somebody has deleted below {}",
        tree.root()
    ));
    create_missing(session, tree).await
}
