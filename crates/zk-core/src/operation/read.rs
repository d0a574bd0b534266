//! Reads, and the barrier that makes them fresh.

use std::time::Duration;

use super::OperationFuture;
use super::Target;
use crate::call::Repeat;
use crate::error::Error;
use crate::error::ErrorKind;
use crate::error::Operation;
use crate::stat::Stat;

/// Reads the data of a node; made by [`Session::get`](crate::Session::get).
///
/// The answer is the data and the stat that belongs to it.
/// The server that answers may lag behind the others; [`Session::sync`](crate::Session::sync) first makes it catch up.
///
/// # Errors
///
/// [`NoNode`](ErrorKind::NoNode), [`NoAuth`](ErrorKind::NoAuth).
/// [`NotConnected`](ErrorKind::NotConnected), [`TimedOut`](ErrorKind::TimedOut) or
/// [`ConnectionLost`](ErrorKind::ConnectionLost) when no answer came by the deadline.
///
/// # Cancel safety
///
/// Safe, nothing happened.
///
/// # Session loss
///
/// A fatal error.
///
/// # Cost
///
/// One round trip, repeated after a connection loss.
#[derive(Debug, Clone)]
#[must_use = "nothing is read until it is awaited"]
pub struct Get {
    target: Target,
}

impl Get {
    pub(crate) fn new(target: Target) -> Self {
        Self { target }
    }

    /// Bounds the whole call; the default is the session's operation timeout.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.target.timeout(timeout);
        self
    }
}

impl IntoFuture for Get {
    type Output = Result<(Vec<u8>, Stat), Error>;
    type IntoFuture = OperationFuture<(Vec<u8>, Stat)>;

    fn into_future(self) -> Self::IntoFuture {
        self.target.run(Operation::Get, async move |call, path| {
            call.request(&path, Repeat::Read, |wire| wire.get(&path))
                .await
        })
    }
}

/// Looks whether a node exists; made by [`Session::exists`](crate::Session::exists).
///
/// The answer is the stat of the node, or `None`.
/// The server that answers may lag behind the others; [`Session::sync`](crate::Session::sync) first makes it catch up.
///
/// # Errors
///
/// A missing node is not one.
/// [`NotConnected`](ErrorKind::NotConnected), [`TimedOut`](ErrorKind::TimedOut) or
/// [`ConnectionLost`](ErrorKind::ConnectionLost) when no answer came by the deadline.
///
/// # Cancel safety
///
/// Safe, nothing happened.
///
/// # Session loss
///
/// A fatal error.
///
/// # Cost
///
/// One round trip, repeated after a connection loss.
#[derive(Debug, Clone)]
#[must_use = "nothing is read until it is awaited"]
pub struct Exists {
    target: Target,
}

impl Exists {
    pub(crate) fn new(target: Target) -> Self {
        Self { target }
    }

    /// Bounds the whole call; the default is the session's operation timeout.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.target.timeout(timeout);
        self
    }
}

impl IntoFuture for Exists {
    type Output = Result<Option<Stat>, Error>;
    type IntoFuture = OperationFuture<Option<Stat>>;

    fn into_future(self) -> Self::IntoFuture {
        self.target.run(Operation::Exists, async move |call, path| {
            call.request(&path, Repeat::Read, |wire| wire.exists(&path))
                .await
        })
    }
}

/// Reads the stat of a node; made by [`Session::stat`](crate::Session::stat).
///
/// The answer is the stat; a missing node is an error, unlike with [`Exists`].
/// The server that answers may lag behind the others; [`Session::sync`](crate::Session::sync) first makes it catch up.
///
/// # Errors
///
/// [`NoNode`](ErrorKind::NoNode).
/// [`NotConnected`](ErrorKind::NotConnected), [`TimedOut`](ErrorKind::TimedOut) or
/// [`ConnectionLost`](ErrorKind::ConnectionLost) when no answer came by the deadline.
///
/// # Cancel safety
///
/// Safe, nothing happened.
///
/// # Session loss
///
/// A fatal error.
///
/// # Cost
///
/// One round trip, repeated after a connection loss.
#[derive(Debug, Clone)]
#[must_use = "nothing is read until it is awaited"]
pub struct GetStat {
    target: Target,
}

impl GetStat {
    pub(crate) fn new(target: Target) -> Self {
        Self { target }
    }

    /// Bounds the whole call; the default is the session's operation timeout.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.target.timeout(timeout);
        self
    }
}

impl IntoFuture for GetStat {
    type Output = Result<Stat, Error>;
    type IntoFuture = OperationFuture<Stat>;

    fn into_future(self) -> Self::IntoFuture {
        self.target.run(Operation::Stat, async move |call, path| {
            let stat = call
                .request(&path, Repeat::Read, |wire| wire.exists(&path))
                .await?;
            stat.ok_or_else(|| call.error(&path, ErrorKind::NoNode).attempts_made(1))
        })
    }
}

/// Lists the children of a node; made by [`Session::list`](crate::Session::list).
///
/// The answer is the names of the children, in no order, and the stat of the node.
/// The server that answers may lag behind the others; [`Session::sync`](crate::Session::sync) first makes it catch up.
///
/// # Errors
///
/// [`NoNode`](ErrorKind::NoNode), [`NoAuth`](ErrorKind::NoAuth).
/// [`NotConnected`](ErrorKind::NotConnected), [`TimedOut`](ErrorKind::TimedOut) or
/// [`ConnectionLost`](ErrorKind::ConnectionLost) when no answer came by the deadline.
///
/// # Cancel safety
///
/// Safe, nothing happened.
///
/// # Session loss
///
/// A fatal error.
///
/// # Cost
///
/// One round trip, repeated after a connection loss.
#[derive(Debug, Clone)]
#[must_use = "nothing is read until it is awaited"]
pub struct List {
    target: Target,
}

impl List {
    pub(crate) fn new(target: Target) -> Self {
        Self { target }
    }

    /// Bounds the whole call; the default is the session's operation timeout.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.target.timeout(timeout);
        self
    }
}

impl IntoFuture for List {
    type Output = Result<(Vec<String>, Stat), Error>;
    type IntoFuture = OperationFuture<(Vec<String>, Stat)>;

    fn into_future(self) -> Self::IntoFuture {
        self.target.run(Operation::List, async move |call, path| {
            call.request(&path, Repeat::Read, |wire| wire.list(&path))
                .await
        })
    }
}

/// Makes the server of this session catch up with the leader; made by [`Session::sync`](crate::Session::sync).
///
/// Reads that follow on this session see every write the leader had committed.
/// The leader does not ask the quorum for it, so that a deposed one may answer for a moment (ZOOKEEPER-1675).
///
/// # Errors
///
/// None of its own; a missing node is not one.
/// [`NotConnected`](ErrorKind::NotConnected), [`TimedOut`](ErrorKind::TimedOut) or
/// [`ConnectionLost`](ErrorKind::ConnectionLost) when no answer came by the deadline.
///
/// # Cancel safety
///
/// Safe, nothing happened.
///
/// # Session loss
///
/// A fatal error.
///
/// # Cost
///
/// One round trip, repeated after a connection loss.
#[derive(Debug, Clone)]
#[must_use = "nothing is synchronised until it is awaited"]
pub struct Sync {
    target: Target,
}

impl Sync {
    pub(crate) fn new(target: Target) -> Self {
        Self { target }
    }

    /// Bounds the whole call; the default is the session's operation timeout.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.target.timeout(timeout);
        self
    }
}

impl IntoFuture for Sync {
    type Output = Result<(), Error>;
    type IntoFuture = OperationFuture<()>;

    fn into_future(self) -> Self::IntoFuture {
        self.target.run(Operation::Sync, async move |call, path| {
            call.request(&path, Repeat::Read, |wire| wire.sync(&path))
                .await
        })
    }
}
