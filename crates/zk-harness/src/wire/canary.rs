//! A node written through one server, read back and removed.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::frame;
use super::frame::ErrorCode;
use super::frame::FrameError;
use super::frame::ReplyHeader;
use super::jute::DecodeError;
use super::jute::Decoder;
use super::record;

/// Opens a session on the server at `addr`, creates an ephemeral node, reads it back and closes the session.
///
/// `Ok` means that a quorum has accepted writes through this server, and that nothing stays behind: the server answers
/// the last request after it has removed the node.
///
/// # Errors
///
/// A [`WireError`] that says what was waited for.
/// The node of a failed canary goes with its session, which expires after four seconds or the server's minimum.
///
/// # Cancel safety
///
/// Safe: as after an error, the node goes with its session.
pub(crate) async fn canary(addr: SocketAddr, within: Duration) -> Result<(), WireError> {
    let path = format!("/zk-harness-canary-{:016x}", fastrand::u64(..));
    let mut waiting_for = "a connection";
    let outcome = timeout(within, sing(addr, &path, &mut waiting_for)).await;
    outcome
        .unwrap_or(Err(Cause::TimedOut(within)))
        .map_err(|cause| WireError {
            addr,
            waiting_for,
            cause,
        })
}

/// Why a canary failed, and at which step.
#[derive(Debug, thiserror::Error)]
#[error("the canary through {addr} failed while waiting for {waiting_for}")]
pub(crate) struct WireError {
    addr: SocketAddr,
    waiting_for: &'static str,
    #[source]
    cause: Cause,
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
    Io(#[from] io::Error),
    #[error("the server grants no session")]
    NoSession,
    #[error("the server says {0}")]
    Refused(ErrorCode),
    #[error("a reply to request {got} came, where one to request {wanted} was due")]
    OutOfOrder { got: i32, wanted: i32 },
    #[error("the node at {path} holds {} other bytes than were written", found.len())]
    OtherData { path: String, found: Vec<u8> },
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error("the reply cannot be read")]
    Decode(#[from] DecodeError),
}

/// The steps; `waiting_for` always names the current one.
async fn sing(addr: SocketAddr, path: &str, waiting_for: &mut &'static str) -> Result<(), Cause> {
    let stream = TcpStream::connect(addr).await?;
    stream.set_nodelay(true)?;
    let mut connection = Connection {
        stream,
        buffer: Vec::new(),
    };

    *waiting_for = "a session";
    connection.send(&record::connect(SESSION_TIMEOUT)).await?;
    let granted = record::Connected::decode(&connection.receive().await?)?;
    if granted.session == 0 || granted.timeout <= 0 {
        return Err(Cause::NoSession);
    }

    *waiting_for = "the canary node to be written";
    connection
        .request(1, &record::create_ephemeral(1, path, DATA))
        .await?;

    *waiting_for = "the canary node to be read back";
    let reply = connection.request(2, &record::get_data(2, path)).await?;
    let found = record::decode_data(&mut Decoder::new(&reply))?;
    if found != DATA {
        return Err(Cause::OtherData {
            path: path.to_owned(),
            found: found.to_vec(),
        });
    }

    *waiting_for = "the session to be closed";
    connection.request(3, &record::close_session(3)).await?;
    Ok(())
}

struct Connection {
    stream: TcpStream,
    /// What has been received beyond the last frame taken.
    buffer: Vec<u8>,
}

impl Connection {
    /// Sends one request and returns the body of its reply.
    async fn request(&mut self, xid: i32, payload: &[u8]) -> Result<Vec<u8>, Cause> {
        self.send(payload).await?;
        loop {
            let mut reply = self.receive().await?;
            let header = ReplyHeader::decode(&mut Decoder::new(&reply))?;
            match header {
                // Notifications and answers to pings come whenever they like.
                ReplyHeader { xid: ..0, .. } => {}
                ReplyHeader {
                    xid: got,
                    code: ErrorCode::OK,
                    ..
                } if got == xid => {
                    return Ok(reply.split_off(ReplyHeader::LEN));
                }
                ReplyHeader { xid: got, code, .. } if got == xid => {
                    return Err(Cause::Refused(code));
                }
                ReplyHeader { xid: got, .. } => return Err(Cause::OutOfOrder { got, wanted: xid }),
            }
        }
    }

    async fn send(&mut self, payload: &[u8]) -> Result<(), Cause> {
        Ok(self.stream.write_all(&frame::wrap(payload)).await?)
    }

    async fn receive(&mut self) -> Result<Vec<u8>, Cause> {
        loop {
            if let Some(payload) = frame::split(&mut self.buffer)? {
                return Ok(payload);
            }
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Err(Cause::Closed);
            }
        }
    }
}

const SESSION_TIMEOUT: Duration = Duration::from_secs(4);
const DATA: &[u8] = b"written by zk-harness to see whether a quorum serves";

#[cfg(test)]
mod tests;
