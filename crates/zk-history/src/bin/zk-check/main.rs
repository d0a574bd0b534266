//! `zk-check`: judges a recorded run again.

mod args;

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser as _;
use zk_history::check::{Checker, Judgement, ServerLogs, judge};
use zk_history::{Description, History, Run};

fn main() -> ExitCode {
    let args = args::Args::parse();
    match run(&args) {
        Ok(judgement) => ExitCode::from(match judgement {
            Judgement::Valid => 0,
            Judgement::Violated => 1,
            Judgement::RolledBack => ROLLED_BACK,
            _ => CANNOT_JUDGE,
        }),
        Err(error) => {
            let causes: String = error.chain().skip(1).fold(String::new(), |text, cause| {
                text + &format!("  because: {cause}\n")
            });
            // If standard error is closed, there is no other output.
            drop(write!(io::stderr(), "error: {error}\n{causes}"));
            ExitCode::from(CANNOT_JUDGE)
        }
    }
}

fn run(args: &args::Args) -> anyhow::Result<Judgement> {
    if args.list {
        print(args::CHECKERS)?;
        return Ok(Judgement::Valid);
    }
    let path = match &args.run {
        Some(path) => path.clone(),
        None => newest(&Run::root())?,
    };
    let description = describe(&path, args)?;
    let checkers: Vec<Checker> = if args.checkers.is_empty() {
        description
            .as_ref()
            .map(|description| description.checkers.clone())
            .unwrap_or_default()
    } else {
        args.checkers.clone()
    };
    let history = History::read(&path)?;
    let logs = ServerLogs::of_run(&path)
        .with_context(|| format!("cannot read the servers' logs in {}", path.display()))?;
    let report = judge(&history, &checkers).with_servers(&history, &logs);
    let mut text = description.as_ref().map_or_else(String::new, |known| {
        format!("{} with seed {}\n", known.name, known.seed)
    });
    let _ = writeln!(text, "{}", path.display());
    text += &report.to_text(&history);
    let again = description.map(|description| description.again);
    if let Some(again) = again.filter(|again| !again.is_empty() && !report.is_valid()) {
        let _ = writeln!(text, "\nrun it again: {again}");
    }
    print(&text)?;
    Ok(report.judgement())
}

/// Reads `run.json`; a file, or a directory without one, needs checkers on the command line.
fn describe(path: &Path, args: &args::Args) -> anyhow::Result<Option<Description>> {
    if path.join("run.json").exists() {
        return Ok(Some(Description::read(path)?));
    }
    anyhow::ensure!(path.exists(), "{} does not exist", path.display());
    anyhow::ensure!(
        !args.checkers.is_empty(),
        "{} has no run.json with checkers; name a checker with --checker, \
         --list prints them",
        path.display()
    );
    Ok(None)
}

/// Finds the newest run.
fn newest(root: &Path) -> anyhow::Result<PathBuf> {
    let none = || format!("no run is kept in {}; name one", root.display());
    let mut newest = None;
    for entry in std::fs::read_dir(root).with_context(none)? {
        let path = entry?.path();
        let Ok(file) = path.join("run.json").metadata() else {
            continue;
        };
        newest = newest.max(Some((file.modified()?, path)));
    }
    newest.map(|(_, path)| path).with_context(none)
}

fn print(text: &str) -> anyhow::Result<()> {
    match io::stdout().write_all(text.as_bytes()) {
        // A reader such as `head` may close the pipe early.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.context("cannot write to standard output"),
    }
}

const CANNOT_JUDGE: u8 = 2;
const ROLLED_BACK: u8 = 3;
