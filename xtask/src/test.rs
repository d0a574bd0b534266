//! `test`: runs the tests, and prints the counts at the end.

mod beside;
mod counts;
mod needs;
mod other_client;
mod planted;
mod zookeeper;

use std::ffi::OsString;
use std::io::{self, IsTerminal as _, Read, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;

pub(crate) use counts::Counts;
pub(crate) use needs::Skipped;

use crate::workspace::Workspace;

/// The result of a run of the tests.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    /// The counts of all runners.
    pub(crate) counts: Counts,
    /// Whether every runner succeeded; a test that does not compile is not counted.
    pub(crate) good: bool,
    /// The tests that this machine cannot run.
    pub(crate) skipped: Option<Skipped>,
}

impl Outcome {
    /// Prints the skipped tests and, on the last line, the counts.
    pub(crate) fn print(&self) {
        if let Some(skipped) = &self.skipped {
            println!("{skipped}");
        }
        println!("{}", self.counts);
    }
}

/// The extent of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Pure and simulated tests, and one on real servers that uses every recipe.
    Quick,
    /// All tests, long ones in their short form.
    Full,
    /// All tests in their full length.
    Deep,
}

impl Scope {
    /// Parses an optional scope before the runner's arguments.
    pub(crate) fn split(args: &[OsString]) -> (Self, &[OsString]) {
        match args.split_first() {
            Some((first, rest)) if first == "quick" => (Self::Quick, rest),
            Some((first, rest)) if first == "deep" => (Self::Deep, rest),
            _ => (Self::Full, args),
        }
    }

    /// Returns the profile of `.config/nextest.toml`, or `None` for the default profile.
    fn profile(self) -> Option<&'static str> {
        match self {
            Self::Quick => Some("quick"),
            Self::Full => None,
            Self::Deep => Some("deep"),
        }
    }

    /// Returns the variables that set the length of long tests; the caller's environment takes precedence.
    fn lengths(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Quick | Self::Full => &[],
            Self::Deep => &[
                ("FAULT_SECONDS", "60"),
                ("SEEDS", "2000"),
                ("PROGRAMS", "1000"),
                ("FAULT_PROGRAMS", "60"),
                ("SWEEP", "full"),
                ("GRANTS", "10000"),
            ],
        }
    }
}

/// Runs the tests, prints the counts as the last line, and returns whether all tests passed.
pub(crate) fn command(workspace: &Workspace, args: &[OsString]) -> anyhow::Result<bool> {
    let outcome = match args.split_first() {
        Some((first, args)) if first == "beside" => beside::beside(workspace, args)?,
        Some((first, args)) if first == "planted" => planted::planted(workspace, args)?,
        Some((first, args)) if first == "--zookeeper" => zookeeper::run(workspace, args)?,
        Some((first, args)) if first == "zookeeper-client" => {
            let (scope, args) = Scope::split(args);
            other_client::run(workspace, scope, args, &[])?
        }
        _ => {
            let (scope, args) = Scope::split(args);
            run(workspace, scope, args, &[])?
        }
    };
    outcome.print();
    Ok(outcome.good)
}

/// Runs the tests with these additions to the environment, and in the deep scope those on real servers once more, with
/// `zookeeper-client`.
pub(crate) fn run(
    workspace: &Workspace,
    scope: Scope,
    args: &[OsString],
    env: &[(&str, OsString)],
) -> anyhow::Result<Outcome> {
    let first = run_once(workspace, scope, args, env)?;
    if scope != Scope::Deep {
        return Ok(first);
    }
    let second = other_client::run(workspace, scope, args, env)?;
    println!("with zk-wire: {}", first.counts);
    println!("with zookeeper-client: {}", second.counts);
    Ok(Outcome {
        counts: first.counts + second.counts,
        good: first.good && second.good,
        skipped: first.skipped,
    })
}

fn run_once(
    workspace: &Workspace,
    scope: Scope,
    args: &[OsString],
    env: &[(&str, OsString)],
) -> anyhow::Result<Outcome> {
    let started = Instant::now();
    let nextest = is_installed("nextest");
    anyhow::ensure!(
        nextest || scope == Scope::Full,
        "`test quick` and `test deep` need cargo-nextest: cargo install --locked cargo-nextest"
    );
    let whole = scope != Scope::Quick && args.is_empty();
    anyhow::ensure!(
        scope != Scope::Deep || !whole || is_installed("hack"),
        "`test deep` needs cargo-hack: cargo install --locked cargo-hack"
    );
    if !build(workspace)? {
        return Ok(Outcome {
            counts: Counts::default(),
            good: false,
            skipped: None,
        });
    }
    prepare(workspace, env)?;
    let mut tests = if nextest {
        workspace.cargo(&["nextest", "run", "--workspace", "--all-features"])
    } else {
        eprintln!(
            "cargo-nextest is not installed: running the tests with cargo test, two at a time"
        );
        let mut tests = workspace.cargo(&[
            "test",
            "--workspace",
            "--all-features",
            "--no-fail-fast",
            "--lib",
            "--bins",
            "--tests",
            "--examples",
        ]);
        // Corresponds to the group `ensemble` of nextest.
        tests.env("RUST_TEST_THREADS", "2");
        tests
    };
    if let Some(profile) = scope.profile() {
        tests.args(["--profile", profile]);
    }
    for (name, value) in scope.lengths() {
        if std::env::var_os(name).is_none() {
            tests.env(name, value);
        }
    }
    let skipped = Skipped::probe();
    let mut skip = Vec::new();
    if skipped.is_some() {
        skip.push(needs::MARK);
    }
    if !nextest {
        // Nextest's configuration runs these only in the deep scope.
        skip.push("deep::");
    }
    tests.args(with_skips(args, &skip));
    let (good, mut counts) = counted(
        &mut tests,
        env,
        if nextest {
            Runner::Nextest
        } else {
            Runner::CargoTest
        },
    )?;
    let tests_took = started.elapsed();
    if !whole {
        println!(
            "tests took {}; run `cargo xtask test` without arguments for those in the documentation",
            seconds(tests_took)
        );
        return Ok(Outcome {
            counts,
            good,
            skipped,
        });
    }
    let mut doctests = workspace.cargo(&[
        "test",
        "--doc",
        "--workspace",
        "--all-features",
        "--no-fail-fast",
    ]);
    let (doctests_good, doctest_counts) = counted(&mut doctests, env, Runner::CargoTest)?;
    counts = counts + doctest_counts;
    println!(
        "tests took {}: {} for those in the code, {} for those in the documentation",
        seconds(started.elapsed()),
        seconds(tests_took),
        seconds(started.elapsed().saturating_sub(tests_took)),
    );
    let features_good = scope != Scope::Deep || builds_with_pairs_of_features(workspace)?;
    Ok(Outcome {
        counts,
        good: good && doctests_good && counts.failed == 0 && features_good,
        skipped,
    })
}

/// Checks each crate without features, with each feature, each pair of them, and all.
fn builds_with_pairs_of_features(workspace: &Workspace) -> anyhow::Result<bool> {
    let mut hack = workspace.cargo(&["hack", "check", "--workspace", "--locked"]);
    hack.args(["--feature-powerset", "--depth", "2"]);
    let checked = hack.stdin(Stdio::null()).status();
    Ok(checked.context("cannot run cargo")?.success())
}

/// Builds the tests and all programs.
fn build(workspace: &Workspace) -> anyhow::Result<bool> {
    // What nextest runs too: with the features of another command, most dependencies would be built twice.
    let mut build = workspace.cargo(&["test", "--no-run", "--workspace", "--all-features"]);
    build.args(["--lib", "--bins", "--tests", "--examples"]);
    let built = build.stdin(Stdio::null()).status();
    Ok(built.context("cannot run cargo")?.success())
}

/// Downloads ZooKeeper and makes the class data of its Java, so that no test waits for that.
///
/// Pure tests need neither: a failure is reported and left to the tests that do.
fn prepare(workspace: &Workspace, env: &[(&str, OsString)]) -> anyhow::Result<()> {
    for version in ZOOKEEPERS {
        let mut prepare = Command::new(workspace.program("zk-ensemble"));
        prepare.arg("prepare").args(["--zookeeper", version]);
        prepare.envs(env.iter().map(|(name, value)| (name, value)));
        let prepared = prepare.stdin(Stdio::null()).status();
        if !prepared.context("cannot run zk-ensemble")?.success() {
            eprintln!("tests on ZooKeeper {version} will find out for themselves");
        }
    }
    Ok(())
}

/// The releases that tests run.
const ZOOKEEPERS: [&str; 3] = ["3.9", "3.8", "3.4"];

/// Adds arguments that skip tests by a part of their names, which nextest and `cargo test` share.
fn with_skips(args: &[OsString], skip: &[&str]) -> Vec<OsString> {
    let mut args = args.to_vec();
    if !skip.is_empty() && !args.iter().any(|arg| arg == "--") {
        args.push("--".into());
    }
    for part in skip {
        args.extend(["--skip", part].map(OsString::from));
    }
    args
}

pub(crate) fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

/// Returns whether cargo has this subcommand.
fn is_installed(subcommand: &str) -> bool {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let version = Command::new(cargo)
        .args([subcommand, "--version"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    version.is_ok_and(|status| status.success())
}

/// The test runner.
#[derive(Clone, Copy, Debug)]
enum Runner {
    /// Prints its summary to stderr.
    Nextest,
    /// Prints its summaries to stdout.
    CargoTest,
}

/// Runs a test runner, forwards its output, and reads the counts in it.
fn counted(
    command: &mut Command,
    env: &[(&str, OsString)],
    runner: Runner,
) -> anyhow::Result<(bool, Counts)> {
    if io::stderr().is_terminal() {
        command.env("CARGO_TERM_COLOR", "always");
    }
    command.envs(env.iter().map(|(name, value)| (name, value)));
    counted_into(command, runner, io::stdout(), io::stderr())
}

fn counted_into(
    command: &mut Command,
    runner: Runner,
    out: impl Write + Send,
    err: impl Write,
) -> anyhow::Result<(bool, Counts)> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().context("cannot run cargo")?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (stdout, stderr) = std::thread::scope(|scope| {
        let stdout = scope.spawn(|| stdout.map_or(Ok(Vec::new()), |from| tee(from, out)));
        let stderr = stderr.map_or(Ok(Vec::new()), |from| tee(from, err));
        (stdout.join().expect("copying bytes does not panic"), stderr)
    });
    let status = child.wait().context("cannot wait for cargo")?;
    let (stdout, stderr) = (
        stdout.context("cannot forward the output")?,
        stderr.context("cannot forward the output")?,
    );
    let counts = match runner {
        Runner::Nextest => Counts::of_nextest(&String::from_utf8_lossy(&stderr)),
        Runner::CargoTest => Counts::of_cargo_test(&String::from_utf8_lossy(&stdout)),
    };
    Ok((status.success(), counts))
}

/// Copies all input to `to` as it arrives, and returns it.
fn tee(mut from: impl Read, mut to: impl Write) -> io::Result<Vec<u8>> {
    let mut kept = Vec::new();
    let mut buffer = [0; 8192];
    loop {
        match from.read(&mut buffer)? {
            0 => return Ok(kept),
            read => {
                to.write_all(&buffer[..read])?;
                to.flush()?;
                kept.extend_from_slice(&buffer[..read]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scope_comes_before_the_runners_arguments() {
        let split = |args: &[&str]| {
            let args: Vec<OsString> = args.iter().map(OsString::from).collect();
            let (scope, rest) = Scope::split(&args);
            (scope, rest.len())
        };
        assert_eq!(split(&[]), (Scope::Full, 0));
        assert_eq!(split(&["quick"]), (Scope::Quick, 0));
        assert_eq!(split(&["deep", "-p", "zk-lock"]), (Scope::Deep, 2));
        assert_eq!(split(&["-p", "quick"]), (Scope::Full, 2));
    }

    #[test]
    fn skips_follow_the_callers_arguments() {
        let add = |args: &[&str], skip: &[&str]| {
            let args: Vec<_> = args.iter().map(OsString::from).collect();
            let args = with_skips(&args, skip);
            let args = args.iter().map(|arg| arg.to_str().unwrap().to_owned());
            args.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(add(&[], &[]), "");
        assert_eq!(add(&[], &["a"]), "-- --skip a");
        assert_eq!(add(&["-p", "x"], &["a", "b"]), "-p x -- --skip a --skip b");
        assert_eq!(add(&["--", "lock"], &["a"]), "-- lock --skip a");
    }

    #[test]
    fn forwarded_output_is_returned_completely() {
        let text = "line\n".repeat(5000);
        let mut passed = Vec::new();
        let kept = tee(text.as_bytes(), &mut passed).unwrap();
        assert_eq!(
            (kept.as_slice(), passed.as_slice()),
            (text.as_bytes(), text.as_bytes())
        );
    }

    #[test]
    fn the_counts_come_from_the_stream_of_the_runner() {
        for (runner, expected) in [
            (
                Runner::Nextest,
                Counts {
                    passed: 1,
                    failed: 1,
                    skipped: 0,
                },
            ),
            (
                Runner::CargoTest,
                Counts {
                    passed: 3,
                    failed: 0,
                    skipped: 1,
                },
            ),
        ] {
            let mut command = Command::new("sh");
            command.args(["-c", "echo \"$ERR\" >&2; echo \"$OUT\"; exit 4"]);
            command.env("OUT", "test result: ok. 3 passed; 0 failed; 1 ignored;");
            command.env(
                "ERR",
                "Summary [ 0.1s] 2 tests run: 1 passed, 1 failed, 0 skipped",
            );
            let (mut out, mut err) = (Vec::new(), Vec::new());
            let (good, counts) = counted_into(&mut command, runner, &mut out, &mut err).unwrap();
            assert!(!good);
            assert_eq!(counts, expected, "{runner:?}");
            assert!(out.starts_with(b"test result") && err.starts_with(b"Summary"));
        }
    }
}
