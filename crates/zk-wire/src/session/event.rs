//! What a session reports: events, the outcomes of requests, and why a connection or a session ended.
//!
//! Pure: no I/O and no clock.

use std::fmt;
use std::time::Duration;

use super::{Host, Server, TlsFailure};
use crate::proto::{DecodeError, ErrorCode, Release, Reply, WatchEvent};
use crate::sasl::SaslError;

/// A request that was submitted, and the watch that it sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(pub(crate) u64);

/// A request was not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SubmitError {
    /// The session is over, or is being closed.
    #[error("the session is over: {0}")]
    Over(SessionEnd),
    /// Too many requests wait to be sent. Wait for replies.
    #[error(
        "{requests} requests of {bytes} bytes wait to be sent, which is the limit; wait for replies"
    )]
    Busy {
        /// How many wait.
        requests: usize,
        /// How many bytes they have.
        bytes: usize,
    },
    /// A sequential node of the root is to be created in a session with a chroot: its number would be added to the name of
    /// the chroot.
    #[error("a sequential node needs the beginning of a name below a chroot")]
    NoName,
    /// The servers are [taken to be](crate::Config::assumed_release) too old for it.
    #[error("the request needs ZooKeeper {needs}, and the servers are taken to run {assumed}")]
    Unsupported {
        /// The first release that knows the request.
        needs: Release,
        /// The release that the servers are taken to run.
        assumed: Release,
    },
    /// The request is longer than servers accept.
    #[error(
        "a request of {len} bytes exceeds the limit of {limit}; raise it together with jute.maxbuffer of the servers"
    )]
    TooLong {
        /// Its length in bytes.
        len: usize,
        /// The limit in bytes.
        limit: usize,
    },
}

/// What became of a request. Every accepted request has one outcome, unless it was taken back.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "callers decide by each of these")]
pub enum Outcome {
    /// The server carried it out.
    Done {
        /// What it returned.
        reply: Reply,
        /// The newest transaction that the server had applied.
        zxid: i64,
        /// The number of the connection.
        epoch: u64,
    },
    /// The server refused it, and nothing was changed.
    Refused {
        /// Why.
        code: ErrorCode,
        /// The newest transaction that the server had applied.
        zxid: i64,
        /// The number of the connection.
        epoch: u64,
    },
    /// The server carried it out, and its reply cannot be read. The connection stays.
    ///
    /// What it was to return is lost, and a watch that it has set is removed again.
    Unreadable {
        /// What is wrong with the reply: it is [too long](DecodeError::TooLong), or makes no sense.
        why: DecodeError,
        /// The newest transaction that the server had applied.
        zxid: i64,
        /// The number of the connection.
        epoch: u64,
    },
    /// It was sent, and no reply arrived that says what became of it: it was carried out, or will be, or not.
    Unknown {
        /// The number of the connection.
        epoch: u64,
        /// Why there is no such reply.
        why: Loss,
    },
    /// No server has received it as a whole, nor will one.
    NotSent {
        /// How the session has ended before it was sent.
        end: SessionEnd,
    },
}

/// Why a connection is of no use any more, or the outcome of a request unknown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Loss {
    /// It could not be made, or it broke.
    #[error("{0}")]
    Broken(String),
    /// It was not made in time.
    #[error("no connection to {server} within {time:?}")]
    NotConnected {
        /// The server.
        server: Box<Server>,
        /// How long it had.
        time: Duration,
    },
    /// The server took the connection, and granted no session in time.
    #[error("{server} granted no session within {time:?}")]
    NotGranted {
        /// The server.
        server: Box<Server>,
        /// How long it had.
        time: Duration,
    },
    /// The session moves to another server, as [`rebalance`](super::Session::rebalance) asked for.
    #[error("the session moves to another server")]
    Rebalanced,
    /// It broke while a request was in flight that the server may not know, as far as the session has seen: no request
    /// that needs this release was ever answered.
    #[error(
        "{why}; servers before ZooKeeper {needs} do so after this request, and Config::assumed_release is for them"
    )]
    MaybeTooOld {
        /// The first release that knows the request.
        needs: Release,
        /// How it broke.
        why: Box<Self>,
    },
    /// The server sent nothing for too long.
    #[error("no bytes from the server for {0:?}")]
    Silent(Duration),
    /// The server sent something that is not of the protocol.
    #[error("the server sent no message of the protocol: {0}")]
    Malformed(DecodeError),
    /// The server replied to another request than the oldest.
    #[error("the server replied to request {got} instead of request {wanted:?}")]
    OutOfOrder {
        /// The number in the reply.
        got: i32,
        /// The number of the oldest request.
        wanted: Option<i32>,
    },
    /// The hosts could not be looked up, and none are known.
    #[error("no hosts: {0}")]
    NoHosts(String),
    /// The server granted no session.
    #[error("the server granted no session")]
    Refused,
    /// The server granted a read-only session, which was not asked for.
    #[error("the server is read-only")]
    ReadOnly,
    /// The server is read-only, and a writable one was found.
    #[error("the server is read-only, and a writable one was found")]
    WritableFound,
    /// The TLS handshake with a server failed.
    #[error("no TLS with {server}: {why}")]
    Tls {
        /// The server.
        server: Box<Server>,
        /// What failed.
        why: TlsFailure,
    },
    /// The SASL exchange could not be begun, or the server did not prove who it is.
    #[error("the SASL exchange with {host} failed: {why}")]
    Sasl {
        /// The server.
        host: Host,
        /// What failed.
        why: SaslError,
    },
    /// The server could not check the credentials.
    #[error("the server could not check the credentials: {0}")]
    CredentialsNotChecked(ErrorCode),
    /// The server did not set the watches of the session.
    #[error("the server did not set the watches of the session: {0}")]
    WatchesRefused(ErrorCode),
    /// The server did not close the session, which the next connection is to do.
    #[error("the server did not close the session: {0}")]
    CloseRefused(ErrorCode),
    /// The server replied with a code that [does not say](ErrorCode::leaves_outcome_unknown) what became of the request.
    /// The connection stays.
    #[error("the server failed, and may have carried out the request: {0}")]
    ServerFailed(ErrorCode),
    /// The session ended.
    #[error("the session is over: {0}")]
    Over(SessionEnd),
}

/// Why a session is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "callers decide by each of these")]
pub enum SessionEnd {
    /// It was closed.
    Closed,
    /// The ensemble expired it, or has to be assumed to have: a server granted another one instead, or no server replied
    /// for 7/5 of the session timeout.
    Expired,
    /// The server refused the credentials.
    AuthFailed,
    /// The server requires SASL, or another authentication that the session has not made.
    AuthRequired,
    /// The runtime of its task has shut down. The ensemble expires it after its timeout.
    RuntimeEnded,
}

impl std::error::Error for SessionEnd {}

impl fmt::Display for SessionEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Closed => "it was closed",
            Self::Expired => "it has expired",
            Self::AuthFailed => "the server refused the credentials",
            Self::AuthRequired => "the server requires authentication",
            Self::RuntimeEnded => "its runtime has ended",
        })
    }
}

/// What a session reports to its driver, in the order in which it happened.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "owners handle each of these")]
pub enum Event {
    /// A request has its outcome.
    Answered(Ticket, Outcome),
    /// A watch has reported a change. One-shot watches are gone then.
    Fired {
        /// The request that has set the watch.
        ticket: Ticket,
        /// The change.
        event: WatchEvent,
        /// The number of the connection.
        epoch: u64,
    },
    /// A server has granted or resumed the session, and accepted its credentials.
    Connected {
        /// The number of the connection; each one has a higher number than those before.
        epoch: u64,
        /// The session timeout that is in force from now on.
        timeout: Duration,
        /// Whether the server is cut off from the quorum: it answers reads and refuses writes.
        read_only: bool,
    },
    /// The connection is lost; another one is being looked for.
    Disconnected {
        /// Why.
        why: Loss,
    },
    /// The session is over. No more events follow.
    Over(SessionEnd),
}
