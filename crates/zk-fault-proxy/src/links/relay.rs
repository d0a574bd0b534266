//! Relays one connection between two servers under the conditions of its link.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::time::Instant;

use super::election::{FirstMessage, redirect};
use super::link_table::{LinkTable, Pair};
use crate::shared::{Shared, pause_until};
use crate::sockets::{Close, QueueReceiver, QueueSender, close_stream, drain, queue};

/// A relay in front of one port of a server, for one other server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Relay {
    /// The connecting server and the target server.
    pub(super) pair: Pair,
    pub(super) target: SocketAddr,
    /// The address that replaces the one to which the target connects back; for election ports only.
    pub(super) callback: Option<SocketAddr>,
}

/// How one direction of a connection has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Eof,
    /// One of the two ends is broken.
    Broken,
}

#[derive(Debug)]
enum Item {
    /// With the time at which they arrive.
    Bytes(Vec<u8>, Duration),
    End(End),
}

/// Serves a connection until it has ended.
pub(super) async fn serve(links: Arc<Shared<LinkTable>>, relay: Relay, stream: TcpStream) {
    links.change(|table, _| table.opened(relay.pair));
    let (stream, target, close) = relay.serve_connection(&links, stream).await;
    let stream = close_stream(stream, close);
    let target = target.and_then(|target| close_stream(target, close));
    links.change(|table, _| table.closed(relay.pair));
    tokio::join!(drain(stream), drain(target));
}

impl Relay {
    async fn serve_connection(
        self,
        links: &Shared<LinkTable>,
        mut stream: TcpStream,
    ) -> (TcpStream, Option<TcpStream>, Close) {
        drop(stream.set_nodelay(true));
        let (cuts, _) = links.lock().cuts(self.pair);
        let cut = links.until(|table| {
            let (now, close) = table.cuts(self.pair);
            (now > cuts).then_some(close)
        });
        let mut target = None;
        let close = tokio::select! {
            biased;
            close = cut => close,
            close = self.relay(links, &mut stream, &mut target) => close,
        };
        (stream, target, close)
    }

    /// Relays bytes until the connection has ended, and returns how to close it.
    async fn relay(
        self,
        links: &Shared<LinkTable>,
        stream: &mut TcpStream,
        target: &mut Option<TcpStream>,
    ) -> Close {
        let Some(first) = self.first_bytes(links, stream).await else {
            return Close::Fin;
        };
        let Some(connected) = self.connect().await else {
            // Like a refused connection.
            return Close::Rst;
        };
        drop(connected.set_nodelay(true));
        let target = target.insert(connected);
        let (from, back) = stream.split();
        let (answers, to) = target.split();
        let (one, other) = self.pair;
        let mut forth = std::pin::pin!(pump(links, (one, other), first, from, to));
        let mut back = std::pin::pin!(pump(links, (other, one), Vec::new(), answers, back));
        let (mut forth_ended, mut back_ended) = (false, false);
        while !(forth_ended && back_ended) {
            let end = tokio::select! {
                end = &mut forth, if !forth_ended => { forth_ended = true; end }
                end = &mut back, if !back_ended => { back_ended = true; end }
            };
            if end == End::Broken {
                return Close::Rst;
            }
        }
        Close::Fin
    }

    /// Connects to the target, with retries while its port is closed.
    ///
    /// A follower retries when its new leader refuses the connection, but starts another election when a connection is
    /// accepted and then closed.
    async fn connect(self) -> Option<TcpStream> {
        let deadline = Instant::now() + CONNECT_WITHIN;
        loop {
            if let Ok(stream) = TcpStream::connect(self.target).await {
                return Some(stream);
            }
            let next = Instant::now() + CONNECT_EVERY;
            if next > deadline {
                return None;
            }
            pause_until(next).await;
        }
    }

    /// Waits until neither direction is blocked, and returns what the connecting server has sent until then.
    ///
    /// `None` if it closes meanwhile: a real connection would never have been established.
    async fn first_bytes(
        self,
        links: &Shared<LinkTable>,
        stream: &mut TcpStream,
    ) -> Option<Vec<u8>> {
        let (one, other) = self.pair;
        let both = [(one, other), (other, one)];
        let mut received = Vec::new();
        let mut passable = false;
        let mut is_checked = self.callback.is_none();
        loop {
            if let (false, Some(address)) = (is_checked, self.callback) {
                match redirect(&received, address) {
                    FirstMessage::Incomplete => {}
                    FirstMessage::Unknown => is_checked = true,
                    FirstMessage::Replace(len, message) => {
                        received.splice(..len, message);
                        is_checked = true;
                    }
                }
            }
            if passable && is_checked {
                return Some(received);
            }
            tokio::select! {
                biased;
                () = until_passable(links, &both), if !passable => passable = true,
                read = stream.read_buf(&mut received), if received.len() < MOST_READ_AHEAD => {
                    if !matches!(read, Ok(1..)) {
                        return None;
                    }
                }
            }
        }
    }
}

/// Relays one direction, with concurrent reads and writes, so that the delay of each byte counts from its arrival.
async fn pump(
    links: &Shared<LinkTable>,
    pair: Pair,
    first: Vec<u8>,
    from: ReadHalf<'_>,
    to: WriteHalf<'_>,
) -> End {
    let (queue, queued) = queue(MOST_QUEUED, MOST_BYTES_QUEUED);
    tokio::select! {
        biased;
        end = write(links, pair, queued, to) => end,
        never = read(links, pair, first, from, queue) => match never {},
    }
}

async fn read(
    links: &Shared<LinkTable>,
    pair: Pair,
    first: Vec<u8>,
    mut from: ReadHalf<'_>,
    queue: QueueSender<Item>,
) -> std::convert::Infallible {
    let mut last = Duration::ZERO;
    let mut bytes = first;
    loop {
        if !bytes.is_empty() {
            let (now, draw) = (links.now(), fastrand::u32(..));
            last = links.lock().due(pair, now, last, bytes.len(), draw);
            let len = bytes.len();
            queue.send(Item::Bytes(bytes, last), len).await;
        }
        bytes = Vec::with_capacity(READ_AT_ONCE);
        let end = match from.read_buf(&mut bytes).await {
            Ok(1..) => continue,
            Ok(0) => End::Eof,
            Err(_) => End::Broken,
        };
        queue.send(Item::End(end), 0).await;
        return std::future::pending().await;
    }
}

async fn write(
    links: &Shared<LinkTable>,
    pair: Pair,
    mut queued: QueueReceiver<Item>,
    mut to: WriteHalf<'_>,
) -> End {
    while let Some((item, _permit)) = queued.recv().await {
        match item {
            Item::Bytes(bytes, due) => {
                links.pause_until(due).await;
                until_passable(links, &[pair]).await;
                if to.write_all(&bytes).await.is_err() {
                    return End::Broken;
                }
            }
            Item::End(end) => {
                // A blocked link hides the end of the stream, too.
                until_passable(links, &[pair]).await;
                drop(to.shutdown().await);
                return end;
            }
        }
    }
    End::Eof
}

/// Waits until none of these links is blocked.
async fn until_passable(links: &Shared<LinkTable>, pairs: &[Pair]) {
    links
        .until(|table| table.is_passable(pairs).then_some(()))
        .await;
}

const CONNECT_WITHIN: Duration = Duration::from_secs(1);
const CONNECT_EVERY: Duration = Duration::from_millis(20);
const READ_AT_ONCE: usize = 16 << 10;
/// The first message of a connection is some tens of bytes.
const MOST_READ_AHEAD: usize = 64 << 10;
const MOST_QUEUED: usize = 4096;
const MOST_BYTES_QUEUED: usize = 16 << 20;
