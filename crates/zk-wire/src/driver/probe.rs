//! Asks a server a question in a four-letter word, on a connection of its own.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::net::SocketAddr;

use bytes::BytesMut;
use tokio::time::Instant;

use super::Connector;
use super::stream::Stream;
use crate::session::{Host, Probe};

/// Returns the answer of a server; `None` if there is none in time.
pub(super) async fn ask(probe: &Probe, connector: &Connector) -> Option<String> {
    let deadline = Instant::now() + Probe::TIMEOUT;
    let answer = async {
        let stream = connector.connect(probe.host(), deadline).await?;
        exchange(stream, probe.word()).await
    };
    tokio::time::timeout_at(deadline, answer).await.ok()?.ok()
}

/// Returns the reply of one address of a host to `srvr`; `None` if there is none in time.
pub(crate) async fn ask_address(
    connector: &Connector,
    address: SocketAddr,
    host: &Host,
) -> Option<String> {
    let reply = async {
        let stream = connector.connect_to(address, host).await?;
        exchange(stream, "srvr").await
    };
    tokio::time::timeout(Probe::TIMEOUT, reply).await.ok()?.ok()
}

async fn exchange(mut stream: Stream, word: &str) -> io::Result<String> {
    let mut unsent = word.as_bytes();
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
