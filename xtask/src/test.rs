//! `test`: everything, with the counts at the end.

mod counts;

use std::ffi::OsString;
use std::io;
use std::io::IsTerminal as _;
use std::io::Read;
use std::io::Write;
use std::process::Command;
use std::process::Stdio;
use std::time::Duration;
use std::time::Instant;

use anyhow::Context as _;

pub(crate) use counts::Counts;

use crate::workspace::Workspace;

/// What a run of the tests came to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outcome {
    /// All that was counted.
    pub(crate) counts: Counts,
    /// Whether every runner ended well; a test that does not compile is counted nowhere.
    pub(crate) good: bool,
}

/// Runs the tests, prints the counts as the last line, and returns whether all went well.
pub(crate) fn command(workspace: &Workspace, args: &[OsString]) -> anyhow::Result<bool> {
    let outcome = run(workspace, args, &[])?;
    println!("{}", outcome.counts);
    Ok(outcome.good)
}

/// Runs the tests with these additions to the environment.
pub(crate) fn run(
    workspace: &Workspace,
    args: &[OsString],
    env: &[(&str, OsString)],
) -> anyhow::Result<Outcome> {
    let started = Instant::now();
    // Tests start the workspace's programs, also those of other packages than their own.
    let mut build = workspace.cargo(&[
        "build",
        "--quiet",
        "--workspace",
        "--all-features",
        "--bins",
    ]);
    if !build.status().context("cannot run cargo")?.success() {
        return Ok(Outcome {
            counts: Counts::default(),
            good: false,
        });
    }

    let nextest = has_nextest();
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
        ]);
        // What the group `ensemble` is to nextest.
        tests.env("RUST_TEST_THREADS", "2");
        tests
    };
    tests.args(args);
    let not_run = workspace.target_dir().join("zk-harness-not-run");
    // Of an earlier run.
    drop(std::fs::remove_file(&not_run));
    tests.env("ZK_HARNESS_NOT_RUN", &not_run);
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
    for line in std::fs::read_to_string(&not_run)
        .unwrap_or_default()
        .lines()
    {
        println!("not run: {line}");
    }

    if !args.is_empty() {
        println!(
            "tests took {}; the documentation's were left out, as arguments were given",
            seconds(tests_took)
        );
        return Ok(Outcome { counts, good });
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
    Ok(Outcome {
        counts,
        good: good && doctests_good && counts.failed == 0,
    })
}

pub(crate) fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

fn has_nextest() -> bool {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let version = Command::new(cargo)
        .args(["nextest", "--version"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    version.is_ok_and(|status| status.success())
}

/// Whose summaries are to be read.
#[derive(Clone, Copy, Debug)]
enum Runner {
    /// Speaks on stderr.
    Nextest,
    /// Speaks on stdout.
    CargoTest,
}

/// Runs a test runner, passes on what it says and reads the counts in it.
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
        stdout.context("cannot pass on the output")?,
        stderr.context("cannot pass on the output")?,
    );
    let counts = match runner {
        Runner::Nextest => Counts::of_nextest(&String::from_utf8_lossy(&stderr)),
        Runner::CargoTest => Counts::of_cargo_test(&String::from_utf8_lossy(&stdout)),
    };
    Ok((status.success(), counts))
}

/// Copies everything to `to` as it comes, and keeps it.
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
    fn what_is_passed_on_is_kept_whole() {
        let text = "line\n".repeat(5000);
        let mut passed = Vec::new();
        let kept = tee(text.as_bytes(), &mut passed).unwrap();
        assert_eq!(
            (kept.as_slice(), passed.as_slice()),
            (text.as_bytes(), text.as_bytes())
        );
    }

    #[test]
    fn a_runner_is_counted_where_it_speaks_and_its_failure_seen() {
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
