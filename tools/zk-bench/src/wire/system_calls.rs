//! Counts the system calls of a client with `strace`, which needs no privileges.
//!
//! The client marks the beginning and the end of what is measured by asking for files that do not exist.
//! `strace` makes each system call many times slower. That does not change how many there are while one request is in
//! flight. With several, a slower client finds more replies at a time and has fewer system calls, so those workloads are
//! not counted.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;

use anyhow::ensure;
use tokio::process::Command;

use super::client_kind::ClientKind;
use super::load::precise;
use super::workload::Workload;

/// The file that a client asks for when its measurement begins.
pub const BEGIN_MARK: &str = "/client-load-begins";
/// The file that a client asks for when its measurement has ended.
pub const END_MARK: &str = "/client-load-has-ended";

/// The system calls of one client in all workloads.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TracedRuns {
    client: ClientKind,
    /// System calls per operation, by name.
    each: Vec<(Workload, BTreeMap<String, f64>)>,
}

/// Returns a command that runs another one under `strace`, and writes what it does to a log.
pub(super) async fn traced(command: &Command, log: &Path) -> anyhow::Result<Command> {
    let mut version = Command::new("strace");
    version
        .arg("-V")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let is_there = version.status().await.is_ok_and(|status| status.success());
    ensure!(
        is_there,
        "strace is not installed; install the package of this name"
    );
    let command = command.as_std();
    let mut traced = Command::new("strace");
    traced
        .args(["-f", "-qq", "-s", "40", "-e", "signal=none", "-o"])
        .arg(log)
        .arg(command.get_program())
        .args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => traced.env(name, value),
            None => traced.env_remove(name),
        };
    }
    Ok(traced)
}

impl TracedRuns {
    /// Reads the log of a client that has done these runs, with so many operations each.
    pub(super) fn read(
        client: ClientKind,
        done: &[(Workload, u64)],
        log: &str,
    ) -> anyhow::Result<Self> {
        let counts = counts(log);
        ensure!(
            counts.len() == done.len(),
            "the log of strace has {} of {} runs of {}",
            counts.len(),
            done.len(),
            client.name()
        );
        let each = done
            .iter()
            .zip(counts)
            .map(|((workload, operations), all)| {
                let all = all.into_iter();
                let all = all.map(|(name, count)| (name, precise(count) / precise(*operations)));
                (*workload, all.collect())
            });
        Ok(Self {
            client,
            each: each.collect(),
        })
    }

    /// Returns the system calls of an operation.
    pub(super) fn total(&self, client: ClientKind, workload: Workload) -> Option<f64> {
        Some(self.of(client, workload)?.values().sum())
    }

    /// Returns the names of the most frequent system calls with their number per operation, such as `read 1.0`.
    pub(super) fn by_name(&self, client: ClientKind, workload: Workload) -> Option<String> {
        let mut all: Vec<_> = self.of(client, workload)?.iter().collect();
        all.sort_by(|one, other| other.1.total_cmp(one.1));
        all.retain(|(_, each)| **each >= RARE);
        let all = all.iter().map(|(name, each)| format!("{name} {each:.1}"));
        Some(all.collect::<Vec<_>>().join(", "))
    }

    fn of(&self, client: ClientKind, workload: Workload) -> Option<&BTreeMap<String, f64>> {
        let mut each = self.each.iter().filter(|_| self.client == client);
        let (_, found) = each.find(|(found, _)| *found == workload)?;
        Some(found)
    }
}

/// Counts the system calls between the marks, for each pair of marks.
fn counts(log: &str) -> Vec<BTreeMap<String, u64>> {
    let mut all = Vec::new();
    let mut current: Option<BTreeMap<String, u64>> = None;
    for line in log.lines() {
        if line.contains(BEGIN_MARK) {
            current = Some(BTreeMap::new());
        } else if line.contains(END_MARK) {
            all.extend(current.take());
        } else if let (Some(counts), Some(name)) = (&mut current, name(line)) {
            *counts.entry(name.to_owned()).or_default() += 1;
        }
    }
    all
}

/// Returns the name of the system call that begins in a line of the log: `12 read(3, ...`; the end of one that was
/// interrupted by another thread's is another line, `12 <... read resumed>`.
fn name(line: &str) -> Option<&str> {
    let (_, call) = line.split_once(' ')?;
    let (name, _) = call.trim_start().split_once('(')?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    (!name.is_empty() && name.chars().all(is_name)).then_some(name)
}

/// Rarer ones per operation are not listed by name.
const RARE: f64 = 0.05;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::WORKLOADS;

    #[test]
    fn calls_between_the_marks_are_counted_once_each() {
        let log = format!(
            "7 openat(AT_FDCWD, \"/etc\") = 3\n\
             7 statx(AT_FDCWD, \"{BEGIN_MARK}\", 0) = -1 ENOENT\n\
             7 sendto(3, \"abc\"..., 40, 0) = 40\n\
             8 epoll_wait(5, <unfinished ...>\n\
             7 sendto(3, \"abc\"..., 40, 0) = 40\n\
             8 <... epoll_wait resumed>[], 1024, 0) = 1\n\
             8 +++ exited with 0 +++\n\
             7 statx(AT_FDCWD, \"{END_MARK}\", 0) = -1 ENOENT\n\
             7 read(0, \"\", 1) = 0\n"
        );
        let runs = TracedRuns::read(ClientKind::ZkWire, &[(WORKLOADS[0], 2)], &log).unwrap();
        let of = |client| runs.by_name(client, WORKLOADS[0]);
        assert_eq!(
            of(ClientKind::ZkWire).unwrap(),
            "sendto 1.0, epoll_wait 0.5"
        );
        assert_eq!(of(ClientKind::Java), None);
        let total = runs.total(ClientKind::ZkWire, WORKLOADS[0]).unwrap();
        assert!((total - 1.5).abs() < 1e-9);
        assert_eq!(runs.total(ClientKind::ZkWire, WORKLOADS[1]), None);
    }

    #[test]
    fn a_log_without_a_run_is_an_error() {
        let log = format!("7 statx(AT_FDCWD, \"{BEGIN_MARK}\", 0) = -1 ENOENT\n");
        let error = TracedRuns::read(ClientKind::ZkWire, &[(WORKLOADS[0], 2)], &log).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the log of strace has 0 of 1 runs of zk-wire"
        );
    }
}
