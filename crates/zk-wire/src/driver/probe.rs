//! Asks a server a question in a four-letter word, on a connection of its own.

use std::future::poll_fn;
use std::io::{self, IoSlice};

use super::Connector;
use super::stream::Stream;
use crate::session::{Probe, Server};
use bytes::BytesMut;

/// Returns whether a server says that it is writable, in its words; `None` if there is none in time.
pub(super) async fn ask(probe: &Probe, connector: &Connector) -> Option<String> {
    answer(connector, probe.server(), Probe::WORD).await
}

/// Returns the reply of a server to `srvr`; `None` if there is none in time.
pub(crate) async fn ask_server(connector: &Connector, server: &Server) -> Option<String> {
    answer(connector, server, "srvr").await
}

async fn answer(connector: &Connector, server: &Server, word: &str) -> Option<String> {
    let answer = async {
        let stream = connector.connect(server).await?;
        exchange(stream, word).await
    };
    tokio::time::timeout(Probe::TIMEOUT, answer)
        .await
        .ok()?
        .ok()
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
