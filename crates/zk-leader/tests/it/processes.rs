//! Leaders whose processes are killed or stopped: the processes are those of the example.

use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::{example, soon, with_servers};

/// A participant in a process of its own. It is killed when this is dropped.
struct Process {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    /// The process ends when this does.
    _input: ChildStdin,
}

impl Process {
    fn start(name: &str, connect: &str) -> Self {
        let mut child = Command::new(example("leader"))
            .args([name, connect])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let input = child.stdin.take().unwrap();
        Self {
            child,
            lines,
            _input: input,
        }
    }

    /// Waits until it says something with this in it; answers the token at the end of the line, and whether it said
    /// that it works before.
    async fn says(&mut self, what: &str) -> (u64, bool) {
        let mut worked = false;
        let said = async {
            while let Some(line) = self.lines.next_line().await.unwrap() {
                if line.contains(what) {
                    let token = line.rsplit(' ').next().unwrap_or_default();
                    return (token.parse().unwrap(), worked);
                }
                worked |= line.contains(" works, ");
            }
            panic!("it ended without saying this: {what}");
        };
        soon(what, said).await
    }

    /// Takes what it has said so far, and what it says until it is silent for a while.
    async fn drain(&mut self) {
        let silence = Duration::from_millis(300);
        while let Ok(line) = tokio::time::timeout(silence, self.lines.next_line()).await {
            assert!(line.unwrap().is_some(), "it ended");
        }
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id().unwrap()).unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_process_leads_when_the_leaders_is_killed() {
    with_servers(1, async |ensemble| {
        let connect = ensemble.connect_string();
        let mut first = Process::start("anna", &connect);
        let (token, _) = first.says(" leads ").await;
        let mut second = Process::start("ben", &connect);
        first.child.kill().await.unwrap();
        let (next, _) = second.says(" leads ").await;
        assert!(next > token);
    })
    .await;
}

/// Paused for longer than its session lives, the leader notices before its task continues.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_was_paused_while_leading_leads_no_further() {
    with_servers(1, async |ensemble| {
        let connect = ensemble.connect_string();
        let mut first = Process::start("anna", &connect);
        let (token, _) = first.says(" leads ").await;
        let mut second = Process::start("ben", &connect);
        first.says(" works, ").await;
        first.signal(Signal::STOP);
        first.drain().await;
        let (next, _) = second.says(" leads ").await;
        assert!(next > token);
        first.signal(Signal::CONT);
        let (ended, worked) = first.says(" stops, ").await;
        assert_eq!(ended, token);
        assert!(!worked, "it went on as the leader");
        // Supervised, it takes part again with its next session.
        second.child.kill().await.unwrap();
        let (again, _) = first.says(" leads ").await;
        assert!(again > next);
    })
    .await;
}
