//! A client for two tasks: to check that a quorum accepts writes through a server, and to end a session.

use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::frame::{self, MAX_KEPT};
use super::jute::{DecodeError, Decoder};
use super::reply::{ReplyHeader, error_name};
use super::{handshake, request};

/// Opens a session on the server at `addr`, creates an ephemeral node, reads it back and closes the session.
///
/// `Ok` means that a quorum has accepted writes through this server, and that the node is gone: the server replies to
/// the last request after it has removed the node.
/// A server that requires SASL refuses the node, and only the session was written.
///
/// # Errors
///
/// A [`WireError`] with the failed step. The node is then removed with its session, which expires after four seconds or
/// the server's minimum, and likewise if the future is dropped.
pub async fn probe_writes(addr: SocketAddr, within: Duration) -> Result<(), WireError> {
    let path = format!("/zk-harness-canary-{:016x}", RandomState::new().hash_one(0));
    let mut waiting_for = "a connection";
    let outcome = timeout(within, write_and_read(addr, &path, &mut waiting_for)).await;
    outcome
        .unwrap_or(Err(Cause::TimedOut(within)))
        .map_err(|cause| WireError {
            what: "the readiness probe",
            addr,
            waiting_for,
            cause,
        })
}

/// Ends the session with this id and password; returns whether there was one.
///
/// `Ok(true)` means that the end is committed: the server replies after it has removed the session's nodes.
/// `Ok(false)` may also mean that the end of the session has begun otherwise.
///
/// # Errors
///
/// A [`WireError`] with the failed step. It is unknown then, and if the future is dropped, whether the session ended:
/// its client may have reconnected before the server read the request, or before it sent the reply.
pub async fn end_session(
    addr: SocketAddr,
    session: i64,
    password: &[u8; 16],
    within: Duration,
) -> Result<bool, WireError> {
    let mut waiting_for = "a connection";
    let outcome = timeout(within, close(addr, session, password, &mut waiting_for)).await;
    match outcome.unwrap_or(Err(Cause::TimedOut(within))) {
        Ok(()) => Ok(true),
        Err(Cause::NoSession) => Ok(false),
        Err(cause) => Err(WireError {
            what: "the end of a session",
            addr,
            waiting_for,
            cause,
        }),
    }
}

/// A failed exchange with a server, with the failed step.
#[derive(Debug, thiserror::Error)]
#[error("{what} through {addr} failed while waiting for {waiting_for}")]
pub struct WireError {
    what: &'static str,
    addr: SocketAddr,
    waiting_for: &'static str,
    #[source]
    cause: Cause,
}

impl WireError {
    /// Returns whether the connection broke, so that a retry may succeed.
    pub fn is_broken(&self) -> bool {
        matches!(self.cause, Cause::Closed | Cause::Io(_))
    }
}

#[derive(Debug, thiserror::Error)]
enum Cause {
    #[error("no answer within {0:?}")]
    TimedOut(Duration),
    #[error(
        "the server closed the connection: it serves no requests, or has reached maxClientCnxns"
    )]
    Closed,
    #[error(transparent)]
    Io(io::Error),
    #[error("the server granted no session")]
    NoSession,
    #[error("the server returned {} ({code})", error_name(*code))]
    Refused { code: i32 },
    #[error("the server replied to request {got} instead of request {wanted}")]
    OutOfOrder { got: i32, wanted: i32 },
    #[error("the node at {path} contains {} bytes that differ from those written", found.len())]
    OtherData { path: String, found: Vec<u8> },
    #[error("the peer sent no frame of a reply: it is not a ZooKeeper server")]
    NoFrame,
    #[error("cannot decode the reply")]
    Decode(#[from] DecodeError),
}

/// Carries out the steps of [`probe_writes`]; `waiting_for` names the current one.
async fn write_and_read(
    addr: SocketAddr,
    path: &str,
    waiting_for: &mut &'static str,
) -> Result<(), Cause> {
    let mut connection = Connection::open(addr).await?;

    *waiting_for = "a session";
    connection
        .send(&handshake::connect(SESSION_TIMEOUT))
        .await?;
    connection.session_granted().await?;

    *waiting_for = "the node to be written";
    let created = connection
        .request(1, &request::create_ephemeral(1, path, DATA))
        .await;
    match created {
        // The session itself was such a write.
        Err(Cause::Refused { code }) if code == NEEDS_SASL => return Ok(()),
        created => drop(created?),
    }

    *waiting_for = "the node to be read back";
    let reply = connection.request(2, &request::get_data(2, path)).await?;
    let found = Decoder::new(&reply).buffer("the node's data")?;
    if found != DATA {
        return Err(Cause::OtherData {
            path: path.to_owned(),
            found: found.to_vec(),
        });
    }

    *waiting_for = "the session to be closed";
    connection.request(3, &request::close_session(3)).await?;
    Ok(())
}

/// Carries out the steps of [`end_session`].
async fn close(
    addr: SocketAddr,
    session: i64,
    password: &[u8; 16],
    waiting_for: &mut &'static str,
) -> Result<(), Cause> {
    let mut connection = Connection::open(addr).await?;

    *waiting_for = "the session to be resumed";
    // Both frames at once: the server closes the client's connection when it reads the first one, and this connection
    // when the client reconnects. A wait for the first reply would give the client time to reconnect.
    let hello = handshake::resume(SESSION_TIMEOUT, session, password);
    let both = [hello, request::close_session(1)].map(|payload| frame::wrap(&payload));
    connection.stream.write_all(&both.concat()).await?;
    connection.session_granted().await?;

    *waiting_for = "the session to be closed";
    connection.reply(1).await?;
    Ok(())
}

struct Connection {
    stream: TcpStream,
}

impl Connection {
    async fn open(addr: SocketAddr) -> Result<Self, Cause> {
        let stream = TcpStream::connect(addr).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream })
    }

    /// Waits for the reply to a session request, and fails if the server grants none.
    async fn session_granted(&mut self) -> Result<(), Cause> {
        let granted = handshake::Connected::decode(&self.receive().await?)?;
        if granted.session == 0 || granted.timeout <= 0 {
            return Err(Cause::NoSession);
        }
        Ok(())
    }

    /// Sends one request and returns the body of its reply.
    async fn request(&mut self, xid: i32, payload: &[u8]) -> Result<Vec<u8>, Cause> {
        self.send(payload).await?;
        self.reply(xid).await
    }

    /// Waits for the reply to the request with this number, and returns its body.
    async fn reply(&mut self, xid: i32) -> Result<Vec<u8>, Cause> {
        loop {
            let reply = self.receive().await?;
            let mut from = Decoder::new(&reply);
            match ReplyHeader::decode(&mut from)? {
                // Notifications and replies to pings may come at any time.
                ReplyHeader { xid: ..0, .. } => {}
                ReplyHeader { xid: got, code: 0 } if got == xid => return Ok(from.rest().to_vec()),
                ReplyHeader { xid: got, code } if got == xid => {
                    return Err(Cause::Refused { code });
                }
                ReplyHeader { xid: got, .. } => return Err(Cause::OutOfOrder { got, wanted: xid }),
            }
        }
    }

    async fn send(&mut self, payload: &[u8]) -> Result<(), Cause> {
        Ok(self.stream.write_all(&frame::wrap(payload)).await?)
    }

    async fn receive(&mut self) -> Result<Vec<u8>, Cause> {
        let len = usize::try_from(self.stream.read_i32().await?);
        let len = len.ok().filter(|len| *len <= MAX_KEPT);
        let mut payload = vec![0; len.ok_or(Cause::NoFrame)?];
        self.stream.read_exact(&mut payload).await?;
        Ok(payload)
    }
}

impl From<io::Error> for Cause {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Self::Closed,
            _ => Self::Io(error),
        }
    }
}

const SESSION_TIMEOUT: Duration = Duration::from_secs(4);
/// `SESSIONCLOSEDREQUIRESASLAUTH`.
const NEEDS_SASL: i32 = -124;
const DATA: &[u8] = b"written by zk-harness to see whether a quorum serves";

#[cfg(test)]
mod tests;
