//! The ordinary shell commands on nodes, with the meaning and the output of ZooKeeper's own shell.
//!
//! Answers go to standard output, everything else to standard error.
//! The exit status is 0 when the command worked, 1 when it failed, 2 when it was not understood.

use std::process::ExitCode;

use clap::Parser;

mod cli;
mod command;
mod config;
mod date;
mod failure;
mod hold;
mod locks;
mod output;
mod span;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    let result = match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => {
            let result = runtime.block_on(command::run(cli));
            // A pending read of standard input must not keep the program alive.
            runtime.shutdown_background();
            result
        }
        Err(error) => Err(failure::Failure::operation(
            format!("cannot start: {error}"),
            None,
        )),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
