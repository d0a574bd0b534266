//! Runs a command: the one place that knows which module does what.

use std::io::IsTerminal;

use clap::CommandFactory as _;

use crate::cli::{Cli, Command};
use crate::commands::cd;
use crate::context::Context;
use crate::failure::{Failure, write_stderr};
use crate::shell;
use crate::signals::Signals;

/// Runs the command of a command line in a session of its own, or the interactive shell if there is no command.
pub(crate) async fn run(cli: Cli) -> Result<(), Failure> {
    let mut context = Context::new(cli.settings());
    let result = match cli.command {
        Some(command) => run_command(command, &mut context).await,
        None if std::io::stdin().is_terminal() && std::io::stdout().is_terminal() => {
            shell::run(&mut context).await
        }
        None => {
            write_stderr(&Cli::command().render_help().to_string());
            Err(Failure::usage(
                "there is no command, and no terminal for the interactive shell",
                "give a command, or commands from standard input with `zk run -`",
            ))
        }
    };
    context.close().await;
    result
}

/// Runs the only command of the program, which a signal ends. What is to be cleaned up is cleaned up after it.
async fn run_command(command: Command, context: &mut Context) -> Result<(), Failure> {
    let mut signals = Signals::listen()?;
    context.watchdog().start();
    let interrupter = context.interrupter();
    match signals.end(&interrupter, dispatch(command, context)).await {
        Err(failure) if failure.is_interrupted() && context.ends_with_signal() => Ok(()),
        result => result,
    }
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
        Command::Rm(rm) => rm.run(context).await,
        Command::Stat(stat) => stat.run(context).await,
        Command::Export(export) => export.run(context).await,
        Command::Import(import) => import.run(context).await,
        Command::Mirror(mirror) => mirror.run(context).await,
        Command::Tree(tree) => tree.run(context).await,
        Command::Find(find) => find.run(context).await,
        Command::Grep(grep) => grep.run(context).await,
        Command::Du(du) => du.run(context).await,
        Command::Watch(watch) => watch.run(context).await,
        Command::Txn(txn) => txn.run(context).await,
        Command::Getacl(getacl) => getacl.run(context).await,
        Command::Setacl(setacl) => setacl.run(context).await,
        Command::Locks(locks) => locks.run(context).await,
        Command::Queue(queue) => queue.run(context).await,
        Command::Leader(leader) => leader.run(context).await,
        Command::Services(services) => services.run(context).await,
        Command::Ids(ids) => ids.run(context).await,
        Command::What(what) => what.run(context).await,
        Command::Config(config) => config.run(context).await,
        #[cfg(feature = "top")]
        Command::Top(top) => {
            if !context.has_next_command() {
                context.end_with_signal();
            }
            Box::pin(top.run(context)).await
        }
        Command::Run(run) => run.run(context).await,
        Command::Cd(cd) => cd.run(context).await,
        Command::Pwd => cd::print_current(context).await,
        Command::Addauth(addauth) => addauth.run(context).await,
        // The shell and a script end before they run it.
        Command::Quit => cd::require_next_command(context, "quit"),
    }
}

#[cfg(all(test, feature = "top"))]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[tokio::test]
    async fn a_signal_is_how_top_ends_only_outside_of_scripts() {
        for is_script in [false, true] {
            let cli = Cli::parse_from(["zk", "--connect", "", "top", "--once"]);
            let mut context = Context::new(cli.settings());
            if is_script {
                context.begin_script().unwrap();
            }
            let result = dispatch(cli.command.unwrap(), &mut context).await;
            assert!(result.unwrap_err().is_usage(), "there is no ensemble");
            assert_eq!(context.ends_with_signal(), !is_script);
        }
    }
}
