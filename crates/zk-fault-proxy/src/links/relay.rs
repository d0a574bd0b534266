//! One connection between two servers: bytes there and back, as the link lets them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::net::tcp::ReadHalf;
use tokio::net::tcp::WriteHalf;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::Semaphore;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::election::Greeting;
use super::election::redirect;
use super::state::Pair;
use super::state::State;
use crate::proxy::Close;
use crate::proxy::link::hang_up;
use crate::proxy::link::linger;
use crate::proxy::link::pause_until;

/// A port in front of one port of a server, for one other server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Relay {
    /// Who connects, and to whom.
    pub(super) pair: Pair,
    pub(super) target: SocketAddr,
    /// Where the target is to call back instead of the address that it is told; of election ports only.
    pub(super) call_back: Option<SocketAddr>,
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
    Bytes(Vec<u8>, Duration, OwnedSemaphorePermit),
    End(End),
}

/// Serves a server that has connected, until either side is gone.
pub(super) async fn serve(state: Arc<State>, relay: Relay, stream: TcpStream) {
    state.opened(relay.pair);
    let (stream, target, close) = relay.converse(&state, stream).await;
    let stream = hang_up(stream, close);
    let target = target.and_then(|target| hang_up(target, close));
    state.closed(relay.pair);
    tokio::join!(linger(stream), linger(target));
}

impl Relay {
    async fn converse(
        self,
        state: &State,
        mut stream: TcpStream,
    ) -> (TcpStream, Option<TcpStream>, Close) {
        drop(stream.set_nodelay(true));
        let cuts = state.cuts(self.pair);
        let cut = state.cut_after(self.pair, cuts);
        let mut target = None;
        let close = tokio::select! {
            biased;
            close = cut => close,
            close = self.relay(state, &mut stream, &mut target) => close,
        };
        (stream, target, close)
    }

    /// Passes bytes until the connection is over, and says how to close it.
    async fn relay(
        self,
        state: &State,
        stream: &mut TcpStream,
        target: &mut Option<TcpStream>,
    ) -> Close {
        let Some(first) = self.first_bytes(state, stream).await else {
            return Close::Fin;
        };
        let Some(dialed) = self.dial().await else {
            // As a refused connection looks.
            return Close::Rst;
        };
        drop(dialed.set_nodelay(true));
        let target = target.insert(dialed);
        let (from, back) = stream.split();
        let (answers, to) = target.split();
        let (one, other) = self.pair;
        let mut forth = std::pin::pin!(pump(state, (one, other), first, from, to));
        let mut back = std::pin::pin!(pump(state, (other, one), Vec::new(), answers, back));
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

    /// Connects to the target. One that has not opened its port yet is tried for a while.
    ///
    /// A follower that is refused by its new leader tries again; one that was accepted and is hung up on would begin
    /// another election instead.
    async fn dial(self) -> Option<TcpStream> {
        let deadline = Instant::now() + DIAL_WITHIN;
        loop {
            if let Ok(stream) = TcpStream::connect(self.target).await {
                return Some(stream);
            }
            let next = Instant::now() + DIAL_EVERY;
            if next > deadline {
                return None;
            }
            pause_until(next).await;
        }
    }

    /// Waits until the link lets a connection through, and reads what the connecting server says until then.
    ///
    /// Nothing if it hangs up meanwhile: a real connection would never have come to be.
    async fn first_bytes(self, state: &State, stream: &mut TcpStream) -> Option<Vec<u8>> {
        let (one, other) = self.pair;
        let ways = [(one, other), (other, one)];
        let mut received = Vec::new();
        let mut passable = false;
        let mut greeted = self.call_back.is_none();
        loop {
            if let (false, Some(address)) = (greeted, self.call_back) {
                match redirect(&received, address) {
                    Greeting::Incomplete => {}
                    Greeting::Unknown => greeted = true,
                    Greeting::Replace(len, message) => {
                        received.splice(..len, message);
                        greeted = true;
                    }
                }
            }
            if passable && greeted {
                return Some(received);
            }
            tokio::select! {
                biased;
                () = state.passable(&ways), if !passable => passable = true,
                read = stream.read_buf(&mut received), if received.len() < MOST_READ_AHEAD => {
                    if !matches!(read, Ok(1..)) {
                        return None;
                    }
                }
            }
        }
    }
}

/// Passes the bytes of one direction: reads ahead, so that the delay of each byte counts from when it came.
async fn pump(
    state: &State,
    pair: Pair,
    first: Vec<u8>,
    from: ReadHalf<'_>,
    to: WriteHalf<'_>,
) -> End {
    let (queue, queued) = mpsc::channel(MOST_QUEUED);
    tokio::select! {
        biased;
        end = write(state, pair, queued, to) => end,
        never = read(state, pair, first, from, queue) => match never {},
    }
}

async fn read(
    state: &State,
    pair: Pair,
    first: Vec<u8>,
    mut from: ReadHalf<'_>,
    queue: mpsc::Sender<Item>,
) -> std::convert::Infallible {
    let room = Arc::new(Semaphore::new(MOST_BYTES_QUEUED));
    let mut last = Duration::ZERO;
    let mut bytes = first;
    loop {
        if !bytes.is_empty() {
            last = state.due(pair, last, bytes.len());
            let len = u32::try_from(bytes.len()).expect("as much as is read at once");
            // It is never closed.
            if let Ok(permit) = Arc::clone(&room).acquire_many_owned(len).await {
                drop(queue.send(Item::Bytes(bytes, last, permit)).await);
            }
        }
        bytes = Vec::with_capacity(READ_AT_ONCE);
        let end = match from.read_buf(&mut bytes).await {
            Ok(1..) => continue,
            Ok(0) => End::Eof,
            Err(_) => End::Broken,
        };
        drop(queue.send(Item::End(end)).await);
        return std::future::pending().await;
    }
}

async fn write(
    state: &State,
    pair: Pair,
    mut queued: mpsc::Receiver<Item>,
    mut to: WriteHalf<'_>,
) -> End {
    while let Some(item) = queued.recv().await {
        match item {
            Item::Bytes(bytes, due, _room) => {
                if due > state.now() {
                    pause_until(state.instant(due)).await;
                }
                state.passable(&[pair]).await;
                if to.write_all(&bytes).await.is_err() {
                    return End::Broken;
                }
            }
            Item::End(end) => {
                // On a broken line nobody hears that the other one has hung up.
                state.passable(&[pair]).await;
                drop(to.shutdown().await);
                return end;
            }
        }
    }
    End::Eof
}

const DIAL_WITHIN: Duration = Duration::from_secs(1);
const DIAL_EVERY: Duration = Duration::from_millis(20);
const READ_AT_ONCE: usize = 16 << 10;
/// The first message of a connection is some tens of bytes.
const MOST_READ_AHEAD: usize = 64 << 10;
const MOST_QUEUED: usize = 4096;
const MOST_BYTES_QUEUED: usize = 16 << 20;
