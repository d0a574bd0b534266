//! `ci`: runs the steps of the continuous integration in order.

mod leftovers;

use std::ffi::OsString;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;

use crate::test::{self, Outcome, Scope, seconds};
use crate::tidy::manifest::RECIPES;
use crate::workspace::Workspace;
use crate::{licences, tidy};

/// Runs the steps up to the first failure; the last line contains the counts of the tests, if they ran.
pub(crate) fn command(workspace: &Workspace) -> anyhow::Result<bool> {
    let mut steps = Steps {
        workspace,
        times: Vec::new(),
    };
    let good = steps.run_all()?;
    println!("\n{}", steps.table());
    println!("{}", advisories(workspace));
    if let (_, Some(outcome)) = &good {
        outcome.print();
    }
    Ok(good.0)
}

struct Steps<'a> {
    workspace: &'a Workspace,
    times: Vec<(&'static str, String)>,
}

impl Steps<'_> {
    fn run_all(&mut self) -> anyhow::Result<(bool, Option<Outcome>)> {
        const DENY: [&str; 2] = ["-D", "warnings"];
        let default_scope = test::default_selection();
        let default_scope = default_scope.iter().map(String::as_str);
        let checks: [(&'static str, Vec<&str>, &[&str]); 4] = [
            (
                "clippy, everything",
                vec![
                    "clippy",
                    "--locked",
                    "--workspace",
                    "--all-features",
                    "--all-targets",
                ],
                &DENY,
            ),
            // Features are chosen by name there, and something may lack one.
            (
                "clippy, the default scope of tests",
                ["clippy", "--locked"]
                    .into_iter()
                    .chain(default_scope)
                    .collect(),
                &DENY,
            ),
            // Without the tests, whose dependencies switch features on.
            (
                "clippy, libraries without features",
                ["clippy", "--locked", "--lib", "--no-default-features"]
                    .into_iter()
                    .chain(["-p", "zk-core", "-p", "zk-wire", "-p", "zk-harness"])
                    .chain(["-p", "zk-history", "-p", "zk-provision"])
                    .chain(RECIPES.iter().flat_map(|recipe| ["-p", *recipe]))
                    .collect(),
                &DENY,
            ),
            (
                "documentation",
                vec![
                    "doc",
                    "--locked",
                    "--workspace",
                    "--all-features",
                    "--no-deps",
                    "--document-private-items",
                ],
                &[],
            ),
        ];

        if !self.step("format", |workspace| {
            succeeds(workspace.cargo(&["fmt", "--all"]).args(["--", "--check"]))
        })? {
            return Ok((false, None));
        }
        for (name, args, last) in checks {
            let run = |workspace: &Workspace| {
                let mut cargo = workspace.cargo(&args);
                if !last.is_empty() {
                    cargo.arg("--").args(last);
                }
                succeeds(cargo.env("RUSTDOCFLAGS", "-D warnings"))
            };
            if !self.step(name, run)? {
                return Ok((false, None));
            }
        }
        if !self.step("clippy, fuzz targets", fuzz_targets)? {
            return Ok((false, None));
        }
        if !self.step("tidy", tidy::command)? || !self.step("dependencies", dependencies)? {
            return Ok((false, None));
        }
        let mut outcome = None;
        let good = self.step("tests", |workspace| {
            let run = tests(workspace)?;
            let good = run.good;
            outcome = Some(run);
            Ok(good)
        })?;
        if !good {
            return Ok((false, outcome));
        }
        let good = self.step("benchmarks, each once", |workspace| {
            // Without `--bench` criterion runs everything once without measuring, which needs no optimised build. The
            // selection is that of the tests, so that nothing is built again.
            let mut cargo = workspace.cargo(&["test", "--locked", "--workspace", "--all-features"]);
            for bench in ["lock_throughput", "ids", "cache", "wire"] {
                cargo.args(["--bench", bench]);
            }
            succeeds(cargo.envs(provisioned(workspace)))
        })?;
        Ok((good, outcome))
    }

    /// Announces and runs one step, and records its time.
    fn step(
        &mut self,
        name: &'static str,
        run: impl FnOnce(&Workspace) -> anyhow::Result<bool>,
    ) -> anyhow::Result<bool> {
        println!("\n== {name}");
        let started = Instant::now();
        let good = run(self.workspace).with_context(|| format!("in the step {name:?}"))?;
        let time = seconds(started.elapsed());
        println!(
            "== {name}: {} after {time}",
            if good { "passed" } else { "FAILED" }
        );
        self.times.push((
            name,
            if good {
                time
            } else {
                format!("{time}, FAILED")
            },
        ));
        Ok(good)
    }

    fn table(&self) -> String {
        let lines: Vec<String> = self
            .times
            .iter()
            .map(|(name, time)| format!("{name:<36} {time:>9}"))
            .collect();
        lines.join("\n")
    }
}

/// Runs the tests with a ZooKeeper from the harness, because an installed one proves nothing about a fresh machine.
fn tests(workspace: &Workspace) -> anyhow::Result<Outcome> {
    let [provision, (name, cache)] = provisioned(workspace);
    let before = leftovers::running_from(&cache);
    let env = [
        provision,
        (name, cache.clone()),
        ("NEXTEST_FAILURE_OUTPUT", "immediate-final".into()),
        ("NEXTEST_STATUS_LEVEL", "slow".into()),
        ("NEXTEST_FINAL_STATUS_LEVEL", "slow".into()),
    ];
    let mut outcome = test::run(workspace, Scope::All, &[], &env)?;
    if !leftovers::gone(&cache, &before, Duration::from_secs(5)) {
        outcome.good = false;
    }
    // Without cargo-nextest all tests are one part.
    if let [default, _rest] = outcome.parts.as_slice() {
        let (used, allowed) = (seconds(default.processor_time), seconds(DEFAULT_SCOPE));
        println!("the default scope: {default}; at most {allowed} are allowed");
        if default.processor_time > DEFAULT_SCOPE {
            println!(
                "the tests of the default scope need {used}: make one cheaper, or move it to a module `long`"
            );
            outcome.good = false;
        }
    }
    Ok(outcome)
}

/// The processor time that the tests of the default scope may take: about twice the 212 s that they were measured to
/// take, because machines differ by that.
const DEFAULT_SCOPE: Duration = Duration::from_secs(450);

/// Returns the environment in which the harness provisions ZooKeeper, with a cache in the target directory.
fn provisioned(workspace: &Workspace) -> [(&'static str, OsString); 2] {
    let cache = match std::env::var_os("ZK_HARNESS_CACHE") {
        Some(cache) => cache,
        None => workspace
            .target_dir()
            .join("zk-harness-cache")
            .into_os_string(),
    };
    [
        ("ZK_HARNESS_PROVISION", "always".into()),
        ("ZK_HARNESS_CACHE", cache),
    ]
}

/// Checks the fuzz targets, in workspaces of their own, without libFuzzer: that would need a C++ compiler.
fn fuzz_targets(workspace: &Workspace) -> anyhow::Result<bool> {
    for at in ["crates/zk-wire/fuzz", "tests/fuzz"] {
        let fuzz = workspace.at(workspace.root.join(at));
        let mut cargo = fuzz.cargo(&[
            "clippy",
            "--locked",
            "--all-targets",
            "--no-default-features",
        ]);
        cargo
            .arg("--target-dir")
            .arg(workspace.target_dir().join("fuzz"))
            .args(["--", "-D", "warnings"]);
        if !succeeds(&mut cargo)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Checks licences and sources of all dependencies, with cargo-deny if it is installed.
fn dependencies(workspace: &Workspace) -> anyhow::Result<bool> {
    let mut version = workspace.cargo(&["deny"]);
    version
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    if version.status().is_ok_and(|status| status.success()) {
        println!("with cargo-deny: licences, bans and sources");
        let mut deny = workspace.cargo(&["deny"]);
        return succeeds(deny.args([
            "--all-features",
            "--offline",
            "check",
            "licenses",
            "bans",
            "sources",
        ]));
    }
    println!(
        "cargo-deny is not installed: checking only licences and sources; \
         wildcard versions and duplicates are not checked"
    );
    licences::check(workspace)
}

/// Returns the line of the report about known vulnerabilities and yanked versions of the dependencies.
///
/// It is no step: what is found depends on the day, and a change must not fail for what was true before it. The workflow
/// `advisories.yml` fails instead, every day.
fn advisories(workspace: &Workspace) -> String {
    let mut deny = workspace.cargo(&["deny"]);
    deny.args([
        "--all-features",
        "check",
        "--hide-inclusion-graph",
        "advisories",
    ]);
    let output = deny.stdin(Stdio::null()).output();
    let checked = output.map(|output| {
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        (output.status.success(), said)
    });
    advisories_line(checked)
}

/// Words the line from whether cargo-deny succeeded and what it has printed.
fn advisories_line(checked: std::io::Result<(bool, String)>) -> String {
    let not_checked = |why: &str| format!("advisories: not checked, because {why}");
    let (is_good, said) = match checked {
        Ok(checked) => checked,
        Err(error) => return not_checked(&format!("cargo cannot be run: {error}")),
    };
    if is_good {
        return "advisories: none, and no version is yanked".to_owned();
    }
    if said.contains("no such command") {
        return not_checked("cargo-deny is not installed");
    }
    let found = said.lines().filter(|line| line.starts_with("error["));
    let found: Vec<&str> = found.collect();
    if found.is_empty() {
        let last = said.lines().rfind(|line| !line.trim().is_empty());
        let why = last.unwrap_or("it says nothing").trim();
        return not_checked(&format!("cargo-deny failed: {why}"));
    }
    format!(
        "advisories: {} found, see `cargo deny check advisories`: {}",
        found.len(),
        found.join("; ")
    )
}

fn succeeds(command: &mut Command) -> anyhow::Result<bool> {
    Ok(command
        .stdin(Stdio::null())
        .status()
        .context("cannot run cargo")?
        .success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_about_advisories_says_what_was_found_or_why_not() {
        let vulnerable = "error[vulnerability]: it overflows\n   = ID: RUSTSEC-2024-0001\nerror[yanked]: detected";
        for (is_good, said, expected) in [
            (
                true,
                "advisories ok\n",
                "advisories: none, and no version is yanked",
            ),
            (
                false,
                "error: no such command: `deny`\n\nhelp: a command",
                "advisories: not checked, because cargo-deny is not installed",
            ),
            (
                false,
                "failed to fetch advisory database\n\nCaused by:\n    no route to host\n",
                "advisories: not checked, because cargo-deny failed: no route to host",
            ),
            (
                false,
                vulnerable,
                "advisories: 2 found, see `cargo deny check advisories`: \
                 error[vulnerability]: it overflows; error[yanked]: detected",
            ),
        ] {
            assert_eq!(advisories_line(Ok((is_good, said.to_owned()))), expected);
        }
    }
}
