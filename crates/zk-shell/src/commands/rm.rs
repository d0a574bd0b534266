//! `rm`: deletes a node, and with `-r` everything below it, once it was counted and confirmed.

use clap::Args;
use serde_json::json;
use zk_core::NodePath;

use crate::ask::confirm;
use crate::context::Context;
use crate::crawl::Crawl;
use crate::crawl::DEFAULT_LIMIT;
use crate::crawl::Summary;
use crate::crawl::counted;
use crate::escape;
use crate::failure::Failure;

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
        if let Some(reason) = protected(&path) {
            return Err(Failure::usage(
                format!("{path} is not deleted: {reason}"),
                "name the nodes below it one by one",
            ));
        }
        let session = context.session().await?;
        if !self.recursive {
            session.delete(&path).timeout(context.remaining()).await?;
            return report(context, &path, 1);
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
        delete.timeout(context.remaining()).await?;
        report(context, &path, summary.nodes)
    }
}

/// Returns why a node is never deleted with everything below it.
fn protected(path: &NodePath) -> Option<&'static str> {
    let zookeeper = NodePath::parse("/zookeeper").ok();
    if path.is_root() {
        Some("it holds everything")
    } else if zookeeper.is_some_and(|zookeeper| path.depth_below(&zookeeper).is_some()) {
        Some("the servers keep their own nodes there")
    } else {
        None
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

fn report(context: &Context, path: &NodePath, nodes: usize) -> Result<(), Failure> {
    context.output().result(
        || {
            let nodes = counted(nodes as u64, "node");
            format!("Deleted {}, {nodes}\n", escape::line(path.as_str()))
        },
        || json!({"path": path.as_str(), "deleted": nodes}),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_everything_depends_on_is_protected() {
        for (path, is_protected) in [
            ("/", true),
            ("/zookeeper", true),
            ("/zookeeper/quota", true),
            ("/zookeeper/quota/a", true),
            ("/zookeepers", false),
            ("/a/zookeeper", false),
            ("/a", false),
        ] {
            let path = NodePath::parse(path).unwrap();
            assert_eq!(protected(&path).is_some(), is_protected, "{path}");
        }
    }
}
