//! Asks a server a question in a four-letter word, on a connection of its own.

use std::io;

use tokio::io::AsyncReadExt as _;
use tokio::io::AsyncWriteExt as _;
use tokio::time::Instant;

use super::dial;
use crate::session::Probe;

/// Returns the answer of a server; `None` if there is none in time.
pub(super) async fn ask(probe: &Probe) -> Option<String> {
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
