//! Deleting nodes.

use std::sync::Arc;
use std::time::Duration;

use super::OperationFuture;
use super::Target;
use crate::call::Call;
use crate::call::Repeat;
use crate::call::join_all;
use crate::engine::Engine;
use crate::engine::lock;
use crate::engine::reaper::Job;
use crate::error::Error;
use crate::error::ErrorClass;
use crate::error::ErrorKind;
use crate::error::Operation;
use crate::path::NodePath;
use crate::stat::Stat;
use crate::transport::Request;
use crate::transport::Response;

/// Deletes a node; made by [`Session::delete`](crate::Session::delete).
///
/// After a lost answer it is repeated: the node being gone then is what was wanted, whoever did it.
///
/// # Errors
///
/// [`NoNode`](ErrorKind::NoNode), [`NotEmpty`](ErrorKind::NotEmpty), [`BadVersion`](ErrorKind::BadVersion),
/// [`NoAuth`](ErrorKind::NoAuth).
/// [`OutcomeUnknown`](ErrorKind::OutcomeUnknown) when the request was sent and no answer came.
/// A recursive delete that fails has deleted a part; [`Error::path`] says where it stopped.
///
/// # Cancel safety
///
/// Not safe once it was polled, because a request that has left cannot be called back: the node may still be deleted.
/// Repeat the call; [`NoNode`](ErrorKind::NoNode) then says that it was.
/// Dropped before its first poll, nothing has happened.
///
/// # Session loss
///
/// A fatal error; [`Error::is_outcome_unknown`] tells whether the request was in flight.
///
/// # Cost
///
/// One round trip; a recursive one lists and deletes 64 nodes at a time, and keeps all paths below in memory.
#[derive(Debug, Clone)]
#[must_use = "nothing is deleted until it is awaited"]
pub struct Delete {
    target: Target,
    version: Option<i32>,
    recursive: bool,
    guaranteed: bool,
    czxid: Option<i64>,
}

impl Delete {
    pub(crate) fn new(target: Target) -> Self {
        Self {
            target,
            version: None,
            recursive: false,
            guaranteed: false,
            czxid: None,
        }
    }

    /// Deletes the node only if its data has this version; by default any.
    pub fn version(mut self, version: i32) -> Self {
        self.version = Some(version);
        self
    }

    /// Deletes the node only if this transaction made it: the [`czxid`](crate::Stat::czxid) of its stat.
    ///
    /// A node that took its place is not touched, and the answer is [`NoNode`](ErrorKind::NoNode).
    /// The server catches up and the node is looked at first, which takes two more round trips, and then it is deleted
    /// under the version that was seen; after a lost answer it is looked at again.
    /// Only a node that is replaced between that look and the deletion, and whose replacement was written as often, is
    /// not told apart: ZooKeeper has no deletion by transaction.
    pub fn created_by(mut self, czxid: i64) -> Self {
        self.czxid = Some(czxid);
        self
    }

    /// Deletes everything below the node first.
    ///
    /// This is not atomic: others see the tree shrink.
    /// Nodes that vanish meanwhile are no error, and nodes that appear meanwhile are deleted too, for a bounded number
    /// of rounds; then the answer is [`NotEmpty`](ErrorKind::NotEmpty).
    pub fn recursive(mut self) -> Self {
        self.recursive = true;
        self
    }

    /// Goes on in the background when this call ends without having deleted the node, by an error or by being dropped.
    ///
    /// It deletes the node that was there when it began, and not one that takes its place later: it looks at the
    /// transaction that made the node first, and then deletes it under its version.
    /// Only a node that is replaced between that look and the deletion, and whose replacement was never written, is not
    /// told apart: ZooKeeper has no deletion by transaction.
    /// Dropped before it has seen the node, which takes one round trip, it deletes nothing.
    /// It ends with the session.
    pub fn guaranteed(mut self) -> Self {
        self.guaranteed = true;
        self
    }

    /// Bounds the whole call; the default is the session's operation timeout.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.target.timeout(timeout);
        self
    }
}

impl IntoFuture for Delete {
    type Output = Result<(), Error>;
    type IntoFuture = OperationFuture<()>;

    fn into_future(self) -> Self::IntoFuture {
        let Self {
            target,
            version,
            recursive,
            guaranteed,
            czxid,
        } = self;
        target.run(Operation::Delete, async move |call, path| {
            let invalid =
                |rule: &str| Err(call.error(&path, ErrorKind::InvalidArgument).detail(rule));
            if path.is_root() {
                return invalid("the root cannot be deleted");
            }
            match (recursive, version) {
                (true, Some(_)) => invalid("a recursive delete takes no version"),
                (true, None) if guaranteed => {
                    invalid("a recursive delete is not guaranteed; repeat it instead")
                }
                (true, None) if czxid.is_some() => {
                    invalid("a recursive delete takes no transaction")
                }
                (true, None) => delete_tree(&call, &path).await,
                (false, version) if guaranteed => {
                    delete_for_sure(&call, &path, version, czxid).await
                }
                (false, version) if let Some(czxid) = czxid => {
                    delete_exactly(&call, &path, version, czxid).await
                }
                (false, version) => delete_one(&call, &path, version).await,
            }
        })
    }
}

/// Deletes one node; that it is gone when the request is repeated is what was wanted.
async fn delete_one(call: &Call, path: &NodePath, version: Option<i32>) -> Result<(), Error> {
    let wire = call.wire(path);
    let request = Request::Delete {
        path: wire.clone(),
        version,
    };
    let answer = call
        .request(path, Repeat::Write, &request, Response::deleted)
        .await;
    match answer.result {
        Ok(()) => {}
        Err(error) if answer.was_in_doubt && error.is_no_node() => {}
        Err(error) if answer.was_in_doubt => return Err(error.maybe_applied()),
        Err(error) => return Err(error),
    }
    lock(&call.engine().made).remove(&wire);
    Ok(())
}

/// Deletes the node that a transaction has made.
///
/// After a lost answer it looks again before it deletes again: another node may have taken the place since, with the
/// version of a fresh one, too. A server that lags still shows a node whose place another one has taken, and does not
/// yet show one that is there. Once it has caught up, so has every server that the session moves to: a client tells a
/// server the newest zxid that it has seen, and one that is behind refuses it.
async fn delete_exactly(
    call: &Call,
    path: &NodePath,
    version: Option<i32>,
    czxid: i64,
) -> Result<(), Error> {
    let wire = call.wire(path);
    let exists = Request::Exists {
        path: wire.clone(),
        watch: false,
    };
    let sync = Request::Sync { path: wire.clone() };
    let mut in_doubt = false;
    let mut attempts = 0;
    loop {
        attempts += 1;
        let looked = async {
            let synced = |response| matches!(response, Response::Synced).then_some(());
            call.read(path, &sync, synced).await?;
            call.read(path, &exists, |response| match response {
                Response::Stat { stat, .. } => Some(stat),
                _ => None,
            })
            .await
        };
        let stat = match looked.await {
            Ok(stat) => stat.filter(|stat| stat.czxid == czxid),
            Err(error) if in_doubt => return Err(error.maybe_applied()),
            Err(error) => return Err(error),
        };
        let Some(stat) = stat else {
            if in_doubt {
                return Ok(());
            }
            return Err(call.error(path, ErrorKind::NoNode).attempts_made(attempts));
        };
        let request = Request::Delete {
            path: wire.clone(),
            version: Some(version.unwrap_or(stat.version)),
        };
        let answer = call
            .request(path, Repeat::Never, &request, Response::deleted)
            .await;
        in_doubt |= answer.was_in_doubt;
        match answer.result {
            Ok(()) => return Ok(()),
            Err(error) if in_doubt && error.is_no_node() => return Ok(()),
            // Somebody wrote to it since.
            Err(error) if error.kind() == ErrorKind::BadVersion && version.is_none() => {}
            Err(error) if error.is_outcome_unknown() && !error.is_fatal() => {
                in_doubt = true;
                if !call.may_try_again(attempts).await {
                    return Err(error);
                }
            }
            Err(error) if in_doubt => return Err(error.maybe_applied()),
            Err(error) => return Err(error),
        }
    }
}

/// Deletes the node that is there now, in the background if it must be.
async fn delete_for_sure(
    call: &Call,
    path: &NodePath,
    version: Option<i32>,
    czxid: Option<i64>,
) -> Result<(), Error> {
    let wire = call.wire(path);
    let look = async |is_fresh: bool| {
        if is_fresh {
            let sync = Request::Sync { path: wire.clone() };
            let synced = |response| matches!(response, Response::Synced).then_some(());
            call.read(path, &sync, synced).await?;
        }
        let exists = Request::Exists {
            path: wire.clone(),
            watch: false,
        };
        call.read(path, &exists, |response| match response {
            Response::Stat { stat, .. } => Some(stat),
            _ => None,
        })
        .await
    };
    // A server that lags does not know the newest nodes.
    let stat = match look(false).await? {
        None => look(true).await?,
        stat => stat,
    };
    let is_meant = |stat: &Stat| czxid.is_none_or(|czxid| stat.czxid == czxid);
    let Some(stat) = stat.filter(is_meant) else {
        return Err(call.error(path, ErrorKind::NoNode).attempts_made(1));
    };
    let mut cleanup = Guaranteed {
        engine: Arc::clone(call.session().engine()),
        job: Some(Job::Exact {
            path: wire.clone(),
            czxid: stat.czxid,
            version,
            is_ephemeral: false,
        }),
    };
    let result = match czxid {
        Some(czxid) => delete_exactly(call, path, version, czxid).await,
        None => delete_one(call, path, version).await,
    };
    if result
        .as_ref()
        .map_or_else(|error| error.class() == ErrorClass::Outcome, |()| true)
    {
        cleanup.job = None;
    }
    result
}

/// Hands the deletion to the session when its call ends without it.
struct Guaranteed {
    engine: Arc<Engine>,
    job: Option<Job>,
}

impl Drop for Guaranteed {
    fn drop(&mut self) {
        if let Some(job) = self.job.take() {
            self.engine.clean_up(job);
        }
    }
}

async fn list(call: &Call, path: &NodePath) -> Result<Vec<String>, Error> {
    let request = Request::List {
        path: call.wire(path),
        watch: false,
    };
    call.read(path, &request, |response| match response {
        Response::Children { names, .. } => Some(names),
        _ => None,
    })
    .await
}

async fn delete_tree(call: &Call, root: &NodePath) -> Result<(), Error> {
    for round in 0..MOST_ROUNDS {
        let Some(nodes) = collect_tree(call, root).await? else {
            return if round == 0 {
                Err(call.error(root, ErrorKind::NoNode).attempts_made(1))
            } else {
                Ok(())
            };
        };
        let mut is_gone = true;
        // Deepest first. Requests of one session are carried out in the order they are sent, so that a parent may
        // follow its children without waiting for their answers.
        let deepest_first: Vec<_> = nodes.iter().rev().collect();
        for batch in deepest_first.chunks(BATCH) {
            let requests = batch.iter().map(|path| delete_one(call, path, None));
            for result in join_all(requests).await {
                match result.map_err(|error| (error.kind(), error)) {
                    Ok(()) | Err((ErrorKind::NoNode, _)) => {}
                    Err((ErrorKind::NotEmpty, _)) => is_gone = false,
                    Err((_, error)) => return Err(error),
                }
            }
        }
        if is_gone {
            return Ok(());
        }
    }
    Err(call
        .error(root, ErrorKind::NotEmpty)
        .attempts_made(MOST_ROUNDS)
        .detail("new nodes keep appearing below it"))
}

/// The node and all below it, each after its parent; `None` when the node itself does not exist.
async fn collect_tree(call: &Call, root: &NodePath) -> Result<Option<Vec<NodePath>>, Error> {
    let mut nodes = vec![root.clone()];
    let mut listed = 0;
    while listed < nodes.len() {
        let batch = listed..nodes.len().min(listed + BATCH);
        let requests = nodes[batch.clone()].iter().map(|path| list(call, path));
        let answers = join_all(requests).await;
        for (at, answer) in batch.clone().zip(answers) {
            match answer {
                Ok(names) => {
                    let parent = nodes[at].clone();
                    nodes.extend(names.iter().map(|name| parent.child(name)));
                }
                Err(error) if error.is_no_node() && at == 0 => return Ok(None),
                Err(error) if error.is_no_node() => {}
                Err(error) => return Err(error),
            }
        }
        listed = batch.end;
    }
    Ok(Some(nodes))
}

/// How many requests are in flight at once.
const BATCH: usize = 64;
/// How often nodes that appear meanwhile are gone after.
const MOST_ROUNDS: u32 = 16;
