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

/// The process that `pid_file` names, if it carries the `marker`.
pub(crate) fn find(pid_file: &Path, marker: &str) -> Option<(Pid, ProcessState)> {
    let pid = fs::read_to_string(pid_file)
        .ok()?
        .trim()
        .parse()
        .ok()
        .and_then(Pid::from_raw)?;
    let (arguments, state) = describe(pid)?;
    if !arguments.contains(marker) {
        return None;
    }
    let state = if state.starts_with(['T', 't']) {
        ProcessState::Paused
    } else {
        ProcessState::Running
    };
    Some((pid, state))
}

pub(crate) fn signal(pid: Pid, signal: Signal) -> rustix::io::Result<()> {
    match rustix::process::kill_process(pid, signal) {
        // It ended by itself: the caller looks at its state next.
        Err(rustix::io::Errno::SRCH) => Ok(()),
        other => other,
    }
}

/// The command line and the state letter of a process; a zombie counts as gone.
#[cfg(target_os = "linux")]
fn describe(pid: Pid) -> Option<(String, String)> {
    let pid = pid.as_raw_pid();
    let arguments = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The state is the first field behind the program's name, which may itself hold spaces and parentheses.
    let state = stat.rsplit_once(") ")?.1.chars().next()?.to_string();
    Some((String::from_utf8_lossy(&arguments).into_owned(), state))
}

#[cfg(not(target_os = "linux"))]
fn describe(pid: Pid) -> Option<(String, String)> {
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
    (!state.starts_with('Z')).then(|| (arguments.to_owned(), state.to_owned()))
}
