//! `cd` and `pwd`: where relative paths begin, in the shell and in scripts.

use clap::Args;
use serde_json::json;
use zk_core::NodePath;

use crate::context::Context;
use crate::escape;
use crate::failure::Failure;

/// The arguments of `cd`.
#[derive(Debug, Args)]
pub(crate) struct Cd {
    /// The node; the root by default
    path: Option<String>,
}

impl Cd {
    /// Goes to a node that exists.
    pub(crate) async fn run(self, context: &mut Context) -> Result<(), Failure> {
        require_next_command(context, "cd")?;
        let path = match self.path.as_deref() {
            Some(path) => context.path(path)?,
            None => NodePath::root(),
        };
        let session = context.session().await?;
        session.stat(&path).timeout(context.remaining()).await?;
        context.go_to(path);
        Ok(())
    }
}

/// Prints where relative paths begin.
pub(crate) async fn print_current(context: &Context) -> Result<(), Failure> {
    require_next_command(context, "pwd")?;
    let path = context.path_or_here(None)?;
    context
        .output()
        .result(
            || format!("{}\n", escape::line(path.as_str())),
            || json!({"path": path.as_str()}),
        )
        .await
}

/// Refuses a command that has an effect on later ones only.
pub(crate) fn require_next_command(context: &Context, name: &str) -> Result<(), Failure> {
    if context.has_next_command() {
        return Ok(());
    }
    Err(Failure::usage(
        format!("`{name}` has an effect on later commands only, and there are none"),
        "use it in the shell, `zk` alone, or in a file for `zk run`",
    ))
}
