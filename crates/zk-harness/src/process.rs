//! Server processes, known by an argument on their command line.
//!
//! A process id alone is not enough: after the server is gone the number may belong to somebody else.

use std::fs;
use std::path::Path;

use rustix::process::{Pid, Signal};

/// What a server's process is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ProcessState {
    /// It runs.
    Running,
    /// It is stopped by a signal and can be resumed.
    Paused,
    /// There is no such process.
    Stopped,
}

/// The process that `pid_file` names, if it has the `marker` as an argument.
pub(crate) fn find(pid_file: &Path, marker: &str) -> Option<(Pid, ProcessState)> {
    let pid = fs::read_to_string(pid_file)
        .ok()?
        .trim()
        .parse()
        .ok()
        // A negative number would mean a whole process group.
        .filter(|pid| *pid > 0)
        .and_then(Pid::from_raw)?;
    let (is_ours, letter) = describe(pid, marker)?;
    is_ours.then(|| (pid, state(&letter)))
}

/// A child that runs, whose number is therefore its own.
///
/// Its arguments say nothing: while a process becomes another program, or ends, it has none.
pub(crate) fn child(pid: Pid) -> Option<(Pid, ProcessState)> {
    let (_, letter) = describe(pid, "")?;
    Some((pid, state(&letter)))
}

/// Whether a process that was killed has threads left.
///
/// Its first thread may be gone, and its arguments with it, while others still hold its ports.
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
        // It ended by itself: the caller looks at its state next.
        Err(rustix::io::Errno::SRCH) => Ok(()),
        other => other,
    }
}

/// Whether a process has the `marker` as an argument, and its state letter; a zombie has no arguments.
#[cfg(target_os = "linux")]
fn describe(pid: Pid, marker: &str) -> Option<(bool, String)> {
    let pid = pid.as_raw_pid();
    let arguments = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The state is the first field behind the program's name, which may itself hold spaces and parentheses.
    let state = stat.rsplit_once(") ")?.1.chars().next()?.to_string();
    // A whole argument: a shell or an editor that only mentions the marker is not the server.
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
