//! Checks that the limits of open files allow as many connections as a fleet has.

use std::fs;

use anyhow::{Context as _, ensure};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises this process's limit as far as it is allowed to, for itself and the servers it starts.
pub(crate) fn raise_limit(sessions: u32) -> anyhow::Result<()> {
    let limit = getrlimit(Resource::Nofile);
    if let Some(maximum) = limit.maximum {
        ensure!(
            maximum >= needed(sessions),
            "{sessions} sessions need {} open files, and the hard limit of this process is {maximum}: raise it \
             (`ulimit -Hn`, or LimitNOFILE of a service), or measure fewer sessions",
            needed(sessions)
        );
    }
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    setrlimit(Resource::Nofile, raised).context("cannot raise the limit of open files")
}

/// Checks the limit of a server, to which all sessions may be connected.
pub(crate) fn check_process(pid: i32, sessions: u32) -> anyhow::Result<()> {
    let path = format!("/proc/{pid}/limits");
    let limits = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    let limit =
        soft_limit(&limits).with_context(|| format!("{path} has no limit of open files"))?;
    ensure!(
        limit >= needed(sessions),
        "{sessions} sessions need {} open files, and the limit of the server with process id {pid} is {limit}: \
         raise it, or measure fewer sessions",
        needed(sessions)
    );
    Ok(())
}

fn needed(sessions: u32) -> u64 {
    u64::from(sessions) + OTHER_FILES
}

/// Returns the soft limit of open files in a `/proc/<pid>/limits`.
fn soft_limit(limits: &str) -> Option<u64> {
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?;
    match line.split_whitespace().next()? {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    }
}

/// The open files of a process beside its connections.
const OTHER_FILES: u64 = 500;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_is_read() {
        let limits = "Limit          Soft Limit  Hard Limit  Units\n\
                      Max processes  500         900         processes\n\
                      Max open files            1024                 20000                files\n";
        assert_eq!(soft_limit(limits), Some(1024));
        let unlimited = limits.replace("1024 ", "unlimited ");
        assert_eq!(soft_limit(&unlimited), Some(u64::MAX));
        assert_eq!(soft_limit("Max processes 1 1\n"), None);
    }

    #[test]
    fn a_limit_that_is_too_low_is_an_error_with_a_remedy() {
        let pid = i32::try_from(std::process::id()).unwrap();
        raise_limit(1).unwrap();
        check_process(pid, 1).unwrap();
        // Linux allows at most 2^30 open files unless an administrator has raised `fs.nr_open`.
        for error in [
            raise_limit(u32::MAX).unwrap_err(),
            check_process(pid, u32::MAX).unwrap_err(),
        ] {
            let error = error.to_string();
            assert!(error.contains("4294967795 open files"), "{error}");
            assert!(error.contains("measure fewer sessions"), "{error}");
        }
    }
}
