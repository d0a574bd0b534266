//! `zk-mutants`: changes a sample of the code, one place at a time, and counts the changes that the tests notice.
//!
//! All changes of a run are in one build of a copy of the last commit, each behind a number that a variable chooses.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program with output for a terminal"
)]

mod choose;
mod compile;
mod copy;
mod draw;
mod errors;
mod progress;
mod report;
mod rewrite;
mod run;
mod runner;
mod sites;
mod tables;
mod walk;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

use crate::run::Run;

/// Change a sample of the code, one place at a time, and count the changes that the tests notice.
///
/// `cargo xtask test mutants` starts it. A command that was interrupted, or took an hour, continues when it is given
/// again at the same commit.
#[derive(Debug, Parser)]
#[command(name = "zk-mutants")]
struct Args {
    /// Crate to draw from, instead of all; may be given several times
    #[arg(long = "crate", value_name = "NAME")]
    crates: Vec<String>,

    /// Number of mutants of each named crate [default: 40], or of all crates together [default: 150]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..1000))]
    count: Option<u16>,

    /// Number that the sample is drawn from
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Directory of the workspace
    #[arg(long, hide = true)]
    root: PathBuf,

    /// Directory whose subdirectory `commit` has the files of the commit
    #[arg(long, hide = true)]
    work: PathBuf,

    /// The commit
    #[arg(long, hide = true)]
    revision: String,
}

impl Args {
    /// Returns what a user types for them.
    fn command(&self) -> String {
        let mut command = "cargo xtask test mutants".to_owned();
        for name in &self.crates {
            let _ = write!(command, " --crate {name}");
        }
        if let Some(count) = self.count {
            let _ = write!(command, " --count {count}");
        }
        let _ = write!(command, " --seed {}", self.seed);
        command
    }
}

fn main() -> ExitCode {
    let args = Args::parse();
    let run = Run {
        command: args.command(),
        root: args.root,
        work: args.work,
        revision: args.revision,
        seed: args.seed,
        crates: args.crates,
        count: args.count.map(usize::from),
    };
    match run.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
