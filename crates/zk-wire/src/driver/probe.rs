//! Asks servers questions in four-letter words, on connections of their own.

use std::io;
use std::sync::Arc;

use tokio::io::AsyncReadExt as _;
use tokio::io::AsyncWriteExt as _;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::dial;
use crate::session::Probe;
use crate::session::Session;
use crate::shared::Shared;

/// The questions that servers have not answered yet. They end with the task that owns this.
#[derive(Default)]
pub(super) struct Probes {
    tasks: JoinSet<()>,
}

impl Probes {
    /// Asks what the session wants to know. The session must not be locked.
    pub(super) fn start(&mut self, shared: &Arc<Shared>, wanted: Vec<Probe>) {
        while self.tasks.try_join_next().is_some() {}
        for probe in wanted {
            let shared = Arc::clone(shared);
            self.tasks.spawn(async move {
                let answer = ask(&probe).await;
                let now = shared.now();
                shared.lock().session.probed(&probe, answer.as_deref(), now);
                shared.submitted.notify_one();
            });
        }
    }
}

/// Returns what the session wants to know now.
pub(super) fn wanted(session: &mut Session) -> Vec<Probe> {
    std::iter::from_fn(|| session.poll_probe()).collect()
}

/// Returns the answer of a server; `None` if there is none in time.
async fn ask(probe: &Probe) -> Option<String> {
    let deadline = Instant::now() + Probe::TIMEOUT;
    let answer = tokio::time::timeout_at(deadline, exchange(probe, deadline)).await;
    answer.ok()?.ok()
}

async fn exchange(probe: &Probe, deadline: Instant) -> io::Result<String> {
    let mut stream = dial::connect(probe.host(), deadline).await?;
    stream.write_all(probe.word().as_bytes()).await?;
    let mut answer = Vec::new();
    stream.take(LONGEST_ANSWER).read_to_end(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// The answers of servers are much shorter.
const LONGEST_ANSWER: u64 = 64 << 10;
