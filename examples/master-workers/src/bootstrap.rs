//! Creates the base nodes of the application.

use zk_core::Error;
use zk_core::Session;

use crate::reporter::Reporter;
use crate::tree::Tree;

/// Creates the missing base nodes.
pub(crate) async fn create_missing(session: &Session, tree: &Tree) -> Result<(), Error> {
    for path in tree.base_nodes() {
        match session.create(path, "").parents().idempotent().await {
            Err(error) if !error.is_node_exists() => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Recreates deleted base nodes, and reports it. The nodes below them are lost.
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
