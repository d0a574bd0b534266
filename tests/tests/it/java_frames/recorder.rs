//! A relay between clients and a server that keeps every frame.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinSet;

/// A message of a client or of the server.
#[derive(Debug, Clone)]
pub(crate) struct Frame {
    /// The number of the connection, in the order of acceptance.
    pub(crate) connection: usize,
    /// Whether the client sent it.
    pub(crate) is_request: bool,
    /// Whether it is the first one in its direction.
    pub(crate) is_handshake: bool,
    /// What follows its length.
    pub(crate) payload: Vec<u8>,
}

impl Frame {
    /// The number of the request.
    pub(crate) fn xid(&self) -> i32 {
        let xid = self
            .payload
            .first_chunk()
            .expect("every frame has four bytes");
        i32::from_be_bytes(*xid)
    }

    pub(crate) fn is_ping(&self) -> bool {
        !self.is_handshake && self.xid() == PING
    }

    pub(crate) fn is_notification(&self) -> bool {
        !self.is_handshake && !self.is_request && self.xid() == NOTIFICATION
    }
}

/// Relays connections to a server, and keeps the frames of both directions in the order of their arrival.
pub(crate) struct Recorder {
    listener: TcpListener,
    server: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    frames: Mutex<Vec<Frame>>,
    changed: Notify,
    cut: Notify,
}

impl Recorder {
    pub(crate) async fn bind(server: SocketAddr) -> io::Result<Self> {
        Ok(Self {
            listener: TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?,
            server,
            shared: Arc::default(),
        })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.listener.local_addr().expect("it is bound")
    }

    /// Serves until it is dropped, or until no connection can be accepted.
    pub(crate) async fn serve(&self) -> io::Error {
        let mut connections = JoinSet::new();
        loop {
            let client = match self.listener.accept().await {
                Ok((client, _)) => client,
                Err(error) => return error,
            };
            let number = connections.len();
            connections.spawn(relay(client, self.server, number, Arc::clone(&self.shared)));
        }
    }

    /// Cuts all connections.
    pub(crate) fn cut(&self) {
        self.shared.cut.notify_waiters();
    }

    /// Waits for another frame, and may return without one.
    pub(crate) async fn changed(&self) {
        self.shared.changed.notified().await;
    }

    /// The frames that were not taken.
    pub(crate) fn frames(&self) -> Vec<Frame> {
        self.shared.frames.lock().expect("no thread panics").clone()
    }

    /// Takes all frames.
    pub(crate) fn take(&self) -> Vec<Frame> {
        std::mem::take(&mut *self.shared.frames.lock().expect("no thread panics"))
    }
}

/// Relays one connection until either side closes it, or until it is cut.
async fn relay(client: TcpStream, server: SocketAddr, connection: usize, shared: Arc<Shared>) {
    let Ok(server) = TcpStream::connect(server).await else {
        return;
    };
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let requests = pass(from_client, to_server, (connection, true), &shared);
    let replies = pass(from_server, to_client, (connection, false), &shared);
    tokio::select! {
        Err(_) = requests => {}
        Err(_) = replies => {}
        () = shared.cut.notified() => {}
    }
}

/// Passes frames on, and keeps each before it is passed on.
async fn pass(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    (connection, is_request): (usize, bool),
    shared: &Shared,
) -> io::Result<Infallible> {
    let mut is_handshake = true;
    loop {
        let len = from.read_u32().await?;
        let mut payload = vec![0; len as usize];
        from.read_exact(&mut payload).await?;
        let frame = Frame {
            connection,
            is_request,
            is_handshake,
            payload,
        };
        is_handshake = false;
        let bytes = [&len.to_be_bytes()[..], &frame.payload].concat();
        shared.frames.lock().expect("no thread panics").push(frame);
        shared.changed.notify_one();
        to.write_all(&bytes).await?;
    }
}

const NOTIFICATION: i32 = -1;
const PING: i32 = -2;
