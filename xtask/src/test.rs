//! `test`: runs the tests, and prints the counts at the end.

mod beside;
mod binaries;
mod counts;
mod needs;
mod planted;
mod scope;
mod zookeeper;

use std::ffi::OsString;
use std::fmt;
use std::io::{self, IsTerminal as _, Read, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;

pub(crate) use counts::Counts;
pub(crate) use needs::Skipped;
pub(crate) use scope::Scope;

use crate::programs;
use crate::workspace::Workspace;

/// The result of a run of the tests.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    /// The counts of all runners.
    pub(crate) counts: Counts,
    /// Whether every runner succeeded; a test that does not compile is not counted.
    pub(crate) good: bool,
    /// The tests that this machine cannot run.
    pub(crate) skipped: Option<Skipped>,
    /// The runs of tests in order; the first one of all is the default scope.
    pub(crate) parts: Vec<Part>,
}

/// One run of a test runner.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) counts: Counts,
    pub(crate) good: bool,
    pub(crate) time: Duration,
    /// Of the tests and the programs they wait for.
    pub(crate) processor_time: Duration,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} in {}, {} of processor time",
            self.counts,
            seconds(self.time),
            seconds(self.processor_time)
        )
    }
}

impl Outcome {
    fn add(&mut self, good: bool, counts: Counts) {
        self.good &= good && counts.failed == 0;
        self.counts = self.counts + counts;
    }

    /// Prints the skipped tests and, on the last line, the counts.
    pub(crate) fn print(&self) {
        if let Some(skipped) = &self.skipped {
            println!("{skipped}");
        }
        println!("{}", self.counts);
    }
}

/// Returns cargo's arguments that choose what the default scope builds.
pub(crate) fn default_selection() -> Vec<String> {
    Scope::Default.selection()
}

/// Runs the tests, prints the counts as the last line, and returns whether all tests passed.
pub(crate) fn command(workspace: &Workspace, args: &[OsString]) -> anyhow::Result<bool> {
    let outcome = match args.split_first() {
        Some((first, args)) if first == "mutants" => return programs::mutants(workspace, args),
        Some((first, args)) if first == "beside" => beside::beside(workspace, args)?,
        Some((first, args)) if first == "planted" => planted::planted(workspace, args)?,
        Some((first, args)) if first == "--zookeeper" => zookeeper::run(workspace, args)?,
        _ => {
            let (scope, args) = Scope::split(args);
            run(workspace, scope, args, &[])?
        }
    };
    outcome.print();
    Ok(outcome.good)
}

/// Runs the tests with these additions to the environment.
pub(crate) fn run(
    workspace: &Workspace,
    scope: Scope,
    args: &[OsString],
    env: &[(&str, OsString)],
) -> anyhow::Result<Outcome> {
    let started = Instant::now();
    let nextest = is_installed("nextest");
    let whole = args.is_empty();
    anyhow::ensure!(
        nextest || scope != Scope::Deep,
        "`test deep` needs cargo-nextest: cargo install --locked cargo-nextest"
    );
    anyhow::ensure!(
        scope != Scope::Deep || !whole || is_installed("hack"),
        "`test deep` needs cargo-hack: cargo install --locked cargo-hack"
    );
    if whole {
        println!("{}", scope.announcement());
    }
    let Some(binaries) = binaries::build(workspace, scope)? else {
        return Ok(Outcome::default());
    };
    if whole {
        binaries::check(workspace, scope, &binaries)?;
    }
    prepare(workspace, scope, env)?;
    let built = started.elapsed();
    let skipped = Skipped::probe();
    let tests = Tests {
        workspace,
        scope,
        nextest,
        without_containers: skipped.is_some(),
    };
    let mut outcome = Outcome {
        good: true,
        skipped,
        ..Outcome::default()
    };
    let mut parts = Vec::new();
    if whole && nextest && scope == Scope::All {
        // The default scope first, whose cost is held; the rest overlaps waiting with computing.
        let default = scope::default_filter();
        let rest = format!("not ({default})");
        for (what, filter) in [("the default scope", default), ("the rest", rest)] {
            parts.push((what, vec!["-E".into(), filter.into()]));
        }
    } else {
        parts.push(("the tests", args.to_vec()));
    }
    for (what, args) in parts {
        let part = tests.run(&args, env)?;
        println!("{what}: {part}");
        outcome.add(part.good, part.counts);
        outcome.parts.push(part);
    }
    // Without nextest they have run with the others.
    if whole && nextest && scope != Scope::Default {
        let args = [
            "test",
            "--doc",
            "--workspace",
            "--all-features",
            "--no-fail-fast",
        ];
        let doctests = measured(&mut workspace.cargo(&args), env, Runner::CargoTest)?;
        println!("those in the documentation: {doctests}");
        outcome.add(doctests.good, doctests.counts);
    }
    if whole && scope == Scope::Deep {
        outcome.good &= builds_with_pairs_of_features(workspace)?;
    }
    println!(
        "the build took {}, with the tests {}",
        seconds(built),
        seconds(started.elapsed())
    );
    Ok(outcome)
}

/// What all runs of a test runner have in common.
struct Tests<'a> {
    workspace: &'a Workspace,
    scope: Scope,
    nextest: bool,
    without_containers: bool,
}

impl Tests<'_> {
    /// Runs those tests of the scope that the arguments choose.
    fn run(&self, args: &[OsString], env: &[(&str, OsString)]) -> anyhow::Result<Part> {
        let mut tests = if self.nextest {
            self.workspace
                .cargo(&["nextest", "run", "--profile", self.scope.profile()])
        } else {
            let mut tests = self.workspace.cargo(&["test", "--no-fail-fast"]);
            if self.scope != Scope::Default {
                // Corresponds to the group `ensemble` of nextest.
                tests.env("RUST_TEST_THREADS", "2");
            }
            tests
        };
        tests.args(self.scope.selection());
        for (name, value) in self.scope.lengths() {
            if std::env::var_os(name).is_none() {
                tests.env(name, value);
            }
        }
        let mut skip = Vec::new();
        if self.without_containers {
            skip.push(needs::MARK.to_owned());
        }
        if !self.nextest {
            // Nextest's configuration leaves these out.
            let modules = self.scope.left_out().iter();
            skip.extend(modules.map(|module| format!("{module}::")));
        }
        tests.args(with_skips(args, &skip));
        let runner = if self.nextest {
            Runner::Nextest
        } else {
            Runner::CargoTest
        };
        measured(&mut tests, env, runner)
    }
}

/// Runs a test runner, and measures the time and the processor time of its tests.
fn measured(
    command: &mut Command,
    env: &[(&str, OsString)],
    runner: Runner,
) -> anyhow::Result<Part> {
    let (started, processor_before) = (Instant::now(), processor_time());
    let (good, counts) = counted(command, env, runner)?;
    Ok(Part {
        counts,
        good,
        time: started.elapsed(),
        processor_time: processor_time().saturating_sub(processor_before),
    })
}

/// Returns the processor time of all processes that this one and its children have waited for, in the kernel's unit of a
/// hundredth of a second. Servers that outlive their parent are not in it.
fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name in parentheses may contain spaces; `cutime` and `cstime` are the 14th and 15th field behind it.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let of_children = fields.split_whitespace().skip(13).take(2);
    let hundredths: u64 = of_children
        .filter_map(|field| field.parse::<u64>().ok())
        .sum();
    Duration::from_millis(hundredths * 10)
}

/// Checks each crate without features, with each feature, each pair of them, and all.
fn builds_with_pairs_of_features(workspace: &Workspace) -> anyhow::Result<bool> {
    let mut hack = workspace.cargo(&["hack", "check", "--workspace", "--locked"]);
    hack.args(["--feature-powerset", "--depth", "2"]);
    let checked = hack.stdin(Stdio::null()).status();
    Ok(checked.context("cannot run cargo")?.success())
}

/// Downloads ZooKeeper and makes the class data of its Java, so that no test waits for that.
///
/// Pure tests need neither: a failure is reported and left to the tests that do.
fn prepare(workspace: &Workspace, scope: Scope, env: &[(&str, OsString)]) -> anyhow::Result<()> {
    // The tests of zk-harness need the program, so that the other scopes have built it.
    if scope == Scope::Default {
        let mut build = workspace.cargo(&["build", "--quiet"]);
        build.args(scope.packages_and_features());
        // Beside a small test: tests switch features on, and without one all would be built again.
        build.args(["--test", "scripted", "--bin", "zk-ensemble"]);
        let built = build.stdin(Stdio::null()).status();
        anyhow::ensure!(
            built.context("cannot run cargo")?.success(),
            "zk-ensemble does not build"
        );
    }
    for version in scope.zookeepers() {
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

/// Adds arguments that skip tests by a part of their names, which nextest and `cargo test` share.
fn with_skips(args: &[OsString], skip: &[String]) -> Vec<OsString> {
    let mut args = args.to_vec();
    if !skip.is_empty() && !args.iter().any(|arg| arg == "--") {
        args.push("--".into());
    }
    for part in skip {
        args.extend(["--skip", part.as_str()].map(OsString::from));
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
    let (good, stdout, stderr) = forwarded_into(command, out, err)?;
    let counts = match runner {
        Runner::Nextest => Counts::of_nextest(&stderr),
        Runner::CargoTest => Counts::of_cargo_test(&stdout),
    };
    Ok((good, counts))
}

/// Runs cargo, forwards its output, and returns whether it succeeded, and what it wrote to stdout and to stderr.
fn forwarded(command: &mut Command) -> anyhow::Result<(bool, String, String)> {
    forwarded_into(command, io::stdout(), io::stderr())
}

fn forwarded_into(
    command: &mut Command,
    out: impl Write + Send,
    err: impl Write,
) -> anyhow::Result<(bool, String, String)> {
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
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ok((status.success(), text(stdout), text(stderr)))
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
    fn skips_follow_the_callers_arguments() {
        let add = |args: &[&str], skip: &[&str]| {
            let args: Vec<_> = args.iter().map(OsString::from).collect();
            let skip: Vec<_> = skip.iter().map(ToString::to_string).collect();
            let args = with_skips(&args, &skip);
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
