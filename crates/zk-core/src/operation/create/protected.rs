//! Creates a node under a unique name.
//!
//! If the reply to a create is lost, the name shows whether the node was created. ZooKeeper's own lock recipe does not
//! handle this case (ZOOKEEPER-1262). Curator's protection handles it, except that it searches for the node without
//! making the server catch up first.

use zk_wire::{NodePath, Stat};

use super::parents;
use crate::call::{Call, Repeat};
use crate::engine::cleanup::{self, CleanupOnDrop, Job};
use crate::engine::fresh_read;
use crate::error::Error;
use crate::transport::{CreateMode, NewNode, Request, Response};

/// Creates the node, or finds it if the reply is lost. Returns the path on the wire.
///
/// `prefix` is the unique name, without the number that the server may append.
///
/// If this is dropped or fails with an unknown outcome, the node is removed in the background if it was created.
pub(super) async fn create(
    call: &Call,
    path: &NodePath,
    request: NewNode,
    prefix: String,
    parents: Option<CreateMode>,
) -> Result<(NodePath, Stat), Error> {
    let is_ephemeral = request.mode.is_ephemeral();
    let parent = request.path.parent().unwrap_or_else(NodePath::root);
    let mut cleanup = CleanupOnDrop::new(
        call.session().cleanup(),
        Job::Abandoned {
            parent: parent.clone(),
            prefix: prefix.clone(),
            is_ephemeral,
        },
    );
    let mut rounds = 0;
    let mut missing_parents = None;
    let mut attempts = 0;
    let mut was_in_doubt = false;
    loop {
        attempts += 1;
        let create = Request::Create2(request.clone());
        // The parent is sent first, and the node follows it in the same flight.
        let (parents_created, answer) = tokio::join!(
            biased;
            create_parents(call, &request, missing_parents.take()),
            call.request(path, Repeat::Never, &create, Response::created),
        );
        let error = match answer.result {
            Ok((made, stat)) => {
                if was_in_doubt {
                    remove_twins(call, path, &parent, &prefix, &made).await?;
                }
                cleanup.job = None;
                return Ok((made, stat));
            }
            Err(error) => error,
        };
        if error.is_no_node()
            && rounds < parents::MOST_ROUNDS
            && let Some(mode) = parents
        {
            parents_created?;
            rounds += 1;
            missing_parents = Some(mode);
            continue;
        }
        if !error.is_outcome_unknown() {
            if attempts == 1 {
                cleanup.job = None;
            }
            return Err(error);
        }
        if error.is_fatal() {
            return Err(error);
        }
        was_in_doubt = true;
        match find(call, path, &parent, &prefix, is_ephemeral).await {
            Ok(Some(found)) => {
                tracing::debug!(path = %found.0, "found the node whose creation was in doubt");
                cleanup.job = None;
                return Ok(found);
            }
            Ok(None) => {}
            // The first error says more than one about looking for its node; but a lost session is a lost session.
            Err(found) if found.is_fatal() => return Err(found.maybe_applied()),
            Err(_) => return Err(error),
        }
        if !call.may_try_again(attempts).await {
            return Err(error);
        }
    }
}

/// Creates the missing parents of a node in this mode, if one is given.
async fn create_parents(
    call: &Call,
    node: &NewNode,
    mode: Option<CreateMode>,
) -> Result<(), Error> {
    match mode {
        Some(mode) => parents::create(call, node, mode).await,
        None => Ok(()),
    }
}

/// Removes nodes that earlier attempts may have created nevertheless: a contender that waits for its own first node
/// would wait forever, and so would every contender behind it.
///
/// An earlier "not found" was reliable only if both requests of the search went to one server. The search decides that
/// by the breaks of the link, which another task records a moment after they happen.
async fn remove_twins(
    call: &Call,
    path: &NodePath,
    parent: &NodePath,
    prefix: &str,
    made: &NodePath,
) -> Result<(), Error> {
    let engine = call.engine();
    call.until_settled(path, || async move {
        for twin in fresh_read::find(engine, parent, prefix).await? {
            if twin != *made {
                tracing::warn!(%twin, "removing a second node of one create");
                cleanup::delete(engine, &twin, None).await?;
            }
        }
        Ok(())
    })
    .await
}

/// Searches for the node on a server that has caught up, until the deadline of the call.
pub(super) async fn find(
    call: &Call,
    path: &NodePath,
    parent: &NodePath,
    prefix: &str,
    is_ephemeral: bool,
) -> Result<Option<(NodePath, Stat)>, Error> {
    let engine = call.engine();
    let session = engine.transport().session_id();
    call.until_settled(path, || async move {
        for found in fresh_read::find(engine, parent, prefix).await? {
            let request = Request::Exists {
                path: found.clone(),
                watch: false,
            };
            let stat = match engine.send(request).await? {
                Response::Stat { stat, .. } => stat,
                other => return Err(other.unexpected()),
            };
            // The name is unique, but a node that will be deleted with another session is not ours.
            if let Some(stat) = stat
                && (!is_ephemeral || stat.ephemeral_owner == Some(session))
            {
                return Ok(Some((found, stat)));
            }
        }
        Ok(None)
    })
    .await
}
