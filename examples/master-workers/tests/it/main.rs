//! The application on real servers, in real processes.

#![cfg(test)]

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use master_workers::Tree;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use zk_core::{NodePath, Session};
use zk_harness::{Ensemble, program_of_next_process};

mod ending;
mod metrics;
mod soak;
mod stopped;
mod walk;

/// For what takes moments on an idle machine.
const MAX_WAIT: Duration = Duration::from_secs(120);
/// A pause of the machine does not end it.
const SESSION_TIMEOUT: Duration = Duration::from_secs(15);

fn tree() -> Tree {
    Tree::new(NodePath::parse("/app").expect("a good path"))
}

fn program(connect: &str) -> Command {
    program_with(connect, SESSION_TIMEOUT)
}

fn program_with(connect: &str, session_timeout: Duration) -> Command {
    let mut command = Command::new(program_of_next_process(Path::new(env!(
        "CARGO_BIN_EXE_master-workers"
    ))));
    command
        .args(["--connect", connect, "--session-timeout"])
        .arg(session_timeout.as_millis().to_string())
        .stdin(Stdio::null())
        .kill_on_drop(true);
    command
}

/// A session that outlives what the tests do to servers.
async fn observer(ensemble: &Ensemble) -> Session {
    Session::builder(ensemble.connect_string())
        .session_timeout(Duration::from_secs(30))
        .operation_timeout(MAX_WAIT)
        .connect()
        .await
        .expect("the ensemble grants a session")
}

/// Looks until there is an answer.
async fn until<T>(what: &str, look: impl AsyncFn() -> Option<T>) -> T {
    let looking = async {
        let mut looks = tokio::time::interval(Duration::from_millis(50));
        loop {
            looks.tick().await;
            if let Some(found) = look().await {
                return found;
            }
        }
    };
    let looked = tokio::time::timeout(MAX_WAIT, looking).await;
    looked.unwrap_or_else(|_| panic!("waited {MAX_WAIT:?} for this: {what}"))
}

/// The children of a node, on a server that has caught up; none if there is no node.
async fn children(session: &Session, path: &NodePath) -> Vec<String> {
    session
        .sync(path)
        .with_quorum()
        .await
        .expect("the server catches up");
    match session.list(path).await {
        Ok((names, _)) => names,
        Err(error) if error.is_no_node() => Vec::new(),
        Err(error) => panic!("{error}"),
    }
}

fn signal(child: &Child, signal: Signal) {
    let id = child.id().expect("it runs");
    let pid = Pid::from_raw(id.cast_signed()).expect("it is above zero");
    kill_process(pid, signal).expect("it runs");
}

/// Waits for a process that was asked to stop.
async fn ended(child: &mut Child) {
    let ended = tokio::time::timeout(MAX_WAIT, child.wait()).await;
    let status = ended
        .expect("it stops when it is asked to")
        .expect("it ran");
    assert!(status.success(), "it ended with {status}");
}

/// A process whose lines are read.
struct Process {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Process {
    fn start(name: &str, connect: &str) -> Self {
        Self::start_with(name, connect, &[])
    }

    fn start_with(name: &str, connect: &str, options: &[&str]) -> Self {
        let mut child = program(connect)
            .args(["node", "--name", name])
            .args(options)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program is there");
        let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        Self { child, lines }
    }

    /// Waits for a line with this in it; answers the lines before it, and that one at the end.
    async fn says(&mut self, what: &str) -> Vec<String> {
        let mut said = Vec::new();
        let reading = async {
            while let Some(line) = self.lines.next_line().await.expect("lines of text") {
                let is_it = line.contains(what);
                said.push(line);
                if is_it {
                    return true;
                }
            }
            false
        };
        let found = tokio::time::timeout(MAX_WAIT, reading).await;
        assert_eq!(found, Ok(true), "no line with {what:?} in {said:#?}");
        said
    }

    /// Takes what it has said, and what it says until it is silent for a while.
    async fn drain(&mut self) {
        let silence = Duration::from_millis(300);
        while let Ok(line) = tokio::time::timeout(silence, self.lines.next_line()).await {
            assert!(line.expect("lines of text").is_some(), "it ended");
        }
    }

    /// Tells it to end, and waits for that.
    async fn end(mut self) {
        signal(&self.child, Signal::TERM);
        self.says(" ends").await;
        ended(&mut self.child).await;
    }
}
