//! `ls`: the children of a node, or the paths below it.

use clap::Args;
use serde_json::json;
use zk_core::NodePath;

use crate::context::Context;
use crate::escape;
use crate::failure::Failure;
use crate::output;

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
        context.output().result(
            || {
                let stat = self.stat.then(|| output::stat(&stat));
                output::names(&names) + &stat.unwrap_or_default()
            },
            || json!({"path": path.as_str(), "children": names, "stat": output::stat_json(&stat)}),
        )
    }
}

/// Prints each node before its children, children sorted by name.
async fn tree(context: &mut Context, root: &NodePath) -> Result<(), Failure> {
    let session = context.session().await?;
    let mut next = vec![root.clone()];
    while let Some(path) = next.pop() {
        match session.list(&path).timeout(context.remaining()).await {
            Ok((mut names, _)) => {
                context.output().result(
                    || format!("{}\n", escape::line(path.as_str())),
                    || json!({"path": path.as_str()}),
                )?;
                names.sort_unstable_by(|a, b| b.cmp(a));
                for name in names {
                    next.push(path.join(&name)?);
                }
            }
            // Deleted since its parent was listed.
            Err(error) if error.is_no_node() && path != *root => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
