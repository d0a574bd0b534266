//! Runs tests that are built, with one mutant or none.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;

use crate::compile::Tests;
use crate::copy::Copy;
use crate::progress::{Baseline, Test, Verdict};

/// The tests that are built, and what nextest needs to know about them.
#[derive(Clone, Debug)]
pub(crate) struct Runner {
    copy: Copy,
    work: PathBuf,
}

/// A test that has ended.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ended {
    pub(crate) test: Test,
    pub(crate) seconds: f64,
    status: Status,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Passed,
    Failed,
    TimedOut,
}

/// How long the tests of a mutant may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) one_test: u64,
    pub(crate) all_tests: u64,
}

impl Limits {
    /// For the run without a mutant.
    pub(crate) const BASELINE: Self = Self {
        one_test: 300,
        all_tests: 1200,
    };

    /// For a mutant of a crate whose tests take this long without one: endless loops end, and slow machines pass.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "seconds of a few minutes"
    )]
    pub(crate) fn after(baseline: &Baseline) -> Self {
        Self {
            one_test: ((3.0 * baseline.slowest_test).ceil() as u64).clamp(20, 60),
            all_tests: ((3.0 * baseline.all_tests).ceil() as u64 + 60).min(300),
        }
    }
}

impl Runner {
    /// Builds what is missing of the tests, and lists the test binaries.
    pub(crate) fn new(copy: &Copy, work: &Path, tests: &Tests) -> anyhow::Result<Self> {
        let runner = Self {
            copy: copy.clone(),
            work: work.to_owned(),
        };
        let mut list = copy.cargo(&["nextest", "list", "--locked", "--cargo-quiet"]);
        list.args(["--list-type", "binaries-only", "--message-format", "json"]);
        let binaries = output(list.args(tests.args()))?;
        let value: Value = serde_json::from_str(&binaries).context("nextest writes JSON")?;
        let host = &value["rust-build-meta"]["platforms"]["host"]["platform"]["triple"];
        let host = host.as_str().context("nextest knows the host")?;
        let mut metadata = copy.cargo(&["metadata", "--format-version", "1", "--locked"]);
        // Without the host, packages of all systems are downloaded.
        metadata.args(["--all-features", "--filter-platform", host]);
        fs::write(runner.packages(), output(&mut metadata)?)?;
        fs::write(runner.binaries(), binaries)?;
        Ok(runner)
    }

    fn packages(&self) -> PathBuf {
        self.work.join("packages.json")
    }

    fn binaries(&self) -> PathBuf {
        self.work.join("binaries.json")
    }

    /// Runs tests without a mutant; they note the mutants that they reach in a directory.
    pub(crate) fn baseline(&self, filter: &str, reached: &Path) -> anyhow::Result<Vec<Ended>> {
        if reached.exists() {
            fs::remove_dir_all(reached)?;
        }
        fs::create_dir_all(reached)?;
        let mut tests = self.command(filter, Limits::BASELINE)?;
        tests.env("ZK_MUTANTS_REACHED", reached);
        let (code, ended) = run(&mut tests)?;
        let failed: Vec<_> = ended
            .iter()
            .filter(|it| it.status != Status::Passed)
            .collect();
        ensure!(
            code == Some(0),
            "the tests fail without a mutant: {failed:?}, exit status {code:?}"
        );
        Ok(ended)
    }

    /// Runs tests with a mutant.
    pub(crate) fn mutant(
        &self,
        number: u32,
        filter: &str,
        limits: Limits,
    ) -> anyhow::Result<Verdict> {
        let mut tests = self.command(filter, limits)?;
        let (code, ended) = run(tests.env("ZK_MUTANT", number.to_string()))?;
        let failed = ended.into_iter().find(|it| it.status != Status::Passed);
        match (code, failed) {
            (Some(0), None) => Ok(Verdict::Survived),
            (Some(TESTS_FAILED), Some(failed)) if failed.status == Status::Failed => {
                Ok(Verdict::Caught(failed.test))
            }
            (Some(TESTS_FAILED), failed) => Ok(Verdict::TimedOut(failed.map(|it| it.test))),
            (code, _) => bail!("nextest ends with the exit status {code:?}"),
        }
    }

    fn command(&self, filter: &str, limits: Limits) -> anyhow::Result<Command> {
        let of_workspace = fs::read_to_string(self.copy.source.join(".config/nextest.toml"))?;
        let config = self.work.join("nextest.toml");
        fs::write(&config, of_workspace + &profile(limits))?;
        // A mutant can ask for memory without end.
        let mut command = Command::new("sh");
        command.args(["-c", r#"ulimit -v "$0" && exec "$@""#, MEMORY]);
        command.args(["cargo", "nextest", "run", "--profile", "mutants"]);
        command.arg("--cargo-metadata").arg(self.packages());
        command.arg("--binaries-metadata").arg(self.binaries());
        command
            .arg("--config-file")
            .arg(config)
            .args(["-E", filter]);
        self.copy.prepare(&mut command);
        // A failure is expected: it leaves no snapshot, no seed and no run behind.
        command
            .env("INSTA_UPDATE", "no")
            .env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "true")
            .env("ZK_RUNS_DIR", self.work.join("runs"))
            .env_remove("NEXTEST_PROFILE");
        Ok(command)
    }
}

/// In KiB, for each process.
const MEMORY: &str = "4194304";

/// The exit status of nextest if a test fails.
const TESTS_FAILED: i32 = 100;

fn profile(limits: Limits) -> String {
    format!(
        r#"
[profile.mutants]
fail-fast = {{ max-fail = 1, terminate = "immediate" }}
slow-timeout = {{ period = "{}s", terminate-after = 1, grace-period = "1s" }}
global-timeout = "{}s"
status-level = "pass"
final-status-level = "none"
failure-output = "never"
success-output = "never"
"#,
        limits.one_test, limits.all_tests
    )
}

fn output(command: &mut Command) -> anyhow::Result<String> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::piped()).output();
    let output = output.context("cannot run cargo")?;
    ensure!(
        output.status.success(),
        "cargo fails: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).context("cargo writes UTF-8")
}

fn run(command: &mut Command) -> anyhow::Result<(Option<i32>, Vec<Ended>)> {
    command
        .stdin(Stdio::null())
        .env("CARGO_TERM_COLOR", "never");
    let output = command.output().context("cannot run nextest")?;
    let text = String::from_utf8_lossy(&output.stderr);
    Ok((
        output.status.code(),
        text.lines().filter_map(ended).collect(),
    ))
}

/// Parses a line about a test that has ended, such as `PASS [   0.014s] ( 1/42) zk-counter::sim basic::adds`.
fn ended(line: &str) -> Option<Ended> {
    let (status, rest) = line.trim_start().split_once(" [")?;
    let status = match status {
        "PASS" | "LEAK" => Status::Passed,
        "TIMEOUT" => Status::TimedOut,
        "FAIL" | "ABORT" | "LEAK-FAIL" => Status::Failed,
        signal if signal.starts_with("SIG") => Status::Failed,
        _ => return None,
    };
    let (seconds, rest) = rest.split_once("s]")?;
    let mut words = rest.rsplit(' ');
    let (name, binary) = (words.next()?, words.next()?);
    Some(Ended {
        test: Test {
            binary: binary.to_owned(),
            name: name.to_owned(),
        },
        seconds: seconds.trim().parse().ok()?,
        status,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_test_is_read() {
        for (line, expected) in [
            (
                "        PASS [   0.014s] ( 1/42) zk-counter format::reads",
                Some((Status::Passed, 0.014, "zk-counter", "format::reads")),
            ),
            (
                "        FAIL [   2.000s] (10/42) zk-counter::sim basic::adds",
                Some((Status::Failed, 2.0, "zk-counter::sim", "basic::adds")),
            ),
            (
                "     SIGABRT [   0.100s] zk-counter basic::adds",
                Some((Status::Failed, 0.1, "zk-counter", "basic::adds")),
            ),
            (
                "     TIMEOUT [  20.003s] (1/1) zk-counter basic::adds",
                Some((Status::TimedOut, 20.003, "zk-counter", "basic::adds")),
            ),
            (
                " TERMINATING [> 20.000s] (1/1) zk-counter basic::adds",
                None,
            ),
            (
                "        SLOW [> 60.000s] (1/1) zk-counter basic::adds",
                None,
            ),
            ("     Summary [   2.789s] 42 tests run: 42 passed", None),
            ("error: test run failed", None),
        ] {
            let read = ended(line);
            let read = read.as_ref().map(|it| {
                let test = &it.test;
                (
                    it.status,
                    it.seconds,
                    test.binary.as_str(),
                    test.name.as_str(),
                )
            });
            assert_eq!(read, expected, "{line}");
        }
    }

    #[test]
    fn limits_follow_from_the_run_without_a_mutant() {
        let limits = |slowest_test, all_tests| {
            let baseline = Baseline {
                slowest_test,
                all_tests,
                ..Baseline::default()
            };
            let limits = Limits::after(&baseline);
            (limits.one_test, limits.all_tests)
        };
        assert_eq!(limits(0.1, 1.0), (20, 63));
        assert_eq!(limits(9.9, 20.0), (30, 120));
        assert_eq!(limits(90.0, 200.0), (60, 300));
    }
}
