//! `zk-ensemble` manages named ensembles that outlive the command that started them.

mod args;
mod commands;
mod credentials;
mod network_state;
mod output;
mod progress;
mod store;
mod tables;
mod undo;

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    let args = args::Args::parse();
    let runtime = match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            return report(&anyhow::Error::new(error).context("cannot start the async runtime"));
        }
    };
    match runtime.block_on(commands::run(args)) {
        Ok(code) => code,
        // A reader such as `head` may close the pipe early.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => report(&error),
    }
}

fn report(error: &anyhow::Error) -> ExitCode {
    let causes: String = error.chain().skip(1).fold(String::new(), |text, cause| {
        text + &format!("  because: {cause}\n")
    });
    // It fails if standard error is closed, which cannot be reported.
    drop(write!(io::stderr(), "error: {error}\n{causes}"));
    ExitCode::FAILURE
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<io::Error>()
        .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
