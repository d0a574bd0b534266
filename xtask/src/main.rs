//! The workspace's own commands: `cargo xtask ensemble | zk | test | check | bench | orphan | ci | tidy`.
//!
//! This program has few dependencies, so that the first `cargo xtask` builds in seconds; it starts the programs that do
//! the work.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program with output for a terminal"
)]

mod bench;
mod ci;
mod command;
mod licences;
mod programs;
mod revision;
mod test;
mod tidy;
mod workspace;

use std::process::ExitCode;

use crate::command::Command;
use crate::workspace::Workspace;

fn main() -> ExitCode {
    let command = match Command::parse(std::env::args_os().skip(1)) {
        Ok(command) => command,
        Err(wrong) => {
            eprintln!("error: {wrong}\n\n{}", command::USAGE);
            return ExitCode::from(2);
        }
    };
    match run(command) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Returns whether the command succeeded.
fn run(command: Command) -> anyhow::Result<bool> {
    if command == Command::Help {
        println!("{}", command::USAGE);
        return Ok(true);
    }
    let workspace = Workspace::find()?;
    match command {
        Command::Help => Ok(true),
        Command::Ensemble(args) => programs::ensemble(&workspace, &args),
        Command::Zk(args) => programs::zk(&workspace, &args),
        Command::Check(args) => programs::check(&workspace, &args),
        Command::Test(args) => test::command(&workspace, &args),
        Command::Bench(bench) => bench::command(&workspace, &bench),
        Command::Orphan => programs::orphan(&workspace),
        Command::Ci => ci::command(&workspace),
        Command::Tidy => tidy::command(&workspace),
    }
}
