//! The guard process that leaves nothing behind, however the process that started an ensemble ends.
//!
//! It is a small shell script in a process group of its own. Its standard input is a pipe whose only writing end is
//! held by the starting process and closed on `exec`, so the kernel reports its end when that process is gone: after
//! a return, a panic, Ctrl-C, a kill of its process group, or `kill -9`.
//! The script then kills every process that has the ensemble's marker and a role as an argument, and empties the directories it
//! was told of. It looks for processes again after that: one that was just being spawned is either visible by then or
//! no longer finds its start script. The empty directories themselves go last.
//!
//! The guard can be killed, too. As long as the starting process lives it then has a second guard do the work.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::time::Duration;

use crate::config::marker;
use crate::error::Error;
use crate::wait::until_blocking;

/// A running guard. Dropping it has it do its work.
#[derive(Debug)]
pub(crate) struct Reaper {
    directory: PathBuf,
    hold: Option<File>,
    child: Child,
    orders: Option<ChildStdin>,
    /// All orders so far, for a second guard.
    sent: String,
    finished: bool,
}

impl Reaper {
    /// Starts a guard for the ensemble in `directory`, which need not exist yet.
    ///
    /// The guard keeps `hold` open as long as it works: a lock on it is not free before the cleaning is done.
    pub(crate) fn spawn(directory: &Path, hold: Option<File>) -> Result<Self, Error> {
        let (child, orders) = start(directory, hold.as_ref())?;
        Ok(Self {
            directory: directory.to_owned(),
            hold,
            child,
            orders,
            sent: String::new(),
            finished: false,
        })
    }

    /// Has the guard remove this file or directory in the end.
    ///
    /// Call it before the thing is created.
    pub(crate) fn remove_at_end(&mut self, path: &Path) -> Result<(), Error> {
        self.order(&line("remove", path)?)
    }

    /// Has the guard empty this directory instead of removing it.
    pub(crate) fn spare(&mut self, directory: &Path) -> Result<(), Error> {
        self.order(&line("spare", directory)?)
    }

    /// Has the guard kill the servers only, and leave the files.
    pub(crate) fn keep_files(&mut self) -> Result<(), Error> {
        self.order("keep\n")
    }

    /// Sends the guard away: servers and files stay.
    pub(crate) fn dismiss(mut self) -> Result<(), Error> {
        self.order("leave\n")?;
        self.finish()
    }

    /// Has the guard do its work now, and waits until it is done.
    ///
    /// # Errors
    ///
    /// If servers or files are left, or it is not known whether they are.
    pub(crate) fn finish(&mut self) -> Result<(), Error> {
        self.finished = true;
        self.orders = None;
        let status = self.wait_or_succeed();
        self.hold = None;
        let left = match status?.code() {
            Some(0) => return Ok(()),
            Some(SERVERS_LEFT) => "a server's process could not be killed; is it another user's?",
            Some(FILES_LEFT) => "not every file could be removed",
            other => {
                let source = io::Error::other(format!("it ended with {other:?}"));
                return Err(failed("wait for the guard process", source));
            }
        };
        Err(Error::io(
            "clean up",
            &self.directory,
            io::Error::other(left),
        ))
    }

    /// How the guard ended, or, if it was killed, how a second one did.
    fn wait_or_succeed(&mut self) -> Result<ExitStatus, Error> {
        let status = self.wait()?;
        if status.code().is_none() {
            // Somebody killed it before its work was done.
            let (child, orders) = start(&self.directory, self.hold.as_ref())?;
            self.child = child;
            self.orders = orders;
            let sent = std::mem::take(&mut self.sent);
            self.order(&sent)?;
            self.orders = None;
            return self.wait();
        }
        Ok(status)
    }

    fn wait(&mut self) -> Result<ExitStatus, Error> {
        let child = &mut self.child;
        let waited = until_blocking(FINISH_WITHIN, Duration::from_millis(2), || {
            match child.try_wait() {
                Ok(Some(status)) => Ok(Ok(status)),
                Ok(None) => Err(()),
                Err(source) => Ok(Err(source)),
            }
        });
        waited
            .unwrap_or_else(|()| {
                Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    format!("it did not finish within {FINISH_WITHIN:?}"),
                ))
            })
            .map_err(|source| failed("wait for the guard process", source))
    }

    /// Passes on whole lines.
    fn order(&mut self, lines: &str) -> Result<(), Error> {
        self.sent.push_str(lines);
        let Some(orders) = &mut self.orders else {
            return Ok(());
        };
        // At once: a guard whose orders end in the middle would do half of them.
        orders
            .write_all(lines.as_bytes())
            .map_err(|source| failed("instruct the guard process", source))
    }
}

impl Drop for Reaper {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        if let Err(error) = self.finish() {
            tracing::warn!(%error, directory = %self.directory.display(), "the ensemble was not cleaned up");
        }
    }
}

/// Kills what is left of the ensemble in `directory` and removes `paths`, as a guard would.
pub(crate) fn clean(directory: &Path, paths: &[&Path], hold: Option<File>) -> Result<(), Error> {
    let orders: String = paths
        .iter()
        .map(|path| line("remove", path))
        .collect::<Result<_, _>>()?;
    let mut reaper = Reaper::spawn(directory, hold)?;
    reaper.order(&orders)?;
    reaper.finish()
}

/// Kills what is left of the ensemble in `directory`, and leaves the files.
pub(crate) fn halt(directory: &Path) -> Result<(), Error> {
    let mut reaper = Reaper::spawn(directory, None)?;
    reaper.keep_files()?;
    reaper.finish()
}

fn line(verb: &str, path: &Path) -> Result<String, Error> {
    let text = path.to_string_lossy();
    if text.contains('\n') {
        let source = io::Error::new(io::ErrorKind::InvalidInput, "a path with a line break");
        return Err(failed("instruct the guard process", source));
    }
    Ok(format!("{verb} {text}\n"))
}

fn start(directory: &Path, hold: Option<&File>) -> Result<(Child, Option<ChildStdin>), Error> {
    let failed = |source| failed("start the guard process", source);
    let hold = hold.map(File::try_clone).transpose().map_err(failed)?;
    let mut child = Command::new("/bin/sh")
        .args(["-c", SCRIPT, "zk-harness-guard"])
        // Nothing from outside changes what the script does.
        .env_clear()
        .env("PATH", search_path(std::env::var_os("PATH").as_deref()))
        .env("LC_ALL", "C")
        // Not an argument: the guard must not carry the marker it looks for.
        .env("ZK_GUARD_MARKER", marker(directory))
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(hold.map_or_else(Stdio::null, Stdio::from))
        .stderr(Stdio::null())
        // Out of reach of Ctrl-C in the terminal and of a test runner that kills the test's group.
        .process_group(0)
        .spawn()
        .map_err(failed)?;
    let orders = child.stdin.take();
    Ok((child, orders))
}

/// Where the guard finds `grep` and `rm`: where they usually are, whatever `PATH` is here.
fn search_path(path: Option<&OsStr>) -> OsString {
    let mut all = OsString::from("/usr/bin:/bin");
    if let Some(path) = path.filter(|path| !path.is_empty()) {
        all.push(":");
        all.push(path);
    }
    all
}

fn failed(action: &'static str, source: io::Error) -> Error {
    Error::io(action, Path::new("/bin/sh"), source)
}

/// How long the guard may take: it gives a killed process up after 10 s of pauses.
const FINISH_WITHIN: Duration = Duration::from_secs(60);

/// The guard's exit codes. A shell that fails by itself has 1, 2, 126 or 127.
const SERVERS_LEFT: i32 = 3;
const FILES_LEFT: i32 = 4;

/// The guard. It reads orders until the pipe ends.
const SCRIPT: &str = r#"
killed=
trap '' HUP INT TERM QUIT
# The paths to remove are kept as positional parameters, so that no character in them means anything.
set --
while IFS= read -r line; do
    case $line in
        "remove "*) set -- "$@" "${line#remove }" ;;
        "spare "*) spare=${line#spare } ;;
        keep*) keep=yes ;;
        leave*) exit 0 ;;
    esac
done
# A whole argument: a shell, an editor or a search whose command line mentions the marker is none of ours.
is_ours() {
    tr '\0' '\n' <"/proc/$1/cmdline" 2>/dev/null | {
        while IFS= read -r argument; do
            case $argument in
                # An ensemble in a directory below this one.
                "$ZK_GUARD_MARKER"*/*/) ;;
                "$ZK_GUARD_MARKER"?*/) exit 0 ;;
            esac
        done
        exit 1
    }
}
ours() {
    if [ -d /proc/self ]; then
        for file in $(printf '%s\n' "$ZK_GUARD_MARKER" | grep -lsF -f - /proc/[0-9]*/cmdline); do
            pid=${file#/proc/}
            pid=${pid%/cmdline}
            if is_ours "$pid"; then echo "$pid"; fi
        done
    else
        pgrep -f -- "$ZK_GUARD_MARKER"
    fi
}
kill_all() {
    tries=0
    while pids=$(ours); [ -n "$pids" ]; do
        if [ $tries -ge 1000 ]; then exit 3; fi
        kill -9 $pids 2>/dev/null
        killed="$killed $pids"
        tries=$((tries + 1))
        sleep 0.01
    done
    # The first thread of a process may be gone, and its arguments with it, while others still hold its ports.
    tries=0
    while has_threads && [ $tries -lt 1000 ]; do
        tries=$((tries + 1))
        sleep 0.01
    done
}
has_threads() {
    for pid in $killed; do
        for thread in /proc/"$pid"/task/*; do
            if [ "${thread##*/}" != "$pid" ] && [ -d "$thread" ]; then return 0; fi
        done
    done
    return 1
}
# What libfaketime leaves in shared memory when its process is killed.
forget_clocks() {
    for file in "${ZK_GUARD_MARKER#*=}"server-*/clock.pids; do
        if [ ! -f "$file" ]; then continue; fi
        while read -r pid; do
            rm -f -- "/dev/shm/faketime_shm_$pid" "/dev/shm/sem.faketime_sem_$pid"
        done <"$file"
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
forget_clocks
if [ -z "${keep-}" ]; then
    clear_all "$@"
    kill_all
    clear_all "$@"
    left=0
    # Last of all, and nothing after it: the lock on a directory protects its name as long as it is there.
    for path in "$@"; do
        if [ "$path" = "${spare-}" ] || { [ -L "$path" ] && [ -d "$path" ]; }; then
            # To be used again; or a link that somebody else made to a directory of theirs. It is empty now.
            continue
        elif [ -d "$path" ]; then
            rmdir -- "$path" || left=4
        elif [ -e "$path" ]; then
            left=4
        fi
    done
    exit $left
fi
"#;

#[cfg(test)]
mod tests;
