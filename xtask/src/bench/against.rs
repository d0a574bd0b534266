//! `bench NAME --against REV`: runs a benchmark of an older revision and of the working tree alternately.

use std::ffi::OsStr;
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};

use super::Bench;
use super::figures::{self, Figure};
use crate::revision::Revision;
use crate::workspace::Workspace;

/// Builds both revisions, runs them in turn, and prints the comparison.
pub(super) fn command(
    workspace: &Workspace,
    bench: &Bench,
    revision: &OsStr,
    rounds: usize,
) -> anyhow::Result<bool> {
    let older = Revision::check_out(workspace, revision)?;
    let names = [revision.display().to_string(), "working tree".to_owned()];
    let cargo = |side: usize, args: &[&str]| match side {
        0 => older.cargo(args),
        _ => workspace.cargo(args),
    };
    for (side, name) in names.iter().enumerate() {
        println!("building the benchmark of {name}");
        let mut build = cargo(side, &bench.build());
        let built = build.status().context("cannot run cargo")?;
        ensure!(
            built.success(),
            "the benchmark does not build at {name}, so it cannot be compared"
        );
    }
    let mut measured: [Vec<Vec<Figure>>; 2] = Default::default();
    for round in 0..rounds {
        // Each build goes first in every second round, so that a drift of the machine affects both.
        for side in [round % 2, 1 - round % 2] {
            let name = &names[side];
            println!("round {} of {rounds}: {name}", round + 1);
            let mut run = cargo(side, &bench.run());
            run.envs(bench.environment()).arg("--").args(&bench.rest);
            measured[side].push(figures_of(&mut run, name)?);
        }
    }
    let [old, new] = &measured;
    println!(
        "\nold: {}, new: {}; median (min–max) of {rounds} rounds in the quick form\n\n{}",
        names[0],
        names[1],
        figures::compare(old, new)
    );
    Ok(true)
}

/// Runs a benchmark and reads its figures.
fn figures_of(run: &mut Command, name: &str) -> anyhow::Result<Vec<Figure>> {
    let output = run
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run cargo")?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(
        output.status.success(),
        "the benchmark of {name} failed:\n{text}"
    );
    let figures = figures::parse(&text);
    ensure!(
        !figures.is_empty(),
        "the benchmark of {name} printed no table with known columns, so it cannot be compared:\n{text}"
    );
    Ok(figures)
}
