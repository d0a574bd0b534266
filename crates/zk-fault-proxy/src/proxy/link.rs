//! One connection: bytes from a client to a server and back, as the core decides.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustix::net::Shutdown;
use rustix::net::shutdown;
use rustix::net::sockopt::set_socket_linger;
use tokio::io::AsyncReadExt;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::net::tcp::ReadHalf;
use tokio::net::tcp::WriteHalf;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::Semaphore;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::core::Act;
use super::core::Cut;
use super::core::LinkId;
use super::core::Order;
use super::frame_decoder::MAX_KEPT;
use super::frame_decoder::Piece;
use super::frame_decoder::Splitter;
use super::matching::Direction;
use super::rules::Close;
use super::shared::Shared;

/// A connection while it is being served.
#[derive(Debug)]
struct Link<'a> {
    shared: &'a Shared,
    id: LinkId,
}

/// How a conversation, or one direction of it, has ended.
#[derive(Clone, Copy, Debug)]
enum End {
    /// Its source has closed.
    Eof,
    /// Its source was reset.
    Reset,
    /// Its target takes no more.
    TargetGone,
    Cut(Cut),
}

/// What goes through a queue between the reader and the writer of one direction.
#[derive(Debug)]
enum Item {
    Order(Order, OwnedSemaphorePermit),
    End(End),
}

/// Serves a client until either side is gone.
pub(super) async fn serve(shared: Arc<Shared>, client: TcpStream, asked: u32) {
    let id = shared.note(|core, at| core.accepted(at, asked));
    let link = Link {
        shared: &shared,
        id,
    };
    let parting = link.converse(client, asked).await;
    shared.note(|core, at| core.ended(at, id));
    let [client, server] = parting;
    tokio::join!(linger(client), linger(server));
}

impl Link<'_> {
    /// Returns what is closed on our side and not yet on the other.
    async fn converse(&self, mut client: TcpStream, asked: u32) -> [Option<TcpStream>; 2] {
        // A proxy must not add a wait of its own for more bytes.
        drop(client.set_nodelay(true));
        let mut up = Splitter::of_client();
        let opened = tokio::select! {
            biased;
            close = self.shared.cut_wanted(self.id) => Err(close),
            first = first_piece(&mut client, &mut up) => Ok(first),
        };
        let first = match opened {
            Ok(Some(first)) => first,
            Ok(None) => return [None, None],
            Err(close) => return [self.cut_off(client, by_request(close)), None],
        };
        let Some((server, mut stream)) = self.dial(asked, &first).await else {
            self.shared.note(|core, at| core.refused(at, self.id));
            // As a refused connection looks.
            return [hang_up(client, Close::Rst), None];
        };
        self.shared.look().dialed(self.id, server);
        let first = self
            .shared
            .note(|core, at| core.arrived(at, self.id, Direction::Request, first));

        let mut down = Splitter::of_server();
        let end = self
            .exchange(&mut client, &mut stream, first, &mut up, &mut down)
            .await;
        let client = match end {
            End::Cut(cut) => {
                let client = self.cut_off(client, cut);
                if let Some(xid) = cut.answer_to {
                    self.overhear(&mut stream, &mut down, xid).await;
                }
                client
            }
            End::Reset => hang_up(client, Close::Rst),
            End::Eof | End::TargetGone => hang_up(client, Close::Fin),
        };
        [client, hang_up(stream, Close::Fin)]
    }

    async fn dial(&self, asked: u32, first: &Piece) -> Option<(u32, TcpStream)> {
        let (server, address) = self.shared.look().lead(asked, first)?;
        let dialed = timeout(DIAL_WITHIN, TcpStream::connect(address)).await;
        match dialed {
            Ok(Ok(stream)) => {
                drop(stream.set_nodelay(true));
                Some((server, stream))
            }
            Ok(Err(error)) => {
                tracing::debug!(server, %address, %error, "the server was not reached");
                None
            }
            Err(_) => None,
        }
    }

    /// Passes bytes in both directions until the conversation has ended.
    async fn exchange(
        &self,
        client: &mut TcpStream,
        server: &mut TcpStream,
        first: Order,
        up: &mut Splitter,
        down: &mut Splitter,
    ) -> End {
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        let mut up =
            std::pin::pin!(self.pump(Direction::Request, Some(first), from_client, to_server, up));
        let mut down =
            std::pin::pin!(self.pump(Direction::Reply, None, from_server, to_client, down));
        let mut cut = std::pin::pin!(self.shared.cut_wanted(self.id));
        let (mut up_ended, mut down_ended) = (None, None);
        loop {
            tokio::select! {
                biased;
                close = &mut cut => return End::Cut(by_request(close)),
                end = &mut up, if up_ended.is_none() => match end {
                    End::Cut(_) => return end,
                    // The client is gone. What it has sent has been passed on, and the server says the rest.
                    _ => up_ended = Some(end),
                },
                end = &mut down, if down_ended.is_none() => match end {
                    // The client takes no more, but what it has sent may still be on its way.
                    End::TargetGone => down_ended = Some(end),
                    _ => return end,
                },
            }
            if let (Some(_), Some(end)) = (up_ended, down_ended) {
                return end;
            }
        }
    }

    /// Passes the bytes of one direction.
    ///
    /// Reading and writing go on side by side, so that a frame's delay counts from its arrival and not from when the
    /// frame before it has left.
    async fn pump(
        &self,
        direction: Direction,
        first: Option<Order>,
        from: ReadHalf<'_>,
        to: WriteHalf<'_>,
        splitter: &mut Splitter,
    ) -> End {
        let (queue, queued) = mpsc::channel(MOST_QUEUED);
        tokio::select! {
            biased;
            end = self.write(direction, queued, to) => end,
            never = self.read(direction, first, from, splitter, queue) => match never {},
        }
    }

    async fn read(
        &self,
        direction: Direction,
        first: Option<Order>,
        mut from: ReadHalf<'_>,
        splitter: &mut Splitter,
        queue: mpsc::Sender<Item>,
    ) -> std::convert::Infallible {
        let room = Arc::new(Semaphore::new(MOST_BYTES_QUEUED));
        let enqueue = async |order: Order| {
            let wanted = order.bytes.len().clamp(1, MOST_BYTES_QUEUED);
            let wanted = u32::try_from(wanted).expect("the bound is below 4 GiB");
            // It is never closed.
            if let Ok(permit) = Arc::clone(&room).acquire_many_owned(wanted).await {
                drop(queue.send(Item::Order(order, permit)).await);
            }
        };
        if let Some(first) = first {
            enqueue(first).await;
        }
        loop {
            if self.shared.look().is_raw(self.id, direction) {
                splitter.go_raw();
            }
            while let Some(piece) = splitter.take() {
                enqueue(self.arrived(direction, piece)).await;
            }
            let end = match from.read_buf(splitter.buffer()).await {
                Ok(0) => End::Eof,
                Ok(_) => continue,
                Err(_) => End::Reset,
            };
            if let Some(piece) = splitter.rest() {
                enqueue(self.arrived(direction, piece)).await;
            }
            // In a black hole not even the end of the stream is seen on the other side.
            if !self.shared.look().is_dark(self.id) {
                drop(queue.send(Item::End(end)).await);
            }
            return std::future::pending().await;
        }
    }

    fn arrived(&self, direction: Direction, piece: Piece) -> Order {
        self.shared
            .note(|core, at| core.arrived(at, self.id, direction, piece))
    }

    async fn write(
        &self,
        direction: Direction,
        mut queued: mpsc::Receiver<Item>,
        mut to: WriteHalf<'_>,
    ) -> End {
        while let Some(item) = queued.recv().await {
            let order = match item {
                Item::Order(order, _room) => order,
                Item::End(end) => {
                    // That a server has reset its connection is passed on as a reset.
                    if direction == Direction::Request || !matches!(end, End::Reset) {
                        drop(to.shutdown().await);
                    }
                    return end;
                }
            };
            if order.due > self.shared.now() {
                pause_until(self.shared.instant(order.due)).await;
            }
            if let Some(ticket) = order.ticket {
                self.shared.released(ticket).await;
            }
            match order.act {
                Act::Swallow => continue,
                Act::Cut(cut) => {
                    return End::Cut(Cut {
                        answer_to: None,
                        ..cut
                    });
                }
                Act::Pass | Act::PassThenCut(_) => {}
            }
            if self.pass(&order, &to).await.is_err() {
                return End::TargetGone;
            }
            if let Act::PassThenCut(cut) = order.act {
                return End::Cut(cut);
            }
        }
        End::Eof
    }

    /// Closes the client's side and notes it, in one: whoever sees the one finds the other.
    fn cut_off(&self, client: TcpStream, cut: Cut) -> Option<TcpStream> {
        self.shared.note(|core, at| {
            core.cut(at, self.id, cut);
            hang_up(client, cut.close)
        })
    }

    /// Writes all of it, and notes it with the last of its bytes: whoever has received it finds it in the journal.
    async fn pass(&self, order: &Order, to: &WriteHalf<'_>) -> io::Result<()> {
        let mut rest = &order.bytes[..];
        loop {
            let wrote: io::Result<usize> = self.shared.note(|core, at| {
                let wrote = to.try_write(rest)?;
                if wrote == rest.len() {
                    core.passed(at, self.id, order.mark.clone());
                }
                Ok(wrote)
            });
            match wrote {
                Ok(wrote) if wrote == rest.len() => return Ok(()),
                Ok(wrote) => rest = &rest[wrote..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => to.writable().await?,
                Err(error) => return Err(error),
            }
        }
    }

    /// Listens to a server whose client has been cut off, until it has answered a request or closes.
    async fn overhear(&self, server: &mut TcpStream, down: &mut Splitter, xid: i32) {
        loop {
            while let Some(piece) = down.take() {
                let answered = self
                    .shared
                    .note(|core, at| core.overheard(at, self.id, &piece));
                if answered == Some(xid) {
                    return;
                }
            }
            match server.read_buf(down.buffer()).await {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
        }
    }
}

/// The first that a client sends, which decides where the connection leads.
async fn first_piece(client: &mut TcpStream, up: &mut Splitter) -> Option<Piece> {
    loop {
        if let Some(piece) = up.take() {
            return Some(piece);
        }
        match client.read_buf(up.buffer()).await {
            Ok(0) | Err(_) => return up.rest(),
            Ok(_) => {}
        }
    }
}

fn by_request(close: Close) -> Cut {
    Cut {
        rule: None,
        close,
        answer_to: None,
    }
}

/// Closes a connection, so that its peer is told at once. Of an orderly close the other half is left to be drained.
pub(crate) fn hang_up(stream: TcpStream, close: Close) -> Option<TcpStream> {
    match close {
        Close::Fin => {
            // It fails if the peer was faster.
            let _ = shutdown(&stream, Shutdown::Write);
            Some(stream)
        }
        Close::Rst => {
            // What is not sent yet is thrown away, and the kernel sends a reset.
            if let Err(error) = set_socket_linger(&stream, Some(Duration::ZERO)) {
                tracing::debug!(%error, "a connection cannot be reset; it is closed");
            }
            drop(stream);
            None
        }
    }
}

/// Reads and forgets what the peer still sends, until it closes: closing a socket with bytes unread would reset the
/// connection, and the peer might lose what it has not read yet.
pub(crate) async fn linger(stream: Option<TcpStream>) {
    let Some(mut stream) = stream else { return };
    let drained = async {
        let mut sink = vec![0; 4096];
        while let Ok(1..) = stream.read(&mut sink).await {}
    };
    drop(timeout(LINGER, drained).await);
}

/// Waits until a frame is due.
pub(crate) async fn pause_until(due: tokio::time::Instant) {
    #[expect(
        clippy::disallowed_methods,
        reason = "the delay is what somebody has asked for"
    )]
    tokio::time::sleep(due.saturating_duration_since(tokio::time::Instant::now())).await;
}

const DIAL_WITHIN: Duration = Duration::from_secs(5);
/// How long a peer has to close after it was told that the connection is over.
const LINGER: Duration = Duration::from_secs(2);
const MOST_QUEUED: usize = 1024;
const MOST_BYTES_QUEUED: usize = 2 * MAX_KEPT;
