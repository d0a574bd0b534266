//! Deleting nodes.

use std::time::Duration;

use zk_wire::{NodePath, Stat};

use super::request_checks::check_version;
use super::target::{OperationFuture, Target};
use crate::call::{Call, Repeat, WriteOutcome};
use crate::engine::cleanup::{CleanupOnDrop, Job};
use crate::error::{Error, ErrorClass, ErrorKind, Operation};
use crate::join_all::join_all;
use crate::outcome::{Verdict, judge_delete};
use crate::transport::{Request, Response, child_of};

/// Deletes a node; created by [`Session::delete`](crate::Session::delete).
///
/// # After a lost reply
///
/// The session reads the node once the server has caught up. If it is gone, the call succeeds, even if another client
/// deleted it. If the node existed before, the deletion is repeated.
/// A node that may have been created in between is not deleted, and the error is
/// [`OutcomeUnknown`](ErrorKind::OutcomeUnknown). This applies to any node that is newer than the last reply that this
/// session received before.
/// A [recursive](Self::recursive) delete continues instead, because it also deletes nodes that appear meanwhile.
///
/// # Errors
///
/// [`NoNode`](ErrorKind::NoNode), [`NotEmpty`](ErrorKind::NotEmpty), [`BadVersion`](ErrorKind::BadVersion),
/// [`NoAuth`](ErrorKind::NoAuth).
/// [`OutcomeUnknown`](ErrorKind::OutcomeUnknown) if the request was sent and no reply arrived.
/// A recursive delete that fails has deleted some of the nodes; [`Error::path`] is where it stopped.
///
/// # Cancel safety
///
/// Not safe after the first poll, because a request in flight cannot be recalled: the node may still be deleted. Repeat
/// the call; [`NoNode`](ErrorKind::NoNode) then means that it was deleted.
///
/// # Cost
///
/// One round trip, and one more to read the node after a lost reply. A recursive delete lists and deletes 64 nodes at a
/// time and keeps all paths below the node in memory.
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
    ///
    /// Version -1, which servers treat as any version, is refused with [`InvalidArgument`](ErrorKind::InvalidArgument).
    pub fn version(mut self, version: i32) -> Self {
        self.version = Some(version);
        self
    }

    /// Deletes the node only if this transaction created it: the [`czxid`](crate::Stat::czxid) of its stat.
    ///
    /// A node that replaced it is not deleted, and the error is [`NoNode`](ErrorKind::NoNode).
    /// The session first reads the node on a server that has caught up, which takes one more round trip, and deletes it
    /// with the version that it read. After a lost reply it reads the node again.
    /// A node that is replaced between the read and the deletion, by one that was written equally often, is not
    /// detected: ZooKeeper has no deletion by transaction.
    pub fn created_by(mut self, czxid: i64) -> Self {
        self.czxid = Some(czxid);
        self
    }

    /// Deletes everything below the node first.
    ///
    /// This is not atomic: other clients see the tree shrink.
    /// Nodes that disappear meanwhile are no error. Nodes that appear meanwhile are deleted too, for a bounded number
    /// of rounds; then the error is [`NotEmpty`](ErrorKind::NotEmpty).
    pub fn recursive(mut self) -> Self {
        self.recursive = true;
        self
    }

    /// Continues in the background if this call fails or is dropped before it has deleted the node.
    ///
    /// Neither this call nor the background task deletes a node that replaces the original one: both compare the
    /// transaction that created the node, as [`created_by`](Self::created_by) does.
    /// If the call is dropped before it has read the node, which takes one round trip, nothing is deleted.
    /// The background task ends with the session.
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
            check_version(&call, &path, version)?;
            match (recursive, version) {
                (true, Some(_)) => invalid("a recursive delete takes no version"),
                (true, None) if guaranteed => {
                    invalid("a recursive delete is not guaranteed; repeat it instead")
                }
                (true, None) if czxid.is_some() => {
                    invalid("a recursive delete takes no transaction")
                }
                (true, None) => delete_tree(&call, &path).await,
                (false, version) if guaranteed || czxid.is_some() => {
                    delete_exactly(&call, &path, version, czxid, guaranteed).await
                }
                (false, version) => delete_one(&call, &path, version).await,
            }
        })
    }
}

/// Deletes one node, whichever transaction made it.
async fn delete_one(call: &Call, path: &NodePath, version: Option<i32>) -> Result<(), Error> {
    let request = delete_request(call, path, version);
    call.write(path, request, Response::deleted, |seen| async move {
        let found = read_stat(call, path, true).await?;
        Ok(match judge_delete(seen, found.as_ref()) {
            Verdict::Applied | Verdict::SameEffect => WriteOutcome::Done(()),
            Verdict::NotApplied => WriteOutcome::NotApplied,
            Verdict::Unknown => {
                WriteOutcome::Unknown("a node is there that may have been made after the deletion")
            }
        })
    })
    .await
}

/// Deletes one node of a tree, and whatever has taken its place if it must be repeated.
async fn delete_any(call: &Call, path: &NodePath) -> Result<(), Error> {
    let request = delete_request(call, path, None);
    let answer = call
        .request(path, Repeat::Write, &request, Response::deleted)
        .await;
    match answer.result {
        Err(error) if answer.was_in_doubt && !error.is_no_node() => Err(error.maybe_applied()),
        result => result,
    }
}

/// Deletes the node that a transaction created, or the current one, in the background if necessary.
///
/// After a lost reply it reads the node again before it repeats the deletion, because another node with the version of
/// a fresh one may have replaced it. A lagging server may still show a replaced node, or not yet show an existing one.
/// Once a server has caught up, so has every server that the session moves to: a client sends a server the newest zxid
/// that it has seen, and a server that is behind refuses the client.
async fn delete_exactly(
    call: &Call,
    path: &NodePath,
    version: Option<i32>,
    czxid: Option<i64>,
    is_guaranteed: bool,
) -> Result<(), Error> {
    let no_node = |attempts| call.error(path, ErrorKind::NoNode).attempts_made(attempts);
    let Some(mut stat) = read_stat(call, path, false).await? else {
        return Err(no_node(1));
    };
    let czxid = czxid.unwrap_or(stat.czxid);
    if stat.czxid != czxid {
        return Err(no_node(1));
    }
    let mut cleanup = is_guaranteed.then(|| {
        let job = Job::Exact {
            path: call.wire(path),
            czxid,
            version,
            is_ephemeral: false,
        };
        CleanupOnDrop::new(call.session().cleanup(), job)
    });
    let mut attempts = 0;
    let result = loop {
        attempts += 1;
        let request = delete_request(call, path, Some(version.unwrap_or(stat.version)));
        let answer = call
            .request(path, Repeat::Never, &request, Response::deleted)
            .await;
        let Err(error) = answer.result else {
            break Ok(());
        };
        let in_doubt = error.is_outcome_unknown() && !error.is_fatal();
        // Another client has written to it since.
        let has_changed = error.kind() == ErrorKind::BadVersion && version.is_none();
        if !in_doubt && !has_changed || in_doubt && !call.may_try_again(attempts).await {
            break Err(error);
        }
        // Once the server has caught up, a deletion that was not applied never will be.
        let found = match read_stat(call, path, in_doubt).await {
            Ok(found) => found,
            Err(looking) if in_doubt => break Err(looking.maybe_applied()),
            Err(looking) => break Err(looking),
        };
        match (judge_delete(czxid, found.as_ref()), found) {
            (Verdict::NotApplied, Some(found)) => stat = found,
            _ if in_doubt => break Ok(()),
            _ => break Err(no_node(attempts)),
        }
    };
    if let Some(cleanup) = &mut cleanup
        && result
            .as_ref()
            .map_or_else(|error| error.class() == ErrorClass::Outcome, |()| true)
    {
        cleanup.job = None;
    }
    result
}

fn delete_request(call: &Call, path: &NodePath, version: Option<i32>) -> Request {
    Request::Delete {
        path: call.wire(path),
        version,
    }
}

/// Reads the node's stat on a server that has caught up.
async fn read_stat(call: &Call, path: &NodePath, in_doubt: bool) -> Result<Option<Stat>, Error> {
    let exists = Request::Exists {
        path: call.wire(path),
        watch: false,
    };
    let found = call.fresh(path, in_doubt, &exists, |response| match response {
        Response::Stat { stat, .. } => Some(stat),
        _ => None,
    });
    let found = found.await;
    let found = found.map_err(|error| error.refused_to(Operation::Exists))?;
    Ok(found.flatten())
}

async fn list(call: &Call, path: &NodePath) -> Result<Vec<String>, Error> {
    let request = Request::GetChildren2 {
        path: call.wire(path),
        watch: false,
    };
    let listed = call.read(path, &request, |response| match response {
        Response::Children { names, .. } => Some(names),
        _ => None,
    });
    let listed = listed.await;
    listed.map_err(|error| error.refused_to(Operation::List))
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
        // Deepest first. A server executes the requests of one session in order, so a parent may follow its children
        // without waiting for their replies.
        let deepest_first: Vec<_> = nodes.iter().rev().collect();
        for batch in deepest_first.chunks(BATCH) {
            let requests = batch.iter().map(|path| delete_any(call, path));
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
                    nodes.extend(names.iter().map(|name| child_of(&parent, name)));
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
/// How often the delete is repeated for nodes that were created meanwhile.
const MOST_ROUNDS: u32 = 16;
