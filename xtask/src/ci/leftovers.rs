//! Finds and kills servers that a run of the tests has left behind.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::process::Command;
use std::time::{Duration, Instant};

/// Returns the processes whose command line names the directory `cache`: each server has its class path there.
pub(super) fn running_from(cache: &OsStr) -> BTreeSet<u32> {
    let Ok(processes) = fs::read_dir("/proc") else {
        return BTreeSet::new();
    };
    processes
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid| *pid != std::process::id())
        .filter(|pid| {
            fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| mentions(&line, cache))
        })
        .collect()
}

/// Waits until only the processes of `before` remain; kills and reports others, and returns whether there were none.
pub(super) fn gone(cache: &OsStr, before: &BTreeSet<u32>, timeout: Duration) -> bool {
    let deadline = Instant::now() + timeout;
    let mut left = &running_from(cache) - before;
    while !left.is_empty() && Instant::now() < deadline {
        pause();
        left = &running_from(cache) - before;
    }
    for pid in &left {
        eprintln!("error: process {pid} still runs {timeout:?} after the tests: killing it");
        // It may have ended by itself.
        let _status = Command::new("kill")
            .args(["-KILL", &pid.to_string()])
            .status();
    }
    left.is_empty()
}

fn mentions(line: &[u8], cache: &OsStr) -> bool {
    let cache = cache.as_bytes();
    !cache.is_empty() && line.windows(cache.len()).any(|part| part == cache)
}

#[expect(
    clippy::disallowed_methods,
    reason = "between two checks of the processes, up to a deadline"
)]
fn pause() {
    std::thread::sleep(Duration::from_millis(50));
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::process::Stdio;

    use super::*;

    const SHORT: Duration = Duration::from_millis(100);

    #[test]
    fn a_process_left_behind_is_found_and_ended() {
        let cache = format!("/nowhere/xtask-leftovers-{}", std::process::id());
        let mut child = Command::new("sh")
            .args(["-c", "echo up; read line", &cache])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // A process has no command line directly after it is spawned, but has one when it prints.
        let mut up = [0; 3];
        child.stdout.take().unwrap().read_exact(&mut up).unwrap();
        let found = running_from(OsStr::new(&cache));
        let known = gone(OsStr::new(&cache), &found, SHORT);
        let ended = !gone(OsStr::new(&cache), &BTreeSet::new(), SHORT);
        let status = child.wait().unwrap();
        assert_eq!(found, BTreeSet::from([child.id()]));
        assert!(known, "a process from before the tests does not count");
        assert!(ended && !status.success(), "{status}");
    }

    #[test]
    fn nothing_is_left_where_nothing_ran() {
        assert!(gone(OsStr::new("/nowhere/at/all"), &BTreeSet::new(), SHORT));
        assert!(running_from(OsStr::new("")).is_empty());
    }
}
