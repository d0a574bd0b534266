//! `delete` and `deleteall`: delete a node, and everything below it.

use clap::Args;
use serde_json::json;

use super::rm::require_deletable;
use crate::context::Context;
use crate::failure::Failure;

/// The arguments of `delete`.
#[derive(Debug, Args)]
pub(crate) struct Delete {
    /// Delete only if the data has this version
    #[arg(short, value_name = "VERSION", allow_negative_numbers = true, conflicts_with = "recursive", value_parser = clap::value_parser!(i32).range(0..))]
    version: Option<i32>,
    /// Delete everything below it too, like deleteall
    #[arg(short, long)]
    recursive: bool,
    /// The node
    path: String,
}

impl Delete {
    /// Deletes a node.
    pub(crate) async fn run(self, context: &mut Context) -> Result<(), Failure> {
        let path = context.path(&self.path)?;
        if self.recursive {
            require_deletable(context, &path)?;
        }
        let session = context.session().await?;
        let request = session.delete(&path).timeout(context.remaining());
        match (self.recursive, self.version) {
            (true, _) => request.recursive().await?,
            (false, Some(version)) => request.version(version).await?,
            (false, None) => request.await?,
        }
        context
            .output()
            .result(String::new, || json!({"path": path.as_str()}))
            .await
    }
}

/// The arguments of `deleteall`.
#[derive(Debug, Args)]
pub(crate) struct Deleteall {
    /// The node
    path: String,
}

impl Deleteall {
    /// Deletes a node and everything below it.
    pub(crate) async fn run(self, context: &mut Context) -> Result<(), Failure> {
        let delete = Delete {
            version: None,
            recursive: true,
            path: self.path,
        };
        delete.run(context).await
    }
}
