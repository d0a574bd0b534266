//! Waiting until a node is there, or is not.

use std::time::Duration;

use super::OperationFuture;
use super::Target;
use super::read::exists_watched;
use crate::call::Call;
use crate::error::Error;
use crate::error::ErrorClass;
use crate::error::ErrorKind;
use crate::error::Operation;
use crate::path::NodePath;
use crate::stat::Stat;
use crate::transport::TransportError;
use crate::transport::WatchEvent;

/// Waits until a node exists; made by [`Session::wait_for_creation`](crate::Session::wait_for_creation).
///
/// The answer is the stat of the node.
/// Between the look and the watch nothing can slip through: servers do both at once.
/// A node that is created and deleted again faster than it is looked at may be missed.
///
/// # Errors
///
/// [`TimedOut`](ErrorKind::TimedOut), or [`NotConnected`](ErrorKind::NotConnected) when there was no connection at the end.
/// [`TooManyWatches`](ErrorKind::TooManyWatches), [`NoAuth`](ErrorKind::NoAuth).
///
/// # Cancel safety
///
/// Safe, the watch is taken back in the background.
///
/// # Session loss
///
/// A fatal error.
///
/// # Cost
///
/// A round trip for each look: one at the beginning, one for each change of the node.
#[derive(Debug, Clone)]
#[must_use = "nothing is waited for until it is awaited"]
pub struct WaitForCreation {
    target: Target,
}

/// Waits until a node does not exist; made by [`Session::wait_for_deletion`](crate::Session::wait_for_deletion).
///
/// Between the look and the watch nothing can slip through: servers do both at once.
/// A node that is deleted counts, even if there is another one under its path by now.
///
/// # Errors
///
/// [`TimedOut`](ErrorKind::TimedOut), or [`NotConnected`](ErrorKind::NotConnected) when there was no connection at the end.
/// [`TooManyWatches`](ErrorKind::TooManyWatches), [`NoAuth`](ErrorKind::NoAuth).
///
/// # Cancel safety
///
/// Safe, the watch is taken back in the background.
///
/// # Session loss
///
/// A fatal error.
///
/// # Cost
///
/// A round trip for each look: one at the beginning, one for each change of the node.
#[derive(Debug, Clone)]
#[must_use = "nothing is waited for until it is awaited"]
pub struct WaitForDeletion {
    target: Target,
    czxid: Option<i64>,
}

impl WaitForCreation {
    pub(crate) fn new(mut target: Target) -> Self {
        target.timeout(Duration::MAX);
        Self { target }
    }

    /// Bounds the wait; by default it lasts as long as the session.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.target.timeout(timeout);
        self
    }
}

impl WaitForDeletion {
    pub(crate) fn new(mut target: Target) -> Self {
        target.timeout(Duration::MAX);
        Self {
            target,
            czxid: None,
        }
    }

    /// Waits for the end of the node that this transaction has made: the [`czxid`](Stat::czxid) of its stat.
    ///
    /// By default it is the node that the first look finds.
    /// A server that lags may show for a while the node that was there before, which is not waited for and whose deletion is
    /// not the end.
    /// Before that it may show none, which is; so make the wait on a session that has seen the node, which never meets a
    /// server that has not, or call [`sync`](crate::Session::sync) first.
    pub fn created_by(mut self, czxid: i64) -> Self {
        self.czxid = Some(czxid);
        self
    }

    /// Bounds the wait; by default it lasts as long as the session.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.target.timeout(timeout);
        self
    }
}

impl IntoFuture for WaitForCreation {
    type Output = Result<Stat, Error>;
    type IntoFuture = OperationFuture<Stat>;

    fn into_future(self) -> Self::IntoFuture {
        self.target.run(Operation::Wait, async move |call, path| {
            let seen = |seen| match seen {
                Seen::Node(stat) => stat,
                Seen::Event(_) => None,
            };
            wait(&call, &path, "it to be created", seen).await
        })
    }
}

impl IntoFuture for WaitForDeletion {
    type Output = Result<(), Error>;
    type IntoFuture = OperationFuture<()>;

    fn into_future(self) -> Self::IntoFuture {
        self.target.run(Operation::Wait, async move |call, path| {
            let mut first = self.czxid;
            let mut is_older = false;
            let seen = |seen| match seen {
                Seen::Node(None) => Some(()),
                Seen::Node(Some(stat)) => {
                    let first = *first.get_or_insert(stat.czxid);
                    is_older = stat.czxid < first;
                    (stat.czxid > first).then_some(())
                }
                Seen::Event(WatchEvent::Deleted) => (!is_older).then_some(()),
                Seen::Event(_) => None,
            };
            wait(&call, &path, "it to be deleted", seen).await
        })
    }
}

/// What is seen of a node that is waited for.
enum Seen {
    Node(Option<Stat>),
    Event(WatchEvent),
}

async fn wait<T>(
    call: &Call,
    path: &NodePath,
    what: &str,
    mut done: impl FnMut(Seen) -> Option<T>,
) -> Result<T, Error> {
    let deadline = call.deadline();
    loop {
        let (stat, mut watch) = match exists_watched(call, path).await {
            Ok(found) => found,
            // The policy may have given up on a read; the wait goes on as long as there is time.
            Err(error) if error.class() == ErrorClass::Recoverable => {
                if deadline.remaining().is_zero() || !deadline.pause(LOOK_AGAIN).await {
                    return Err(error);
                }
                continue;
            }
            Err(error) => return Err(error),
        };
        if let Some(value) = done(Seen::Node(stat)) {
            return Ok(value);
        }
        match deadline.bound(watch.changed()).await {
            Some(WatchEvent::SessionLost) => {
                let ending = call.engine().ended().await;
                return Err(call.failure(path, false, 1, &TransportError::Ended(ending)));
            }
            Some(event) => {
                if let Some(value) = done(Seen::Event(event)) {
                    return Ok(value);
                }
            }
            None => {
                let allowed = deadline.allowed();
                // Without a connection it may have happened long ago.
                let kind = if call.engine().is_connected() {
                    ErrorKind::TimedOut
                } else {
                    ErrorKind::NotConnected
                };
                return Err(call
                    .error(path, kind)
                    .attempts_made(1)
                    .detail(format!("waited {allowed:?} for {what}")));
            }
        }
    }
}

/// The pause after a read that failed.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
