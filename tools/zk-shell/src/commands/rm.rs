//! `rm`: deletes a node, and with `-r` everything below it, once it was counted and confirmed.

use clap::Args;
use serde_json::json;
use zk_core::NodePath;

use crate::confirm::confirm;
use crate::context::Context;
use crate::crawl::{Crawl, DEFAULT_LIMIT, Summary, counted};
use crate::escape;
use crate::failure::Failure;
use crate::protected::protected;

/// The arguments.
#[derive(Debug, Args)]
pub(crate) struct Rm {
    /// Delete everything below it too
    #[arg(short, long)]
    recursive: bool,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
    /// Refuse to delete more nodes than this
    #[arg(long, value_name = "NODES", default_value_t = DEFAULT_LIMIT)]
    limit: usize,
    /// The node
    path: String,
}

impl Rm {
    /// Counts, asks and deletes.
    pub(crate) async fn run(self, context: &mut Context) -> Result<(), Failure> {
        let path = context.path(&self.path)?;
        require_deletable(context, &path)?;
        let session = context.session().await?;
        if !self.recursive {
            session.delete(&path).timeout(context.remaining()).await?;
            return context
                .output()
                .result(
                    || format!("Deleted {}\n", escape::line(path.as_str())),
                    || json!({"path": path.as_str(), "counted": 1}),
                )
                .await;
        }
        let crawl = Crawl::new(&session, &path, self.limit, None);
        let summary = crawl.count(context).await?;
        if let Some(problem) = summary.limit_problem(self.limit) {
            return Err(Failure::operation(
                format!("nothing was deleted: {problem}"),
                Some("give more with --limit NODES if you mean all of them"),
            ));
        }
        if !self.yes {
            confirm(context, &question(&path, &summary), "nothing was deleted").await?;
        }
        let delete = session.delete(&path).recursive();
        let deleted = delete.timeout(context.remaining()).await;
        deleted.map_err(|error| context.failure(error))?;
        let shown = escape::line(path.as_str());
        let nodes = counted(summary.nodes as u64, "node");
        context
            .output()
            .result(
                || format!("Deleted {shown}, about {nodes}\n"),
                || json!({"path": path.as_str(), "counted": summary.nodes}),
            )
            .await
    }
}

/// Refuses a subtree that must stay: the root of the session, and what the ensemble needs.
pub(super) fn require_deletable(context: &Context, path: &NodePath) -> Result<(), Failure> {
    let refused = |reason, help| {
        Err(Failure::usage(
            format!("{path} is not deleted: {reason}"),
            help,
        ))
    };
    if path.is_root() {
        return refused("it holds everything", "name the nodes below it one by one");
    }
    match protected(path, &context.chroot()) {
        None => Ok(()),
        Some(reason) => refused(reason, "use `zk delete` if a single node there has to go"),
    }
}

fn question(path: &NodePath, summary: &Summary) -> String {
    let nodes = counted(summary.nodes as u64, "node");
    let bytes = counted(summary.bytes, "byte");
    let note = summary
        .forbidden_note()
        .map(|note| format!("What it does not count: {note}\n"));
    format!(
        "This deletes {} and all below it: {nodes} with {bytes} of data, {} of them ephemeral.\n{}Delete? [y/N] ",
        escape::line(path.as_str()),
        summary.ephemerals,
        note.unwrap_or_default()
    )
}
