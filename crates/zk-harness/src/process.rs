//! Finds server processes by an argument of their command line, and signals them.
//!
//! A process id alone is not enough: after the server has ended another process may have it.

use std::fs;
use std::path::Path;

use rustix::process::{Pid, Signal};

/// The state of a server's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ProcessState {
    /// It runs.
    Running,
    /// It is suspended by a signal and can be resumed.
    Paused,
    /// There is no such process.
    Stopped,
}

/// Returns the process in `pid_file` if it has the `marker` as an argument.
pub(crate) fn find(pid_file: &Path, marker: &str) -> Option<(Pid, ProcessState)> {
    let pid = fs::read_to_string(pid_file)
        .ok()?
        .trim()
        .parse()
        .ok()
        // A negative number would be a process group.
        .filter(|pid| *pid > 0)
        .and_then(Pid::from_raw)?;
    let (is_ours, letter) = describe(pid, marker)?;
    is_ours.then(|| (pid, state(&letter)))
}

/// Returns the state of a child process that was not reaped, so that its id cannot be reused.
///
/// It does not check the arguments, because a process has none during `exec` and while it ends.
pub(crate) fn child(pid: Pid) -> Option<(Pid, ProcessState)> {
    let (_, letter) = describe(pid, "")?;
    Some((pid, state(&letter)))
}

/// Returns whether a killed process has threads left.
///
/// Its first thread may have ended, and its arguments with it, while others still keep its ports open.
pub(crate) fn is_ending(pid: Pid) -> bool {
    let threads = format!("/proc/{}/task", pid.as_raw_pid());
    fs::read_dir(threads).is_ok_and(|threads| threads.count() > 1)
}

fn state(letter: &str) -> ProcessState {
    if letter.starts_with(['T', 't']) {
        ProcessState::Paused
    } else {
        ProcessState::Running
    }
}

pub(crate) fn signal(pid: Pid, signal: Signal) -> rustix::io::Result<()> {
    match rustix::process::kill_process(pid, signal) {
        // It has ended; the caller checks its state next.
        Err(rustix::io::Errno::SRCH) => Ok(()),
        other => other,
    }
}

/// Returns whether a process has the `marker` as an argument, and its state letter. A zombie has no arguments.
#[cfg(target_os = "linux")]
fn describe(pid: Pid, marker: &str) -> Option<(bool, String)> {
    let pid = pid.as_raw_pid();
    let arguments = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The state is the first field after the program's name, which may contain spaces and parentheses.
    let state = stat.rsplit_once(") ")?.1.chars().next()?.to_string();
    // A complete argument: the command line of a shell or an editor may contain the marker, too.
    let is_ours = arguments
        .split(|byte| *byte == 0)
        .any(|argument| argument == marker.as_bytes());
    Some((is_ours, state))
}

#[cfg(not(target_os = "linux"))]
fn describe(pid: Pid, marker: &str) -> Option<(bool, String)> {
    let output = std::process::Command::new("ps")
        .args([
            "-ww",
            "-o",
            "state=",
            "-o",
            "args=",
            "-p",
            &pid.as_raw_pid().to_string(),
        ])
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (state, arguments) = text.trim().split_once(char::is_whitespace)?;
    (!state.starts_with('Z')).then(|| (arguments.contains(marker), state.to_owned()))
}

#[cfg(test)]
mod tests;
