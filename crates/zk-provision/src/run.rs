//! Runs a program with a deadline.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::Path;
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

const INTERVAL: Duration = Duration::from_millis(20);

/// Runs a program for at most `limit`; calls `tick` several times a second until it ends.
///
/// The error is what a program that failed wrote to its standard error.
pub(super) fn output(
    command: &mut Command,
    limit: Duration,
    mut tick: impl FnMut(),
) -> Result<Output, String> {
    let name = Path::new(command.get_program())
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let cannot = |what: &str, error: io::Error| format!("{name}: cannot {what}: {error}");
    // Files, because a full pipe blocks the program.
    let file = || {
        let file = tempfile::tempfile()?;
        Ok((file.try_clone()?, file))
    };
    let file = || file().map_err(|error| cannot("create a temporary file for its output", error));
    let ((out, stdout), (err, stderr)) = (file()?, file()?);
    let child = command.stdout(stdout).stderr(stderr).spawn();
    let mut child = child.map_err(|error| cannot("start it", error))?;
    let ended = until(limit, || {
        tick();
        child.try_wait()
    });
    let Some(status) = ended.map_err(|error| cannot("wait for it", error))? else {
        let killed = child.kill().and_then(|()| child.wait());
        tracing::debug!(?killed, name, "killed at its deadline");
        return Err(format!("{name} did not end within {limit:?}"));
    };
    let read = |file| contents(file).map_err(|error| cannot("read its output", error));
    let output = Output {
        status,
        stdout: read(out)?,
        stderr: read(err)?,
    };
    let said = complaints(&String::from_utf8_lossy(&output.stderr));
    if status.success() {
        tracing::debug!(program = name, said, "ended well");
        Ok(output)
    } else if said.is_empty() {
        Err(format!("{name} failed ({status})"))
    } else {
        Err(format!("{name} failed ({status}): {said}"))
    }
}

/// Polls until there is a value; `None` after `limit`.
pub(super) fn until<T, E>(
    limit: Duration,
    mut ask: impl FnMut() -> Result<Option<T>, E>,
) -> Result<Option<T>, E> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(answer) = ask()? {
            return Ok(Some(answer));
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(None);
        }
        #[expect(
            clippy::disallowed_methods,
            reason = "the interval of a wait that has a deadline"
        )]
        thread::sleep(INTERVAL.min(left));
    }
}

fn contents(mut file: File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Selects the error lines: apt marks them, other programs do not.
fn complaints(stderr: &str) -> String {
    let marked: Vec<&str> = stderr
        .lines()
        .filter_map(|line| line.strip_prefix("E: "))
        .collect();
    let lines = if marked.is_empty() {
        stderr
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .take(5)
            .collect()
    } else {
        marked
    };
    lines.join("; ")
}

#[cfg(test)]
mod tests;
