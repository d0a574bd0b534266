//! A process with one session, and the base nodes of the application.

use zk_config::Typed;
use zk_core::{Error, Session};

use crate::reporter::Reporter;
use crate::settings::Settings;
use crate::tree::Tree;

/// A process with one session: as a master it [leads](Self::lead) (`master.rs`), as a worker it [works](Self::work)
/// (`worker.rs`).
#[derive(Debug)]
pub struct Member {
    /// The session.
    pub session: Session,
    /// The nodes of the application. Those of [`Tree::base_nodes`] must exist.
    pub tree: Tree,
    /// The settings in force.
    pub settings: Typed<Settings>,
    /// Writes what the process does.
    pub reporter: Reporter,
}

impl Member {
    /// Creates the missing base nodes.
    pub(crate) async fn create_missing(&self) -> Result<(), Error> {
        for path in self.tree.base_nodes() {
            match self.session.create(path, "").parents().idempotent().await {
                Err(error) if !error.is_node_exists() => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Recreates deleted base nodes, and reports it. The nodes below them are lost.
    pub(crate) async fn recreate_deleted(&self) -> Result<(), Error> {
        let root = &self.tree.root;
        self.reporter.report(format_args!(
            "makes nodes again that somebody has deleted below {root}"
        ));
        self.create_missing().await
    }
}
