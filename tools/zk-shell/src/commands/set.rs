//! `set`: replaces the data of a node.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::input;
use crate::context::Context;
use crate::failure::Failure;
use crate::output;

/// The arguments.
#[derive(Debug, Args)]
pub(crate) struct Set {
    /// Print the metadata after the change
    #[arg(short)]
    stat: bool,
    /// Write only if the data has this version
    #[arg(short, value_name = "VERSION", allow_negative_numbers = true, value_parser = clap::value_parser!(i32).range(0..))]
    version: Option<i32>,
    /// Read the data from this file
    #[arg(long, value_name = "FILE", conflicts_with = "data")]
    file: Option<PathBuf>,
    /// The node
    path: String,
    /// The data, or - to read it from standard input
    #[arg(allow_negative_numbers = true, required_unless_present = "file")]
    data: Option<String>,
}

impl Set {
    /// Returns whether the data is an argument.
    pub(crate) fn has_data(&self) -> bool {
        self.data.is_some()
    }

    /// Replaces the data of a node.
    pub(crate) async fn run(self, context: &mut Context) -> Result<(), Failure> {
        let path = context.path(&self.path)?;
        let data = input::read(context, self.data.as_deref(), self.file.as_deref()).await?;
        let session = context.session().await?;
        let request = session.set(&path, data).timeout(context.remaining());
        let stat = match self.version {
            Some(version) => request.version(version).await?,
            None => request.await?,
        };
        context
            .output()
            .result(
                || {
                    if self.stat {
                        output::stat(&stat)
                    } else {
                        String::new()
                    }
                },
                || json!({"path": path.as_str(), "stat": output::stat_json(&stat)}),
            )
            .await
    }
}
