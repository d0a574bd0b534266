//! Runs a command: the one place that knows which module does what.

use crate::cli::Cli;
use crate::cli::Command;
use crate::context::Context;
use crate::failure::Failure;

/// Runs the command of a command line in a session of its own.
pub(crate) async fn run(cli: Cli) -> Result<(), Failure> {
    let mut context = Context::new(cli.settings());
    let result = dispatch(cli.command, &mut context).await;
    context.close().await;
    result
}

/// Runs one command.
pub(crate) async fn dispatch(command: Command, context: &mut Context) -> Result<(), Failure> {
    match command {
        Command::Ls(ls) => ls.run(context).await,
        Command::Get(get) => get.run(context).await,
        Command::Set(set) => set.run(context).await,
        Command::Create(create) => create.run(context).await,
        Command::Delete(delete) => delete.run(context).await,
        Command::Deleteall(deleteall) => deleteall.run(context).await,
        Command::Stat(stat) => stat.run(context).await,
        Command::Export(export) => export.run(context).await,
        Command::Import(import) => import.run(context).await,
        Command::Mirror(mirror) => mirror.run(context).await,
        Command::Locks(locks) => locks.run(context).await,
        Command::Queue(queue) => queue.run(context).await,
        Command::Leader(leader) => leader.run(context).await,
        Command::Services(services) => services.run(context).await,
        Command::Ids(ids) => ids.run(context).await,
        Command::What(what) => what.run(context).await,
        Command::Config(config) => config.run(context).await,
        #[cfg(feature = "top")]
        Command::Top(top) => Box::pin(top.run(context)).await,
    }
}
