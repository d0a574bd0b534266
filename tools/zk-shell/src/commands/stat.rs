//! `stat`: the metadata of a node.

use clap::Args;
use serde_json::json;

use crate::context::Context;
use crate::failure::Failure;
use crate::output;

/// The arguments.
#[derive(Debug, Args)]
pub(crate) struct Stat {
    /// The node
    path: String,
}

impl Stat {
    /// Prints the metadata of a node.
    pub(crate) async fn run(self, context: &mut Context) -> Result<(), Failure> {
        let path = context.path(&self.path)?;
        let session = context.session().await?;
        let stat = session.stat(&path).timeout(context.remaining()).await?;
        context
            .output()
            .result(
                || output::stat(&stat),
                || json!({"path": path.as_str(), "stat": output::stat_json(&stat)}),
            )
            .await
    }
}
