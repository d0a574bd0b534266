//! Runs the guard process, which cleans up an ensemble however the process that started it ends.
//!
//! The guard is a small shell script in a process group of its own. Its standard input is a pipe. Only the starting
//! process has the writing end, closed on `exec`, so the kernel closes the pipe when that process ends: after a return,
//! a panic, Ctrl-C, a kill of its process group, or `kill -9`.
//! The script then kills every process with the ensemble's marker and a role as an argument, and empties the ensemble's
//! directories. Then it searches for processes again: one that was just being spawned is visible by now, or no longer
//! finds its start script. Last, it removes the empty directories.
//!
//! If the guard itself is killed while the starting process runs, that process starts a second guard.

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

/// A running guard process. Dropping it makes the guard clean up.
#[derive(Debug)]
pub(crate) struct Reaper {
    directory: PathBuf,
    hold: Option<File>,
    child: Child,
    commands: Option<ChildStdin>,
    /// All commands so far, for a second guard.
    sent: String,
    finished: bool,
}

impl Reaper {
    /// Starts a guard for the ensemble in `directory`, which need not exist yet.
    ///
    /// The guard keeps `hold` open until it is done, so that a lock on the file is not released earlier.
    pub(crate) fn spawn(directory: &Path, hold: Option<File>) -> Result<Self, Error> {
        let (child, commands) = start(directory, hold.as_ref())?;
        Ok(Self {
            directory: directory.to_owned(),
            hold,
            child,
            commands,
            sent: String::new(),
            finished: false,
        })
    }

    /// Lets the guard remove this file or directory at the end.
    ///
    /// Call it before the file or directory is created.
    pub(crate) fn remove_at_end(&mut self, path: &Path) -> Result<(), Error> {
        self.send(&command("remove", path)?)
    }

    /// Lets the guard empty this directory instead of removing it.
    pub(crate) fn empty_at_end(&mut self, directory: &Path) -> Result<(), Error> {
        self.send(&command("empty", directory)?)
    }

    /// Lets the guard kill the servers only, and keep the files.
    pub(crate) fn keep_files(&mut self) -> Result<(), Error> {
        self.send("keep\n")
    }

    /// Ends the guard without cleaning up.
    pub(crate) fn dismiss(mut self) -> Result<(), Error> {
        self.send("leave\n")?;
        self.finish()
    }

    /// Lets the guard clean up now, and waits until it is done.
    ///
    /// # Errors
    ///
    /// If servers or files are left, or may be left.
    pub(crate) fn finish(&mut self) -> Result<(), Error> {
        self.finished = true;
        self.commands = None;
        let status = self.wait_or_replace();
        self.hold = None;
        let left = match status?.code() {
            Some(0) => return Ok(()),
            Some(SERVERS_LEFT) => {
                "a server's process could not be killed; it may belong to another user"
            }
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

    /// Returns the exit status of the guard, or of a second one if the guard was killed.
    fn wait_or_replace(&mut self) -> Result<ExitStatus, Error> {
        let status = self.wait()?;
        if status.code().is_none() {
            // It was killed before it was done.
            let (child, commands) = start(&self.directory, self.hold.as_ref())?;
            self.child = child;
            self.commands = commands;
            let sent = std::mem::take(&mut self.sent);
            self.send(&sent)?;
            self.commands = None;
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

    /// Sends complete lines to the guard.
    fn send(&mut self, lines: &str) -> Result<(), Error> {
        self.sent.push_str(lines);
        let Some(commands) = &mut self.commands else {
            return Ok(());
        };
        // In one write, so that the guard never acts on a part of them.
        commands
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
            tracing::warn!(%error, directory = %self.directory.display(), "cannot clean up the ensemble");
        }
    }
}

/// Kills the processes of the ensemble in `directory` and removes `paths`.
pub(crate) fn clean(directory: &Path, paths: &[&Path], hold: Option<File>) -> Result<(), Error> {
    let commands: String = paths
        .iter()
        .map(|path| command("remove", path))
        .collect::<Result<_, _>>()?;
    let mut reaper = Reaper::spawn(directory, hold)?;
    reaper.send(&commands)?;
    reaper.finish()
}

/// Kills the processes of the ensemble in `directory`, and keeps the files.
pub(crate) fn halt(directory: &Path) -> Result<(), Error> {
    let mut reaper = Reaper::spawn(directory, None)?;
    reaper.keep_files()?;
    reaper.finish()
}

fn command(verb: &str, path: &Path) -> Result<String, Error> {
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
        // The environment must not affect the script.
        .env_clear()
        .env("PATH", search_path(std::env::var_os("PATH").as_deref()))
        .env("LC_ALL", "C")
        // Not an argument, or the guard would find and kill itself.
        .env("ZK_GUARD_MARKER", marker(directory))
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(hold.map_or_else(Stdio::null, Stdio::from))
        .stderr(Stdio::null())
        // Neither Ctrl-C in the terminal nor a test runner that kills the test's group must end it.
        .process_group(0)
        .spawn()
        .map_err(failed)?;
    let commands = child.stdin.take();
    Ok((child, commands))
}

/// Returns the `PATH` of the guard: the usual directories of `grep` and `rm`, then this process's `PATH`.
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

/// How long to wait for the guard, which waits up to 10 s for killed processes.
const FINISH_WITHIN: Duration = Duration::from_secs(60);

/// The guard's exit codes. A shell that fails by itself returns 1, 2, 126 or 127.
const SERVERS_LEFT: i32 = 3;
const FILES_LEFT: i32 = 4;

/// The guard's script. It reads commands until the pipe ends.
const SCRIPT: &str = r#"
killed=
trap '' HUP INT TERM QUIT
# The paths to remove are positional parameters, so that no character in them is special.
set --
while IFS= read -r line; do
    case $line in
        "remove "*) set -- "$@" "${line#remove }" ;;
        "empty "*) emptied=${line#empty } ;;
        keep*) keep=yes ;;
        leave*) exit 0 ;;
    esac
done
# A complete argument: the command line of a shell, an editor or a search may contain the marker, too.
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
    # The first thread of a process may have ended, and its arguments with it, while others still keep its ports open.
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
# Removes the shared memory that libfaketime leaves when its process is killed.
remove_clock_memory() {
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
remove_clock_memory
if [ -z "${keep-}" ]; then
    clear_all "$@"
    kill_all
    clear_all "$@"
    left=0
    # Last of all: a lock on a directory protects its name only while the directory exists.
    for path in "$@"; do
        if [ "$path" = "${emptied-}" ] || { [ -L "$path" ] && [ -d "$path" ]; }; then
            # It is used again, or it is a link to a directory that is not ours. It is empty now.
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
