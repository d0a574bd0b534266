//! Relays one connection between a client and a server, and carries out the decisions about each frame.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::time::timeout;

use super::core::{ConnectionId, Cut, Decision, Disposition};
use super::matching::Direction;
use super::shared::SharedCore;
use crate::sockets::{Close, QueueReceiver, QueueSender, close_stream, drain, queue};
use crate::wire::frame::{FrameDecoder, MAX_KEPT, Piece};

/// A connection that is being served.
#[derive(Debug)]
struct Relay<'a> {
    shared: &'a SharedCore,
    id: ConnectionId,
}

/// How a connection, or one direction of it, has ended.
#[derive(Clone, Copy, Debug)]
enum End {
    /// The source has closed.
    Eof,
    /// The source was reset.
    Reset,
    /// The target cannot be written to.
    TargetGone,
    Cut(Cut),
}

/// An entry of the queue between the reader and the writer of one direction.
#[derive(Debug)]
enum Item {
    Decision(Decision),
    End(End),
}

/// Serves a client until either side is gone.
pub(super) async fn serve(shared: Arc<SharedCore>, client: TcpStream, via: u32) {
    let id = shared.core.change(|core, at| core.accepted(at, via));
    let relay = Relay {
        shared: &shared,
        id,
    };
    let open = relay.run(client, via).await;
    shared.core.change(|core, at| core.ended(at, id));
    let [client, server] = open;
    tokio::join!(drain(client), drain(server));
}

impl Relay<'_> {
    /// Relays until the connection has ended, and returns the streams that the peer has not closed yet.
    async fn run(&self, mut client: TcpStream, via: u32) -> [Option<TcpStream>; 2] {
        // Nagle's algorithm would add a delay.
        drop(client.set_nodelay(true));
        let mut up = FrameDecoder::for_client();
        let opened = tokio::select! {
            biased;
            close = self.shared.cut_requested(self.id) => Err(close),
            first = first_piece(&mut client, &mut up) => Ok(first),
        };
        let first = match opened {
            Ok(Some(first)) => first,
            Ok(None) => return [None, None],
            Err(close) => return [self.cut_off(client, requested_cut(close)), None],
        };
        let Some((server, mut stream)) = self.connect(via, &first).await else {
            self.shared
                .core
                .change(|core, at| core.refused(at, self.id));
            // Like a refused connection.
            return [close_stream(client, Close::Rst), None];
        };
        self.shared.core.lock().dialed(self.id, server);
        let first = self
            .shared
            .core
            .change(|core, at| core.arrived(at, self.id, Direction::Request, first));

        let mut down = FrameDecoder::for_server();
        let end = self
            .relay_both(&mut client, &mut stream, first, &mut up, &mut down)
            .await;
        let client = match end {
            End::Cut(cut) => {
                let client = self.cut_off(client, cut);
                if let Some(xid) = cut.answer_to {
                    self.read_until_reply(&mut stream, &mut down, xid).await;
                }
                client
            }
            End::Reset => close_stream(client, Close::Rst),
            End::Eof | End::TargetGone => close_stream(client, Close::Fin),
        };
        [client, close_stream(stream, Close::Fin)]
    }

    async fn connect(&self, via: u32, first: &Piece) -> Option<(u32, TcpStream)> {
        let (server, address) = self.shared.core.lock().server_for(via, first)?;
        let connected = timeout(CONNECT_WITHIN, TcpStream::connect(address)).await;
        match connected {
            Ok(Ok(stream)) => {
                drop(stream.set_nodelay(true));
                Some((server, stream))
            }
            Ok(Err(error)) => {
                tracing::debug!(server, %address, %error, "cannot connect to the server");
                None
            }
            Err(_) => None,
        }
    }

    /// Relays both directions until the connection has ended.
    async fn relay_both(
        &self,
        client: &mut TcpStream,
        server: &mut TcpStream,
        first: Decision,
        up: &mut FrameDecoder,
        down: &mut FrameDecoder,
    ) -> End {
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        let mut up =
            std::pin::pin!(self.pump(Direction::Request, Some(first), from_client, to_server, up));
        let mut down =
            std::pin::pin!(self.pump(Direction::Reply, None, from_server, to_client, down));
        let mut cut = std::pin::pin!(self.shared.cut_requested(self.id));
        let (mut up_ended, mut down_ended) = (None, None);
        loop {
            tokio::select! {
                biased;
                close = &mut cut => return End::Cut(requested_cut(close)),
                end = &mut up, if up_ended.is_none() => match end {
                    End::Cut(_) => return end,
                    // The client has closed, and its bytes are forwarded. The server may still reply.
                    _ => up_ended = Some(end),
                },
                end = &mut down, if down_ended.is_none() => match end {
                    // The client cannot be written to, but its requests may still be queued.
                    End::TargetGone => down_ended = Some(end),
                    _ => return end,
                },
            }
            if let (Some(_), Some(end)) = (up_ended, down_ended) {
                return end;
            }
        }
    }

    /// Relays one direction.
    ///
    /// It reads and writes concurrently, so that a frame's delay counts from its arrival, not from the departure of the
    /// previous frame.
    async fn pump(
        &self,
        direction: Direction,
        first: Option<Decision>,
        from: ReadHalf<'_>,
        to: WriteHalf<'_>,
        decoder: &mut FrameDecoder,
    ) -> End {
        let (queue, queued) = queue(MOST_QUEUED, MOST_BYTES_QUEUED);
        tokio::select! {
            biased;
            end = self.write(direction, queued, to) => end,
            never = self.read(direction, first, from, decoder, queue) => match never {},
        }
    }

    async fn read(
        &self,
        direction: Direction,
        first: Option<Decision>,
        mut from: ReadHalf<'_>,
        decoder: &mut FrameDecoder,
        queue: QueueSender<Item>,
    ) -> std::convert::Infallible {
        let enqueue = async |decision: Decision| {
            let len = decision.bytes.len();
            queue.send(Item::Decision(decision), len).await;
        };
        if let Some(first) = first {
            enqueue(first).await;
        }
        loop {
            if self.shared.core.lock().is_raw(self.id, direction) {
                decoder.set_raw();
            }
            while let Some(piece) = decoder.next_piece() {
                enqueue(self.arrived(direction, piece)).await;
            }
            let end = match from.read_buf(decoder.buffer()).await {
                Ok(0) => End::Eof,
                Ok(_) => continue,
                Err(_) => End::Reset,
            };
            if let Some(piece) = decoder.remainder() {
                enqueue(self.arrived(direction, piece)).await;
            }
            // A black hole hides the end of the stream, too.
            if !self.shared.core.lock().is_black_holed(self.id) {
                queue.send(Item::End(end), 0).await;
            }
            return std::future::pending().await;
        }
    }

    fn arrived(&self, direction: Direction, piece: Piece) -> Decision {
        self.shared
            .core
            .change(|core, at| core.arrived(at, self.id, direction, piece))
    }

    async fn write(
        &self,
        direction: Direction,
        mut queued: QueueReceiver<Item>,
        mut to: WriteHalf<'_>,
    ) -> End {
        while let Some((item, _permit)) = queued.recv().await {
            let decision = match item {
                Item::Decision(decision) => decision,
                Item::End(end) => {
                    // A reset by the server becomes a reset of the client's side, without a FIN before it.
                    if direction == Direction::Request || !matches!(end, End::Reset) {
                        drop(to.shutdown().await);
                    }
                    return end;
                }
            };
            self.shared.core.pause_until(decision.due).await;
            if let Some(hold) = decision.hold {
                self.shared.released(hold).await;
            }
            match decision.disposition {
                Disposition::Discard => continue,
                Disposition::Cut(cut) => {
                    return End::Cut(Cut {
                        answer_to: None,
                        ..cut
                    });
                }
                Disposition::Pass | Disposition::PassThenCut(_) => {}
            }
            if self.write_logged(&decision, &to).await.is_err() {
                return End::TargetGone;
            }
            if let Disposition::PassThenCut(cut) = decision.disposition {
                return End::Cut(cut);
            }
        }
        End::Eof
    }

    /// Closes the client's side and logs that atomically, so that a client that sees the close finds it in the log.
    fn cut_off(&self, client: TcpStream, cut: Cut) -> Option<TcpStream> {
        self.shared.core.change(|core, at| {
            core.cut(at, self.id, cut);
            close_stream(client, cut.close)
        })
    }

    /// Writes the bytes and logs the last write atomically, so that a peer that has received them finds them in the log.
    async fn write_logged(&self, decision: &Decision, to: &WriteHalf<'_>) -> io::Result<()> {
        let mut rest = &decision.bytes[..];
        loop {
            let wrote: io::Result<usize> = self.shared.core.change(|core, at| {
                let wrote = to.try_write(rest)?;
                if wrote == rest.len()
                    && let Some(event) = &decision.on_written
                {
                    core.record(at, self.id, event.clone());
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

    /// Reads from the server after the client was cut off, until it replies to the request or closes.
    async fn read_until_reply(&self, server: &mut TcpStream, down: &mut FrameDecoder, xid: i32) {
        loop {
            while let Some(piece) = down.next_piece() {
                let answered = self
                    .shared
                    .core
                    .change(|core, at| core.arrived_after_cut(at, self.id, &piece));
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

/// Reads the first piece from a client, which decides the route.
async fn first_piece(client: &mut TcpStream, up: &mut FrameDecoder) -> Option<Piece> {
    loop {
        if let Some(piece) = up.next_piece() {
            return Some(piece);
        }
        match client.read_buf(up.buffer()).await {
            Ok(0) | Err(_) => return up.remainder(),
            Ok(_) => {}
        }
    }
}

fn requested_cut(close: Close) -> Cut {
    Cut {
        rule: None,
        close,
        answer_to: None,
    }
}

const CONNECT_WITHIN: Duration = Duration::from_secs(5);
const MOST_QUEUED: usize = 1024;
const MOST_BYTES_QUEUED: usize = 2 * MAX_KEPT;
