//! The boundary to whatever speaks ZooKeeper's protocol.
//!
//! Behind [`Transport`] stands the client crate; a scripted one stands there in tests.

use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use crate::acl::Acl;
use crate::error::ErrorKind;
use crate::path::NodePath;
use crate::stat::SessionId;
use crate::stat::Stat;

pub(crate) mod client;

/// An answer on its way. The request leaves when it is first polled; dropping it later does not call it back.
pub(crate) type Reply<T> = Pin<Box<dyn Future<Output = Result<T, Fault>> + Send>>;

/// One ZooKeeper session on the wire: each request is tried once, on whatever connection there is.
pub(crate) trait Transport: fmt::Debug + Send + Sync {
    fn session_id(&self) -> SessionId;
    fn session_timeout(&self) -> Duration;

    /// Resolves as soon as requests can be sent, with a fault when they never will be again.
    fn connected(&self) -> Reply<()>;
    /// Tells whether requests can be sent now.
    fn is_connected(&self) -> bool;
    /// Resolves when the session is over, whyever.
    fn ended(&self) -> Pin<Box<dyn Future<Output = Ending> + Send>>;

    fn create(
        &self,
        path: &NodePath,
        data: &[u8],
        mode: CreateMode,
        acl: &Acl,
    ) -> Reply<(NodePath, Stat)>;
    fn delete(&self, path: &NodePath, version: Option<i32>) -> Reply<()>;
    fn get(&self, path: &NodePath) -> Reply<(Vec<u8>, Stat)>;
    fn set(&self, path: &NodePath, data: &[u8], version: Option<i32>) -> Reply<Stat>;
    fn exists(&self, path: &NodePath) -> Reply<Option<Stat>>;
    fn list(&self, path: &NodePath) -> Reply<(Vec<String>, Stat)>;
    fn sync(&self, path: &NodePath) -> Reply<()>;
    fn acl(&self, path: &NodePath) -> Reply<(Acl, Stat)>;
    fn set_acl(&self, path: &NodePath, acl: &Acl, version: Option<i32>) -> Reply<Stat>;

    /// Starts to end the session; [`ended`](Self::ended) resolves once the server has acknowledged it.
    fn close(&self);
}

/// The kind of node to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CreateMode {
    Persistent {
        sequential: bool,
        ttl: Option<Duration>,
    },
    Ephemeral {
        sequential: bool,
    },
    Container,
}

/// Why one attempt of a request did not succeed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The server (or the client's own check) judged the request and did nothing.
    Refused(ErrorKind, Option<String>),
    /// Nothing was done, and the same request may succeed later.
    Later(ErrorKind),
    /// The server answered that something went wrong on its side: what was done is not known.
    Server(String),
    /// The connection broke or made no sense: whether it was done is not known.
    Lost(String),
    /// The session is over; whether a request in flight was done is not known.
    Ended(Ending),
}

/// How a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    Expired,
    AuthFailed,
    Closed,
}

impl Ending {
    pub(crate) const fn kind(self) -> ErrorKind {
        match self {
            Self::Expired => ErrorKind::SessionExpired,
            Self::AuthFailed => ErrorKind::AuthFailed,
            Self::Closed => ErrorKind::SessionClosed,
        }
    }
}
