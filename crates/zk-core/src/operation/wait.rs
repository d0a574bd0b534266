//! Waits until a node exists or does not exist, with a watch, and by reading it again where the watch may not fire.

use std::future::pending;
use std::time::Duration;

use zk_wire::{NodePath, Stat};

use super::read::{find, find_and_watch};
use super::target::{OperationFuture, Target};
use crate::call::Call;
use crate::error::{Error, ErrorClass, ErrorKind, Operation};
use crate::transport::{TransportError, WatchEvent};

/// Waits until a node exists; created by [`Session::wait_for_creation`](crate::Session::wait_for_creation).
///
/// Returns the stat of the node.
/// No change between the read and the watch is missed, because servers do both at once.
/// A node that is created and deleted again before it is read may be missed.
/// The session needs READ on the node. Without it, servers since 3.9.2 refuse to read the node once it exists. Older ones
/// do read it, and do not report its changes, so that the wait may end up to a session timeout late.
///
/// # Errors
///
/// [`TimedOut`](ErrorKind::TimedOut), or [`NotConnected`](ErrorKind::NotConnected) if there was no connection at the
/// deadline. [`NoAuth`](ErrorKind::NoAuth).
///
/// # Cost
///
/// One round trip at the beginning, one for each change of the node, and one for each session timeout that it waits.
#[derive(Debug, Clone)]
#[must_use = "nothing is waited for until it is awaited"]
pub struct WaitForCreation {
    target: Target,
}

/// Waits until a node does not exist; created by [`Session::wait_for_deletion`](crate::Session::wait_for_deletion).
///
/// No change between the read and the watch is missed, because servers do both at once.
/// A deleted node counts even if another one exists under its path by now.
/// The session needs READ on the node, as for [`WaitForCreation`].
///
/// # Errors
///
/// [`TimedOut`](ErrorKind::TimedOut), or [`NotConnected`](ErrorKind::NotConnected) if there was no connection at the
/// deadline. [`NoAuth`](ErrorKind::NoAuth).
///
/// # Cost
///
/// That of [`WaitForCreation`].
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

    /// Waits for the deletion of the node that this transaction created: the [`czxid`](Stat::czxid) of its stat.
    ///
    /// By default, that is the node that the first read finds.
    /// A lagging server may still show an earlier node for a while; its deletion does not end the wait.
    /// Before that it may show no node, which does end the wait. To avoid this, wait on a session that has seen the
    /// node (such a session never connects to a server that has not), or call [`sync`](crate::Session::sync) first.
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
        let (stat, mut watch) = match find_and_watch(call, path).await {
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
        let changed = async {
            loop {
                let seen = tokio::select! {
                    biased;
                    event = watch.changed() => Seen::Event(event),
                    found = read_later(call, path) => Seen::Node(found?),
                };
                let is_event = matches!(seen, Seen::Event(_));
                let value = match seen {
                    Seen::Event(WatchEvent::SessionLost) => {
                        let ending = call.engine().ended().await;
                        let ended = TransportError::Ended(ending);
                        return Err(call.failure(path, false, 1, &ended));
                    }
                    seen => done(seen),
                };
                if is_event || value.is_some() {
                    return Ok(value);
                }
            }
        };
        match deadline.bound(changed).await {
            Some(Ok(Some(value))) => return Ok(value),
            // The watch has fired: another one is set.
            Some(Ok(None)) => {}
            Some(Err(error)) => return Err(error),
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

/// Reads the node after a session timeout: servers report no change of a node to a session that may not read it.
async fn read_later(call: &Call, path: &NodePath) -> Result<Option<Stat>, Error> {
    loop {
        let pause = call.engine().transport().session_timeout();
        if !call.deadline().pause(pause).await {
            return pending().await;
        }
        match find(call, path).await {
            Err(error) if error.class() == ErrorClass::Recoverable => {}
            result => return result,
        }
    }
}

/// The pause after a read that failed.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
