//! Three processes elect a leader, and whatever befalls it, another one takes over.
//!
//! ```text
//! cargo run -p zk-leader --example leader
//! ```
//!
//! It starts three real servers, and itself again as three more processes, each of which runs a task while it leads.
//! One leader is killed, one is deposed by an operator who deletes its node, and one is asked to hand over.

use std::io::Write as _;
use std::ops::ControlFlow;
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context as _;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::mpsc;
use zk_core::{RetryPolicy, Session};
use zk_harness::Ensemble;
use zk_leader::{ElectionOptions, LeaderLease, ParticipantEnd, ParticipantHandle, Selector};

const PATH: &str = "/examples/leader";

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.as_slice() {
        [] => run_demo().await,
        [name, connect] => participate(name, connect).await,
        _ => anyhow::bail!("it takes no arguments"),
    }
}

/// One of the processes. It takes part with one session after the other, until its standard input ends.
async fn participate(name: &str, connect: &str) -> anyhow::Result<()> {
    let sessions = Session::builder(connect).connect_timeout(Duration::from_secs(30));
    let (requests, request) = tokio::sync::watch::channel(0);
    // A thread of its own, which does not keep the process from ending.
    std::thread::spawn(move || {
        for _ in std::io::stdin().lines().map_while(Result::ok) {
            requests.send_modify(|requests| *requests += 1);
        }
    });
    let taking_part = sessions.supervise(RetryPolicy::default(), |session| {
        let options = ElectionOptions::default()
            .with_id(name)
            .with_metadata(format!("process {}", std::process::id()));
        let request = request.clone();
        async move {
            let selector = Selector::with_options(&session, PATH, &options).expect("a good path");
            let resigning = resign_on_request(selector.handle().clone(), request);
            let running = selector.run(|lease| lead(name, lease));
            // The first one to finish ends both.
            tokio::select! {
                end = running => end,
                end = resigning => Err(end),
            }
        }
    });
    let mut input = request.clone();
    let listening = async { while input.changed().await.is_ok() {} };
    tokio::select! {
        ended = taking_part => ended.context("no longer taking part"),
        () = listening => Ok(()),
    }
}

/// Resigns on each request.
async fn resign_on_request(
    handle: ParticipantHandle,
    mut request: tokio::sync::watch::Receiver<usize>,
) -> ParticipantEnd {
    while request.changed().await.is_ok() {
        match handle.resign().await {
            Ok(()) => say(&format!("    {} has handed over", std::process::id())),
            Err(error) => say(&format!("    {error}")),
        }
    }
    handle.ended().await
}

/// What is done while this process leads. It is dropped when it no longer does.
async fn lead(name: &str, lease: LeaderLease) -> ControlFlow<()> {
    let token = lease.fencing_token();
    say(&format!("{name} leads with token {token}"));
    let _last = Last(format!("{name} stops, token {token}"));
    let mut ticks = tokio::time::interval(Duration::from_millis(20));
    loop {
        tokio::select! {
            biased;
            () = lease.asked_to_resign() => return ControlFlow::Continue(()),
            _ = ticks.tick() => {}
        }
        // What must not be done by two at a time asks right before.
        if lease.is_valid() {
            say(&format!("{name} works, token {token}"));
        }
    }
}

/// Says its words when the task ends, in whichever way.
struct Last(String);

impl Drop for Last {
    fn drop(&mut self) {
        say(&self.0);
    }
}

/// The parent of the processes.
async fn run_demo() -> anyhow::Result<()> {
    let ensemble = Ensemble::builder().servers(3).start().await?;
    say("three servers serve");
    let connect = ensemble.connect_string();
    let operator = Session::builder(&connect).connect().await?;
    let watched = Selector::new(&operator, PATH)?;
    let (sender, mut lines) = mpsc::unbounded_channel::<String>();
    let mut processes = Vec::new();
    for name in ["anna", "ben", "cleo"] {
        processes.push(Process::start(name, &connect, sender.clone())?);
    }
    drop(sender);
    let (leaders, mut leads) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(line) = lines.recv().await {
            // The work itself is not worth a line here.
            if !line.contains(" works, ") {
                say(&line);
            }
            if let Some((name, _)) = line.split_once(" leads ") {
                drop(leaders.send(name.to_owned()));
            }
        }
    });

    let mut token = None;
    for act in ["killed", "deposed", "asked to hand over", "last"] {
        let leader = watched.leader_after(token).await?;
        token = Some(leader.fencing_token());
        // It is the first in the queue, and about to be notified.
        while leads.recv().await.context("there is no leader")? != leader.id() {}
        let place = processes.iter().position(|one| one.name == leader.id());
        let place = place.context("another participant leads")?;
        say(&format!(
            "    {} ({}) is {act}",
            leader.id(),
            String::from_utf8_lossy(leader.metadata())
        ));
        match act {
            "killed" => processes.swap_remove(place).child.kill().await?,
            "deposed" => {
                operator
                    .delete(format!("{PATH}/{}", leader.node_name()))
                    .await?;
            }
            "asked to hand over" => processes[place].ask().await?,
            _ => {}
        }
    }
    ensemble.down().await?;
    Ok(())
}

struct Process {
    name: &'static str,
    child: Child,
    input: ChildStdin,
}

impl Process {
    fn start(
        name: &'static str,
        connect: &str,
        sender: mpsc::UnboundedSender<String>,
    ) -> anyhow::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args([name, connect])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("another process cannot be started")?;
        let input = child.stdin.take().context("the input was piped")?;
        let output = child.stdout.take().context("the output was piped")?;
        tokio::spawn(listen(BufReader::new(output).lines(), sender));
        Ok(Self { name, child, input })
    }

    async fn ask(&mut self) -> anyhow::Result<()> {
        tokio::io::AsyncWriteExt::write_all(&mut self.input, b"resign\n").await?;
        Ok(())
    }
}

/// Passes on what a process says, until it ends.
async fn listen(
    mut lines: Lines<BufReader<tokio::process::ChildStdout>>,
    sender: mpsc::UnboundedSender<String>,
) {
    while let Ok(Some(line)) = lines.next_line().await {
        // The receiver is dropped when the parent ends.
        drop(sender.send(line));
    }
}

fn say(line: &str) {
    // Who runs this may have closed the output, which is no reason to stop.
    drop(writeln!(std::io::stdout(), "{line}"));
}
