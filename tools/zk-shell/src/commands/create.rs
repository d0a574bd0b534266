//! `create`: creates a node.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde_json::json;

use super::{acl, input, keep_session};
use crate::context::Context;
use crate::duration::parse_ttl;
use crate::failure::Failure;
use crate::{escape, output};

/// The arguments.
#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "they are the flags of the command line"
)]
pub(crate) struct Create {
    /// Append a ten-digit number to the name
    #[arg(short, conflicts_with = "container")]
    sequential: bool,
    /// Make it vanish with this session, which is kept until Ctrl-C, SIGTERM or the end of standard input
    #[arg(short, conflicts_with_all = ["container", "ttl"])]
    ephemeral: bool,
    /// Make it a container, which the server removes after its last child
    #[arg(short, conflicts_with = "ttl")]
    container: bool,
    /// Let the server remove it when unchanged for this long, in milliseconds
    #[arg(short, value_name = "TTL", value_parser = parse_ttl)]
    ttl: Option<Duration>,
    /// Create missing parents too
    #[arg(short, long)]
    parents: bool,
    /// Read the data from this file
    #[arg(long, value_name = "FILE", conflicts_with = "data")]
    file: Option<PathBuf>,
    /// The node
    path: String,
    /// The data, or - to read it from standard input; none by default
    #[arg(allow_negative_numbers = true)]
    data: Option<String>,
    /// Who may do what with it: scheme:id:permissions with the letters of cdrwa; that of --acl by default
    #[arg(value_name = "ACL")]
    entries: Vec<String>,
}

impl Create {
    /// Returns whether the data is an argument.
    pub(crate) fn has_data(&self) -> bool {
        self.data.is_some()
    }

    /// Creates a node.
    pub(crate) async fn run(self, context: &mut Context) -> Result<(), Failure> {
        let path = context.path(&self.path)?;
        let acl = acl::parse(&self.entries)?;
        let data = input::read(context, self.data.as_deref(), self.file.as_deref()).await?;
        let session = context.session().await?;
        let mut request = session.create(&path, data).timeout(context.remaining());
        if self.sequential {
            request = request.sequential();
        }
        if self.ephemeral {
            request = request.ephemeral();
        }
        if self.container {
            request = request.container();
        }
        if let Some(ttl) = self.ttl {
            request = request.ttl(ttl);
        }
        if !self.entries.is_empty() {
            request = request.acl(acl);
        }
        if self.parents {
            request = request.parents();
        }
        let (created, stat) = request.await?;
        context
            .output()
            .result(
                || format!("Created {}\n", escape::line(created.as_str())),
                || json!({"path": created.as_str(), "stat": output::stat_json(&stat)}),
            )
            .await?;
        if self.ephemeral && !context.has_next_command() {
            let is_stdin_read = self.data.as_deref() == Some(input::STANDARD_INPUT);
            keep_session::until_released(context, &session, is_stdin_read).await
        } else {
            Ok(())
        }
    }
}
