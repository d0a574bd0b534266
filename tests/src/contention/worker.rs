//! Drives a process that contends for our lock, step by step or on its own.

use std::collections::VecDeque;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail};
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::Command;
use tokio::time::Instant;

use super::journal::{Event, Record, Turn};
use crate::peers::Dialogue;

/// A `lock-worker`; its commands are described there.
///
/// # Dropping
///
/// The process is killed. Its node is deleted when its session expires; [`quit`](Self::quit) closes the session
/// immediately. If this process is killed, the worker ends.
#[derive(Debug)]
pub struct Worker {
    name: String,
    dialogue: Dialogue,
    journal: Vec<Record>,
    /// Records that no call has returned yet.
    unasked: VecDeque<Record>,
    session: i64,
}

impl Worker {
    /// Starts a process that contends on `path` and records to `history`, and waits until it has a session.
    ///
    /// # Errors
    ///
    /// It cannot be started, or has no session after a minute.
    ///
    /// # Cancel safety
    ///
    /// Safe: the process is killed.
    pub async fn start(
        program: &Path,
        name: &str,
        connect: &str,
        path: &str,
        session_timeout: Duration,
        history: &Path,
    ) -> anyhow::Result<Self> {
        let mut command = Command::new(program);
        command
            .args([name, connect, path])
            .arg(session_timeout.as_millis().to_string())
            .arg(history);
        let mut worker = Self {
            name: name.to_owned(),
            dialogue: Dialogue::start(&mut command)?,
            journal: Vec::new(),
            unasked: VecDeque::new(),
            session: 0,
        };
        worker.session = worker
            .next("a session", MAX_WAIT, |event| match event {
                Event::Ready { session } => Some(*session),
                _ => None,
            })
            .await?;
        Ok(worker)
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the id of its first session.
    pub fn session_id(&self) -> i64 {
        self.session
    }

    /// Returns all records read so far.
    pub fn journal(&self) -> &[Record] {
        &self.journal
    }

    /// Sends a command.
    ///
    /// # Errors
    ///
    /// It has ended.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe: a part of the command may have been sent.
    pub async fn tell(&mut self, command: &str) -> anyhow::Result<()> {
        self.dialogue.tell(command).await
    }

    /// Waits at most `within` for a matching record that no call has returned yet.
    ///
    /// # Errors
    ///
    /// No matching record arrives in time, a command failed, or the process has ended.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: unreturned records are kept.
    pub async fn next<T>(
        &mut self,
        what: &str,
        within: Duration,
        pick: impl Fn(&Event) -> Option<T>,
    ) -> anyhow::Result<T> {
        self.next_at(what, within, pick)
            .await
            .map(|(_, picked)| picked)
    }

    /// Does the same, and also returns the time of the record, in nanoseconds of the host's clock.
    ///
    /// # Errors
    ///
    /// Those of [`next`](Self::next).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: unreturned records are kept.
    pub async fn next_at<T>(
        &mut self,
        what: &str,
        within: Duration,
        pick: impl Fn(&Event) -> Option<T>,
    ) -> anyhow::Result<(u64, T)> {
        let known = self
            .unasked
            .iter()
            .position(|record| pick(&record.event).is_some());
        if let Some(record) = known.and_then(|at| self.unasked.remove(at)) {
            let picked = pick(&record.event).context("the record was found by this function")?;
            return Ok((record.at, picked));
        }
        let deadline = Instant::now() + within;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let record = self.read(what, left).await?;
            if let Some(picked) = pick(&record.event) {
                return Ok((record.at, picked));
            }
            if let Event::Failed { message } = &record.event {
                bail!("{}, waiting for {what}: {message}", self.name);
            }
            self.unasked.push_back(record);
        }
    }

    /// Acquires the lock, and returns its token and the name of its node.
    ///
    /// # Errors
    ///
    /// The acquire failed, or did not succeed `within` that time.
    ///
    /// # Cancel safety
    ///
    /// The process continues to acquire.
    pub async fn acquire(&mut self, within: Duration) -> anyhow::Result<(u64, String)> {
        self.tell(&format!("acquire {}", within.as_millis()))
            .await?;
        self.acquired(within + MAX_WAIT).await
    }

    /// Waits until it reports that it acquired the lock.
    ///
    /// # Errors
    ///
    /// It did not report that `within` the time.
    ///
    /// # Cancel safety
    ///
    /// Safe.
    pub async fn acquired(&mut self, within: Duration) -> anyhow::Result<(u64, String)> {
        let outcome = self.next("the lock", within, |event| match event {
            Event::Acquired { token, node, .. } => Some(Ok((*token, node.clone()))),
            Event::TimedOut { message } => Some(Err(message.clone())),
            _ => None,
        });
        outcome
            .await?
            .map_err(|message| anyhow::anyhow!("{}: {message}", self.name))
    }

    /// Returns whether the guard is valid.
    ///
    /// # Errors
    ///
    /// It has no guard, or does not reply.
    ///
    /// # Cancel safety
    ///
    /// Safe.
    pub async fn is_valid(&mut self) -> anyhow::Result<bool> {
        self.tell("check").await?;
        self.next("an answer", MAX_WAIT, |event| match event {
            Event::Checked { valid } => Some(*valid),
            _ => None,
        })
        .await
    }

    /// Sends a command to write under the lock, and returns the reply: an error is a refusal.
    ///
    /// # Errors
    ///
    /// It has no guard, or does not reply.
    ///
    /// # Cancel safety
    ///
    /// The process continues to write.
    pub async fn write(&mut self, command: &str) -> anyhow::Result<Result<String, String>> {
        self.tell(command).await?;
        self.next("a write", MAX_WAIT, |event| match event {
            Event::Wrote { message } => Some(Ok(message.clone())),
            Event::Refused { message } => Some(Err(message.clone())),
            _ => None,
        })
        .await
    }

    /// Releases the lock and returns the result.
    ///
    /// # Errors
    ///
    /// It has no guard, or does not reply.
    ///
    /// # Cancel safety
    ///
    /// The process continues to release.
    pub async fn release(&mut self) -> anyhow::Result<Turn> {
        self.tell("release").await?;
        self.next("the release", MAX_WAIT, |event| match event {
            Event::Released(turn) => Some(turn.clone()),
            _ => None,
        })
        .await
    }

    /// Waits until it has finished the command `contend`.
    ///
    /// # Errors
    ///
    /// It failed, or has not finished `within` that time.
    ///
    /// # Cancel safety
    ///
    /// Safe.
    pub async fn done(&mut self, within: Duration) -> anyhow::Result<()> {
        self.next("all turns", within, |event| {
            matches!(event, Event::Done).then_some(())
        })
        .await
    }

    /// Suspends the process with SIGSTOP, as a scheduler or a debugger may do.
    ///
    /// # Errors
    ///
    /// It has ended.
    pub fn pause(&self) -> anyhow::Result<()> {
        self.signal(Signal::STOP)
    }

    /// Continues a suspended process.
    ///
    /// # Errors
    ///
    /// It has ended.
    pub fn resume(&self) -> anyhow::Result<()> {
        self.signal(Signal::CONT)
    }

    /// Kills the process with SIGKILL, and returns all its records.
    ///
    /// # Errors
    ///
    /// It had ended before.
    ///
    /// # Cancel safety
    ///
    /// The process is killed.
    pub async fn kill(mut self) -> anyhow::Result<Vec<Record>> {
        self.signal(Signal::KILL)?;
        self.dialogue.ended().await?;
        Ok(self.journal)
    }

    /// Closes the session, waits until the process has ended, and returns all its records.
    ///
    /// # Errors
    ///
    /// The process failed, or has not ended after a minute.
    ///
    /// # Cancel safety
    ///
    /// The process is killed; its session may end later.
    pub async fn quit(mut self) -> anyhow::Result<Vec<Record>> {
        self.tell("quit").await?;
        self.next("the end", MAX_WAIT, |event| {
            matches!(event, Event::Bye).then_some(())
        })
        .await?;
        let status = self.dialogue.ended().await?;
        anyhow::ensure!(status.success(), "{} ended with {status}", self.name);
        Ok(self.journal)
    }

    fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let pid = self.dialogue.pid().map(u32::cast_signed);
        let pid = pid.and_then(Pid::from_raw);
        let pid = pid.with_context(|| format!("{} has ended", self.name))?;
        kill_process(pid, signal).with_context(|| format!("{} cannot be signalled", self.name))
    }

    async fn read(&mut self, what: &str, within: Duration) -> anyhow::Result<Record> {
        let line = self.dialogue.line(what, within).await.with_context(|| {
            let last = self.journal.last();
            format!("{} said last: {last:?}", self.name)
        })?;
        let record: Record =
            serde_json::from_str(&line).with_context(|| format!("{} said {line:?}", self.name))?;
        self.journal.push(record.clone());
        Ok(record)
    }
}

/// The time limit of everything except waits for the lock.
const MAX_WAIT: Duration = Duration::from_secs(60);
