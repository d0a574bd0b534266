//! Asks a server a question in a four-letter word, on a connection of its own.

use std::future::poll_fn;
use std::io;
use std::io::IoSlice;

use bytes::BytesMut;
use tokio::time::Instant;

use super::Connector;
use crate::session::Probe;

/// Returns the answer of a server; `None` if there is none in time.
pub(super) async fn ask(probe: &Probe, connector: &Connector) -> Option<String> {
    let deadline = Instant::now() + Probe::TIMEOUT;
    let answer = tokio::time::timeout_at(deadline, exchange(probe, connector, deadline)).await;
    answer.ok()?.ok()
}

async fn exchange(probe: &Probe, connector: &Connector, deadline: Instant) -> io::Result<String> {
    let mut stream = connector.connect(probe.host(), deadline).await?;
    let mut unsent = probe.word().as_bytes();
    while !unsent.is_empty() {
        stream.writable().await?;
        unsent = match stream.try_write(&[IoSlice::new(unsent)]) {
            Ok(written) => &unsent[written..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => unsent,
            Err(error) => return Err(error),
        };
    }
    let mut answer = BytesMut::new();
    loop {
        if stream
            .try_flush()
            .is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
        {
            stream.writable().await?;
            continue;
        }
        let read = poll_fn(|cx| stream.poll_read(cx, &mut answer)).await?;
        if read == 0 || answer.len() > LONGEST_ANSWER {
            break;
        }
    }
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// The answers of servers are much shorter.
const LONGEST_ANSWER: usize = 64 << 10;
