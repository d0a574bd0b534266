//! Runs a program with a deadline.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;
use std::time::Instant;

const TICK: Duration = Duration::from_millis(100);

/// How a program is run.
pub(super) struct Run<'a> {
    /// Becomes the program's standard input: the cache's lock, which the program does not read.
    pub(super) lock: &'a File,
    /// The program may take this long.
    pub(super) limit: Duration,
    /// Called several times a second while the program runs.
    pub(super) tick: &'a mut dyn FnMut(),
}

impl Run<'_> {
    /// Returns the standard output if the program succeeded, otherwise its error messages.
    pub(super) fn output(self, command: &mut Command) -> Result<String, String> {
        let name = Path::new(command.get_program())
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let cannot = |what: &str, error: std::io::Error| format!("{name}: cannot {what}: {error}");
        let lock = self
            .lock
            .try_clone()
            .map_err(|error| cannot("pass on the lock", error))?;
        let mut child = command
            .env("LC_ALL", "C.UTF-8")
            .env("DEBIAN_FRONTEND", "noninteractive")
            .stdin(Stdio::from(lock))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| cannot("start it", error))?;
        let (sender, receiver) = mpsc::channel();
        collect(child.stdout.take(), sender.clone(), Stream::Out);
        collect(child.stderr.take(), sender, Stream::Err);
        let deadline = Instant::now() + self.limit;
        let (mut out, mut err) = (String::new(), String::new());
        for _ in [Stream::Out, Stream::Err] {
            let (stream, text) = loop {
                match receiver.recv_timeout(TICK) {
                    Ok(message) => break message,
                    Err(mpsc::RecvTimeoutError::Timeout) if Instant::now() < deadline => {
                        (self.tick)();
                    }
                    Err(_) => return Err(late(&mut child, &name, self.limit)),
                }
            };
            match stream {
                Stream::Out => out = text,
                Stream::Err => err = text,
            }
        }
        let status = child.wait().map_err(|error| cannot("wait for it", error))?;
        if status.success() {
            tracing::debug!(program = name, complaints = complaints(&err), "ended well");
            return Ok(out);
        }
        let said = complaints(&err);
        Err(if said.is_empty() {
            format!("{name} failed ({status})")
        } else {
            format!("{name} failed: {said}")
        })
    }
}

#[derive(Debug, Clone, Copy)]
enum Stream {
    Out,
    Err,
}

fn collect(
    pipe: Option<impl Read + Send + 'static>,
    sender: mpsc::Sender<(Stream, String)>,
    stream: Stream,
) {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // Keep the text read before an error.
        let ended = pipe.map(|mut pipe| pipe.read_to_end(&mut bytes));
        tracing::trace!(?stream, ?ended, "output ended");
        // The receiver is gone when the deadline has passed.
        drop(sender.send((stream, String::from_utf8_lossy(&bytes).into_owned())));
    });
}

fn late(child: &mut Child, name: &str, limit: Duration) -> String {
    let killed = child.kill().and_then(|()| child.wait());
    tracing::debug!(?killed, name, "killed at its deadline");
    format!("{name} did not end within {limit:?}")
}

/// Selects the error lines: apt marks them, other programs do not.
pub(super) fn complaints(stderr: &str) -> String {
    let marked: Vec<&str> = stderr
        .lines()
        .filter_map(|line| line.strip_prefix("E: "))
        .collect();
    let lines = if marked.is_empty() {
        stderr
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .take(5)
            .collect()
    } else {
        marked
    };
    lines.join("; ")
}

#[cfg(test)]
mod tests;
