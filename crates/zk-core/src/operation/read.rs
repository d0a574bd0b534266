//! Reads nodes, and makes a server catch up with the leader before a read.

use std::time::Duration;

use bytes::Bytes;
use zk_wire::{NodePath, Stat};

use super::target::{OperationFuture, Target, operations};
use crate::call::Call;
use crate::engine::catch_up::CatchUp;
use crate::error::{Error, ErrorKind, Operation};
use crate::transport::{Request, Response};
use crate::watch::{Watch, register};

operations! {
    Get => Get get -> (Bytes, Stat);
    Exists => Exists exists -> Option<Stat>;
    GetStat => Stat stat -> Stat;
    List => List list -> (Vec<String>, Stat);
    GetWatched => Get get_watched -> (Bytes, Stat, Watch);
    ExistsWatched => Exists exists_watched -> (Option<Stat>, Watch);
    ListWatched => List list_watched -> (Vec<String>, Stat, Watch);
}

/// Reads the data of a node; created by [`Session::get`](crate::Session::get).
///
/// Returns the data and its stat. The data is a part of the buffer that the reply arrived in, which may be longer and is
/// kept as long as the data: copy what is kept for long.
/// The server that answers may lag behind the others; [`Session::sync`](crate::Session::sync) first makes it catch up.
///
/// # Errors
///
/// [`NoNode`](ErrorKind::NoNode), [`NoAuth`](ErrorKind::NoAuth).
#[derive(Debug, Clone)]
#[must_use = "nothing is read until it is awaited"]
pub struct Get {
    target: Target,
}

impl Get {
    /// Also sets a watch that fires when the data of the node changes or the node is deleted.
    pub fn watched(self) -> GetWatched {
        GetWatched::new(self.target)
    }

    /// Returns the path if it is valid.
    pub(super) fn path(&self) -> Option<NodePath> {
        self.target.path.as_ref().ok().cloned()
    }
}

async fn get(call: Call, path: NodePath) -> Result<(Bytes, Stat), Error> {
    let request = Request::GetData {
        path: call.wire(&path),
        watch: false,
    };
    call.read(&path, &request, Response::data).await
}

/// Checks whether a node exists; created by [`Session::exists`](crate::Session::exists).
///
/// Returns the stat of the node, or `None`.
/// The server that answers may lag behind the others; [`Session::sync`](crate::Session::sync) first makes it catch up.
///
/// # Errors
///
/// A missing node is not an error. [`NoAuth`](ErrorKind::NoAuth) from servers since 3.9.2 if the session may not read the
/// node; older ones need no permission.
#[derive(Debug, Clone)]
#[must_use = "nothing is read until it is awaited"]
pub struct Exists {
    target: Target,
}

impl Exists {
    /// Sets a watch with the read, which fires when the node is created, changed or deleted.
    pub fn watched(self) -> ExistsWatched {
        ExistsWatched::new(self.target)
    }
}

async fn exists(call: Call, path: NodePath) -> Result<Option<Stat>, Error> {
    find(&call, &path).await
}

/// Reads the stat of a node, if there is one.
pub(super) async fn find(call: &Call, path: &NodePath) -> Result<Option<Stat>, Error> {
    let request = Request::Exists {
        path: call.wire(path),
        watch: false,
    };
    call.read(path, &request, |response| match response {
        Response::Stat { stat, .. } => Some(stat),
        _ => None,
    })
    .await
}

/// Reads the stat of a node; created by [`Session::stat`](crate::Session::stat).
///
/// Returns the stat. A missing node is an error, unlike with [`Exists`].
/// The server that answers may lag behind the others; [`Session::sync`](crate::Session::sync) first makes it catch up.
///
/// # Errors
///
/// [`NoNode`](ErrorKind::NoNode), and [`NoAuth`](ErrorKind::NoAuth) as [`Exists`] has it.
#[derive(Debug, Clone)]
#[must_use = "nothing is read until it is awaited"]
pub struct GetStat {
    target: Target,
}

async fn stat(call: Call, path: NodePath) -> Result<Stat, Error> {
    let stat = find(&call, &path).await?;
    stat.ok_or_else(|| call.error(&path, ErrorKind::NoNode).attempts_made(1))
}

/// Lists the children of a node; created by [`Session::list`](crate::Session::list).
///
/// Returns the names of the children, in no particular order, and the stat of the node. Names that no [`NodePath`] can
/// have are left out with a warning; servers of `ZooKeeper` have none.
/// The server that answers may lag behind the others; [`Session::sync`](crate::Session::sync) first makes it catch up.
///
/// # Errors
///
/// [`NoNode`](ErrorKind::NoNode), [`NoAuth`](ErrorKind::NoAuth).
#[derive(Debug, Clone)]
#[must_use = "nothing is read until it is awaited"]
pub struct List {
    target: Target,
}

impl List {
    /// Sets a watch with the read, which fires when a child comes or goes, or the node itself goes.
    pub fn watched(self) -> ListWatched {
        ListWatched::new(self.target)
    }
}

async fn list(call: Call, path: NodePath) -> Result<(Vec<String>, Stat), Error> {
    let request = Request::GetChildren2 {
        path: call.wire(&path),
        watch: false,
    };
    call.read(&path, &request, |response| match response {
        Response::Children { names, stat, .. } => Some((names, stat)),
        _ => None,
    })
    .await
}

/// Makes the server of this session catch up with the leader; created by [`Session::sync`](crate::Session::sync).
///
/// Reads that follow on this session see every write that was committed before. There are two exceptions, for which
/// [`with_quorum`](Self::with_quorum) exists:
///
/// - The leader does not ask the quorum, so that a deposed one may answer for a moment (ZOOKEEPER-1675).
/// - The leader answers sessions that are connected to itself at once, while it is about to apply a transaction that
///   other servers have applied already, or waits for the quorum to commit one
///   (`CommitProcessor.needCommit`, in every version from 3.4 to 3.9).
///
/// # Errors
///
/// None of its own; a missing node is not one.
/// [`NotConnected`](ErrorKind::NotConnected), [`TimedOut`](ErrorKind::TimedOut) or
/// [`ConnectionLost`](ErrorKind::ConnectionLost) if no reply arrived by the deadline: with the quorum, also because there
/// was none.
///
/// # Cost
///
/// One round trip, repeated after a connection loss; with the quorum, a transaction as well.
#[derive(Debug, Clone)]
#[must_use = "nothing is synchronised until it is awaited"]
pub struct Sync {
    target: Target,
    with: CatchUp,
}

impl Sync {
    pub(crate) fn new(target: Target) -> Self {
        Self {
            target,
            with: CatchUp::Committed,
        }
    }

    /// Lets the quorum commit a transaction that changes nothing, instead of asking the leader.
    ///
    /// Reads that follow on this session see every write that was committed before, and every write that the leader had
    /// proposed before and that is ever committed.
    /// So after a lost reply, once the session has moved to another server, they show whether the write was applied.
    pub fn with_quorum(mut self) -> Self {
        self.with = CatchUp::Proposed;
        self
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
        let with = self.with;
        self.target.run(Operation::Sync, async move |call, path| {
            let request = with.request(&call.wire(&path));
            let caught_up = call.read(&path, &request, |response| {
                matches!(response, Response::Synced | Response::Committed(_)).then_some(())
            });
            match caught_up.await {
                // The quorum has agreed on the refusal.
                Err(error)
                    if with == CatchUp::Proposed
                        && matches!(error.kind(), ErrorKind::NoNode | ErrorKind::NoAuth) =>
                {
                    Ok(())
                }
                done => done,
            }
        })
    }
}

/// Reads the data of a node and sets a watch; created by [`Get::watched`].
///
/// Returns the result of [`Get`], and the watch.
///
/// # Errors
///
/// As [`Get`] has them.
/// With [`NoNode`](ErrorKind::NoNode) there is no watch.
#[derive(Debug, Clone)]
#[must_use = "nothing is read until it is awaited"]
pub struct GetWatched {
    target: Target,
}

async fn get_watched(call: Call, path: NodePath) -> Result<(Bytes, Stat, Watch), Error> {
    let one_shot = register(&call, &path);
    let request = Request::GetData {
        path: call.wire(&path),
        watch: true,
    };
    let (data, stat, watch) = call
        .read(&path, &request, |response| match response {
            Response::Data {
                data,
                stat,
                watch: Some(watch),
            } => Some((data, stat, watch)),
            _ => None,
        })
        .await?;
    Ok((
        data.into_inner(),
        stat,
        Watch::new(&call, watch, one_shot, false),
    ))
}

/// Reads whether a node exists and sets a watch; created by [`Exists::watched`].
///
/// Returns the result of [`Exists`], and the watch.
///
/// # Errors
///
/// As [`Exists`] has them.
/// A missing node is watched, too: the watch fires when it is created.
#[derive(Debug, Clone)]
#[must_use = "nothing is read until it is awaited"]
pub struct ExistsWatched {
    target: Target,
}

async fn exists_watched(call: Call, path: NodePath) -> Result<(Option<Stat>, Watch), Error> {
    find_and_watch(&call, &path).await
}

/// Checks whether a node exists, and sets a watch.
pub(super) async fn find_and_watch(
    call: &Call,
    path: &NodePath,
) -> Result<(Option<Stat>, Watch), Error> {
    let one_shot = register(call, path);
    let request = Request::Exists {
        path: call.wire(path),
        watch: true,
    };
    let (stat, watch) = call
        .read(path, &request, |response| match response {
            Response::Stat {
                stat,
                watch: Some(watch),
            } => Some((stat, watch)),
            _ => None,
        })
        .await?;
    Ok((stat, Watch::new(call, watch, one_shot, false)))
}

/// Reads the children of a node and sets a watch; created by [`List::watched`].
///
/// Returns the result of [`List`], and the watch.
///
/// # Errors
///
/// As [`List`] has them.
/// With [`NoNode`](ErrorKind::NoNode) there is no watch.
#[derive(Debug, Clone)]
#[must_use = "nothing is read until it is awaited"]
pub struct ListWatched {
    target: Target,
}

async fn list_watched(call: Call, path: NodePath) -> Result<(Vec<String>, Stat, Watch), Error> {
    let one_shot = register(&call, &path);
    let request = Request::GetChildren2 {
        path: call.wire(&path),
        watch: true,
    };
    let (names, stat, watch) = call
        .read(&path, &request, |response| match response {
            Response::Children {
                names,
                stat,
                watch: Some(watch),
            } => Some((names, stat, watch)),
            _ => None,
        })
        .await?;
    Ok((names, stat, Watch::new(&call, watch, one_shot, true)))
}
