//! Checks before a run whether the machine has what some tests need.
//!
//! Only a container engine may be missing: the harness provides everything else. Tests that need one have
//! `in_containers` in their names. Where there is none they are skipped, and counted as skipped; started by hand they
//! fail.

use std::fmt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Tests that are skipped on this machine, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Skipped {
    reason: String,
}

impl Skipped {
    /// Checks whether there is a container engine, as CI does: `docker info`.
    pub(crate) fn probe() -> Option<Self> {
        let mut info = Command::new("docker");
        info.args(["info", "--format", "{{.ServerVersion}}"]);
        answers(info, TIMEOUT).err().map(|reason| Self { reason })
    }
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "skipped: tests with {MARK} in their names, because there is no container engine: {}",
            self.reason
        )
    }
}

/// Returns whether the command succeeds and prints something within this time; the error is one line.
fn answers(mut command: Command, within: Duration) -> Result<(), String> {
    let program = command.get_program().display().to_string();
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = child.map_err(|error| format!("{program} cannot be run: {error}"))?;
    let deadline = Instant::now() + within;
    while matches!(child.try_wait(), Ok(None)) {
        if Instant::now() > deadline {
            // It may have ended by itself.
            drop(child.kill());
            drop(child.wait());
            return Err(format!("{program} did not answer within {within:?}"));
        }
        pause();
    }
    let output = child
        .wait_with_output()
        .map_err(|error| format!("{program} cannot be waited for: {error}"))?;
    if output.status.success() && !output.stdout.trim_ascii().is_empty() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().rev().find(|line| !line.trim().is_empty());
    Err(match last {
        Some(line) => format!("{program} says: {}", line.trim()),
        None => format!("{program} names no server, {}", output.status),
    })
}

#[expect(
    clippy::disallowed_methods,
    reason = "between two checks of the program, up to a deadline"
)]
fn pause() {
    std::thread::sleep(Duration::from_millis(20));
}

/// The names of tests that need a container engine contain this.
pub(super) const MARK: &str = "in_containers";
const TIMEOUT: Duration = Duration::from_secs(20);

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    fn skipped() -> Skipped {
        Skipped {
            reason: "docker says: no".into(),
        }
    }

    #[test]
    fn an_engine_is_there_if_it_names_its_version() {
        let ask = |script| answers(shell(script), TIMEOUT);
        assert_eq!(ask("echo 28.2"), Ok(()));
        assert_eq!(
            ask("echo first >&2; echo 'no daemon' >&2; exit 1"),
            Err("sh says: no daemon".into())
        );
        // As old clients do without a server.
        assert_eq!(
            ask("echo; echo 'no daemon' >&2"),
            Err("sh says: no daemon".into())
        );
        assert_eq!(
            ask("exit 3"),
            Err("sh names no server, exit status: 3".into())
        );
        let silent = answers(shell("exec sleep 60"), Duration::from_millis(50));
        assert_eq!(silent, Err("sh did not answer within 50ms".into()));
        let missing = answers(Command::new("/nowhere/docker"), TIMEOUT).unwrap_err();
        assert!(
            missing.starts_with("/nowhere/docker cannot be run: "),
            "{missing}"
        );
    }

    #[test]
    fn skipped_tests_are_reported_with_the_reason() {
        assert_eq!(
            skipped().to_string(),
            "skipped: tests with in_containers in their names, because there is no container engine: docker says: no"
        );
    }
}
