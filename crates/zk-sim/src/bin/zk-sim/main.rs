//! `zk-sim` serves a simulated ensemble on loopback TCP, for unit tests in any language.

mod args;
mod background;
mod fault;
mod serve;

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser as _;

use args::{Args, Command};

fn main() -> ExitCode {
    let done = match Args::parse().command {
        Command::Serve(options) => serve::serve(&options),
        Command::Up { state, options } => background::up(&state, &options),
        Command::Down { state } => background::down(&state),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // It fails if standard error is closed, which cannot be reported.
            drop(writeln!(std::io::stderr(), "error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}
