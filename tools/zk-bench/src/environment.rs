//! Describes what a figure depends on: the machine and the ensemble.

use std::fs;
use std::path::Path;
use std::process::Command;

use zk_harness::{DataStore, Ensemble, Server};

use crate::other_work::{OtherWork, WorkMeter};

/// The machine and the ensemble of a run.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Environment {
    /// The processor, the number of cores, and the size of the memory.
    pub machine: String,
    /// The kernel.
    pub system: String,
    /// The CPU use of other processes during the run.
    pub other_work: OtherWork,
    /// The number of servers, their version, and their Java.
    pub ensemble: String,
    /// Where the servers keep their data, and whether they wait for the disk.
    pub data: String,
}

impl Environment {
    /// Collects the description at the end of a run, while the servers still run; unreadable values are `unknown`.
    pub fn of(ensemble: &Ensemble, meter: &WorkMeter) -> Self {
        let in_memory = ensemble.spec().data == DataStore::Memory;
        let directory = if in_memory {
            Path::new("/dev/shm")
        } else {
            ensemble.directory()
        };
        let file_system = read("/proc/mounts")
            .and_then(|mounts| file_system(&mounts, directory))
            .unwrap_or_else(unknown);
        let forced = match ensemble.spec().properties.get("forceSync") {
            Some(value) if value == "no" => "forceSync=no: a commit does not wait for it",
            _ => "forceSync=yes: every commit waits for its fsync",
        };
        let place = if in_memory { "memory" } else { "disk" };
        Self {
            machine: Self::this_machine(),
            system: read("/proc/version").map_or_else(unknown, |version| {
                version.split(" (").next().unwrap_or_default().to_owned()
            }),
            other_work: meter.read(ensemble.servers().iter().filter_map(Server::pid)),
            ensemble: format!(
                "{} servers, ZooKeeper {}, {}",
                ensemble.servers().len(),
                ensemble.version(),
                java(&ensemble.distribution().java).unwrap_or_else(unknown)
            ),
            data: format!("{place} ({file_system}), {forced}"),
        }
    }

    /// Describes this machine.
    pub fn this_machine() -> String {
        format!(
            "{}, {} cores, {} GiB",
            field("/proc/cpuinfo", "model name").unwrap_or_else(unknown),
            std::thread::available_parallelism().map_or(0, usize::from),
            field("/proc/meminfo", "MemTotal")
                .and_then(|total| total.trim_end_matches(" kB").parse::<u64>().ok())
                .unwrap_or_default()
                .div_ceil(1 << 20)
        )
    }

    /// Formats the command of a run and its environment, as a list in Markdown.
    pub fn describe(&self, command: &str) -> String {
        format!(
            "{}- command: `{command}`\n- machine: {}; clients and servers share it\n- system: {}; other work: {}\n\
             - ensemble: {}\n- data: {}\n",
            self.other_work.warning(),
            self.machine,
            self.system,
            self.other_work,
            self.ensemble,
            self.data
        )
    }
}

fn unknown() -> String {
    "unknown".to_owned()
}

fn read(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

/// Returns the first value after `name` and a colon.
fn field(path: &str, name: &str) -> Option<String> {
    let text = read(path)?;
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_owned())
    })
}

/// Returns the type of the file system of `directory`: that of the longest mount point above it.
fn file_system(mounts: &str, directory: &Path) -> Option<String> {
    mounts
        .lines()
        .filter_map(|line| {
            let mut fields = line.split(' ').skip(1);
            let (point, kind) = (fields.next()?, fields.next()?);
            directory.starts_with(point).then_some((point.len(), kind))
        })
        .max_by_key(|(length, _)| *length)
        .map(|(_, kind)| kind.to_owned())
}

/// Returns the version line of a Java, such as `openjdk version 17.0.1 2021-10-19`.
fn java(program: &Path) -> Option<String> {
    let output = Command::new(program)
        .arg("-version")
        .env_remove("JAVA_TOOL_OPTIONS")
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stderr);
    Some(text.lines().next()?.replace('"', ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_mount_point_counts() {
        let mounts = "/dev/a / ext4 rw 0 0\ntmpfs /tmp tmpfs rw 0 0\nx /tmpfiles xfs rw 0 0\n";
        let at = |path: &str| file_system(mounts, Path::new(path)).unwrap();
        assert_eq!(at("/tmp/zk-1"), "tmpfs");
        assert_eq!(at("/tmpfoo"), "ext4");
        assert_eq!(at("/home"), "ext4");
        assert_eq!(file_system("", Path::new("/")), None);
    }

    #[test]
    fn this_machine_has_a_processor() {
        assert!(field("/proc/cpuinfo", "processor").is_some());
    }
}
