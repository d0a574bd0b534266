//! The guard process that leaves nothing behind, however the process that started an ensemble ends.
//!
//! It is a small shell script in a process group of its own. Its standard input is a pipe whose only writing end is
//! held by the starting process and closed on `exec`, so the kernel reports its end when that process is gone: after
//! a return, a panic, Ctrl-C, a kill of its process group, or `kill -9`.
//! The script then kills every process that carries the ensemble's marker on its command line, and empties the
//! directories it was told of. It looks for processes again after that: one that was just being spawned is either
//! visible by then or no longer finds its start script. The empty directories themselves go last.

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use crate::config::marker;
use crate::error::Error;
use crate::wait::until_blocking;

/// A running guard.
#[derive(Debug)]
pub(crate) struct Reaper {
    child: Child,
    orders: Option<ChildStdin>,
}

impl Reaper {
    /// Starts a guard for the ensemble in `directory`, which need not exist yet.
    ///
    /// The guard keeps `hold` open as long as it works: a lock on it is not free before the cleaning is done.
    pub(crate) fn spawn(directory: &Path, hold: Option<std::fs::File>) -> Result<Self, Error> {
        let mut child = Command::new("/bin/sh")
            .args(["-c", SCRIPT, "zk-harness-guard"])
            // Not an argument: the guard must not carry the marker it looks for.
            .env("ZK_GUARD_MARKER", marker(directory))
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(hold.map_or_else(Stdio::null, Stdio::from))
            .stderr(Stdio::null())
            // Out of reach of Ctrl-C in the terminal and of a test runner that kills the test's group.
            .process_group(0)
            .spawn()
            .map_err(|source| Error::io("start the guard process", Path::new("/bin/sh"), source))?;
        let orders = child.stdin.take();
        Ok(Self { child, orders })
    }

    /// Has the guard remove this file or directory in the end.
    ///
    /// Call it before the thing is created.
    pub(crate) fn remove_at_end(&mut self, path: &Path) -> Result<(), Error> {
        self.order("remove", &path.to_string_lossy())
    }

    /// Has the guard kill the servers only, and leave the files.
    pub(crate) fn keep_files(&mut self) -> Result<(), Error> {
        self.order("keep", "")
    }

    /// Sends the guard away: servers and files stay.
    pub(crate) fn dismiss(mut self) -> Result<(), Error> {
        self.order("leave", "")?;
        self.finish()
    }

    /// Has the guard do its work now, and waits until it is done.
    pub(crate) fn finish(&mut self) -> Result<(), Error> {
        self.orders = None;
        let child = &mut self.child;
        let failed = |source| Error::io("wait for the guard process", Path::new("/bin/sh"), source);
        until_blocking(FINISH_WITHIN, Duration::from_millis(2), || {
            match child.try_wait() {
                Ok(Some(_)) => Ok(Ok(())),
                Ok(None) => Err(()),
                Err(source) => Ok(Err(failed(source))),
            }
        })
        .unwrap_or_else(|()| {
            Err(failed(std::io::Error::new(
                std::io::ErrorKind::TimedOut,
                format!("it did not finish within {FINISH_WITHIN:?}"),
            )))
        })
    }

    fn order(&mut self, verb: &str, argument: &str) -> Result<(), Error> {
        let failed = |source| Error::io("instruct the guard process", Path::new("/bin/sh"), source);
        if argument.contains('\n') {
            return Err(failed(std::io::Error::new(
                std::io::ErrorKind::InvalidInput,
                "a path with a line break",
            )));
        }
        let Some(orders) = &mut self.orders else {
            return Ok(());
        };
        orders
            .write_all(format!("{verb} {argument}\n").as_bytes())
            .map_err(failed)
    }
}

/// Kills what is left of the ensemble in `directory` and removes `paths`, as a guard would.
pub(crate) fn clean(directory: &Path, paths: &[&Path]) -> Result<(), Error> {
    let mut reaper = Reaper::spawn(directory, None)?;
    for path in paths {
        reaper.remove_at_end(path)?;
    }
    reaper.finish()
}

/// How long the guard may take: it gives a killed process up after 20 s.
const FINISH_WITHIN: Duration = Duration::from_secs(30);

/// The guard. It reads orders until the pipe ends.
const SCRIPT: &str = r#"
trap '' HUP INT TERM QUIT
unset keep
# The paths to remove are kept as positional parameters, so that no character in them means anything.
set --
while IFS= read -r line; do
    case $line in
        "remove "*) set -- "$@" "${line#remove }" ;;
        keep*) keep=yes ;;
        leave*) exit 0 ;;
    esac
done
servers() {
    if [ -d /proc/self ]; then
        printf '%s\n' "$ZK_GUARD_MARKER" | grep -lsF -f - /proc/[0-9]*/cmdline 2>/dev/null |
            sed 's,^/proc/,,; s,/cmdline$,,'
    else
        pgrep -f -- "$ZK_GUARD_MARKER"
    fi
}
kill_all() {
    tries=0
    while pids=$(servers); [ -n "$pids" ] && [ $tries -lt 2000 ]; do
        kill -9 $pids 2>/dev/null
        tries=$((tries + 1))
        sleep 0.01
    done
}
clear_all() {
    for path in "$@"; do
        if [ -d "$path" ]; then
            rm -rf -- "$path"/* "$path"/.[!.]* "$path"/..?*
        else
            rm -f -- "$path"
        fi
    done
}
kill_all
if [ -z "${keep-}" ]; then
    clear_all "$@"
    kill_all
    clear_all "$@"
    # Last of all, and nothing after it: the lock on a directory protects its name as long as it is there.
    for path in "$@"; do
        if [ -d "$path" ]; then rmdir -- "$path"; fi
    done
fi
"#;

#[cfg(test)]
mod tests;
