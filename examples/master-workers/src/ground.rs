//! The nodes that everything stands on.

use zk_core::Error;
use zk_core::Session;

use crate::tell::Teller;
use crate::tree::Tree;

/// Makes those that are not there.
pub(crate) async fn lay(session: &Session, tree: &Tree) -> Result<(), Error> {
    for path in tree.foundations() {
        match session.create(path, "").parents().idempotent().await {
            Err(error) if !error.is_node_exists() => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Makes those again that somebody has deleted, and says so: what was below them is lost.
pub(crate) async fn mend(session: &Session, tree: &Tree, teller: &Teller) -> Result<(), Error> {
    teller.say(format_args!(
        "makes nodes again that somebody has deleted below {}",
        tree.root()
    ));
    lay(session, tree).await
}
