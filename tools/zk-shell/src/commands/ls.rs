//! `ls`: the children of a node, or the paths below it.

use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};
use zk_core::NodePath;

use crate::context::Context;
use crate::crawl::Crawl;
use crate::failure::Failure;
use crate::{escape, output};

/// The arguments.
#[derive(Debug, Args)]
pub(crate) struct Ls {
    /// Print the metadata too
    #[arg(short, conflicts_with = "recursive")]
    stat: bool,
    /// Print the paths of the whole subtree, one a line
    #[arg(short = 'R', long)]
    recursive: bool,
    /// The node; the root by default
    path: Option<String>,
}

impl Ls {
    /// Lists a node.
    pub(crate) async fn run(self, context: &mut Context) -> Result<(), Failure> {
        let path = context.path_or_here(self.path.as_deref())?;
        if self.recursive {
            return tree(context, &path).await;
        }
        let session = context.session().await?;
        let listed = session.list(&path).timeout(context.remaining()).await?;
        let (mut names, stat) = listed;
        names.sort_unstable();
        context
            .output()
            .result(
                || {
                    let stat = self.stat.then(|| output::stat(&stat));
                    output::names(&names) + &stat.unwrap_or_default()
                },
                || Listing {
                    children: &names,
                    path: path.as_str(),
                    stat: output::stat_json(&stat),
                },
            )
            .await
    }
}

/// The document of a listing, without a copy of the names.
#[derive(Debug, Serialize)]
struct Listing<'a> {
    children: &'a [String],
    path: &'a str,
    stat: Value,
}

/// Prints each node before its children, children sorted by name.
async fn tree(context: &mut Context, root: &NodePath) -> Result<(), Failure> {
    let session = context.session().await?;
    let mut crawl = Crawl::new(&session, root, usize::MAX, None);
    loop {
        let batch = crawl.next_with_little_data(context).await?;
        if batch.is_empty() {
            return crawl.finish(context.output()).await;
        }
        context
            .output()
            .results(
                &batch,
                |found| format!("{}\n", escape::line(found.path.as_str())),
                |found| json!({"path": found.path.as_str()}),
            )
            .await?;
    }
}
