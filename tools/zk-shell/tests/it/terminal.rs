//! A program in a pseudo-terminal of its own, typed at and read.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::Instant;

use crate::MAX_WAIT;

/// The program, and all that it has written.
pub(crate) struct Terminal {
    child: Child,
    keys: ChildStdin,
    chunks: mpsc::Receiver<Vec<u8>>,
    screen: String,
    /// What was expected before is to the left.
    seen: usize,
}

impl Terminal {
    /// Starts `zk` with these arguments; `state` is where it keeps its history.
    pub(crate) fn start(connect: &str, state: &Path, arguments: &str) -> Self {
        let zk = env!("CARGO_BIN_EXE_zk");
        Self::run(connect, state, &format!("exec {zk} {arguments}"))
    }

    /// Starts the shell in a directory, where it also keeps its history, without colours.
    pub(crate) fn start_in(connect: &str, directory: &Path) -> Self {
        let zk = env!("CARGO_BIN_EXE_zk");
        let at = directory.display();
        Self::run(
            connect,
            directory,
            &format!("cd {at}; NO_COLOR=1 exec {zk}"),
        )
    }

    /// Starts a command of `sh`.
    pub(crate) fn run(connect: &str, state: &Path, command: &str) -> Self {
        // It gives the program a terminal, and ends with its exit status.
        let mut child = Command::new("script")
            .args(["-qefc", command, "/dev/null"])
            .env("ZK_CONNECT", connect)
            .env("XDG_STATE_HOME", state)
            .env("TERM", "xterm")
            .env("SECOND_USER", "bob:hunter2")
            .env_remove("ZK_AUTH")
            .env_remove("NO_COLOR")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("script starts");
        let keys = child.stdin.take().expect("it is piped");
        let mut output = child.stdout.take().expect("it is piped");
        let (sender, chunks) = mpsc::channel();
        std::thread::spawn(move || {
            let mut chunk = [0; 4096];
            while let Ok(read @ 1..) = output.read(&mut chunk) {
                if sender.send(chunk[..read].to_vec()).is_err() {
                    break;
                }
            }
        });
        Self {
            child,
            keys,
            chunks,
            screen: String::new(),
            seen: 0,
        }
    }

    /// Presses keys.
    pub(crate) fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("it reads");
        self.keys.flush().expect("it reads");
    }

    /// Waits for the next prompt: what is typed before it is lost, as the editor drops it.
    pub(crate) fn prompt(&mut self) {
        // Each prompt begins with this, for pasted text.
        self.expect("\u{1b}[?2004h");
    }

    /// Types a line at the next prompt.
    pub(crate) fn line(&mut self, line: &str) {
        self.prompt();
        self.press(&format!("{line}\r"));
    }

    /// Waits until the program writes this, after what was expected before.
    pub(crate) fn expect(&mut self, text: &str) -> String {
        let deadline = Instant::now() + MAX_WAIT;
        loop {
            if let Some(at) = self.screen[self.seen..].find(text) {
                let end = self.seen + at + text.len();
                let before = self.screen[self.seen..end].to_owned();
                self.seen = end;
                return before;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            match self.chunks.recv_timeout(left) {
                Ok(chunk) => self.screen.push_str(&String::from_utf8_lossy(&chunk)),
                Err(end) => panic!(
                    "no {text:?} within a minute ({end}) after {:?} in {:?}",
                    &self.screen[..self.seen],
                    &self.screen[self.seen..]
                ),
            }
        }
    }

    /// Returns everything that was written so far.
    pub(crate) fn screen(&self) -> &str {
        &self.screen
    }

    /// Waits for the end of the program.
    pub(crate) fn end(mut self) -> (ExitStatus, String) {
        let deadline = Instant::now() + MAX_WAIT;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.chunks.recv_timeout(left) {
                Ok(chunk) => self.screen.push_str(&String::from_utf8_lossy(&chunk)),
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    panic!("it has not ended within a minute: {:?}", self.screen)
                }
            }
        }
        let status = self.child.wait().expect("it has ended");
        (status, std::mem::take(&mut self.screen))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // It has ended, unless the test failed.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
