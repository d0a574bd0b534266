//! Creates a node under a unique name and deletes another one, in one transaction.
//!
//! The deletion makes the transaction safe to repeat: the leader commits at most one of all attempts, because only one
//! can delete the node. If a reply is lost, the unique name of the new node shows whether it was committed, as for a
//! [`protected`] create.

use zk_wire::{NodePath, Stat};

use super::{Create, Prepared, prepare, protected};
use crate::call::{Call, Repeat};
use crate::engine::cleanup::{CleanupOnDrop, Job};
use crate::error::{Error, ErrorKind, Operation};
use crate::operation::OperationFuture;
use crate::transport::{MultiOp, MultiResult, Request, Response};

impl Create {
    /// Creates the node under a unique name, and deletes `old`, a path on the wire, in the same transaction.
    ///
    /// If this is dropped or fails with an unknown outcome, the new node is removed in the background if it was created.
    pub(crate) fn replacing(self, old: NodePath) -> OperationFuture<(NodePath, Stat)> {
        let Self {
            target,
            data,
            options,
            acl,
        } = self.protected();
        target.run(Operation::Create, async move |call, path| {
            if options.parents.is_some() {
                let error = call.error(&path, ErrorKind::InvalidArgument);
                return Err(error.detail("parents are not created together with a replacement"));
            }
            let prepared = prepare(&call, &path, data, options, acl)?;
            let (made, stat) = replace(&call, prepared, old).await?;
            Ok((call.session().defaults().unwire(&made), stat))
        })
    }
}

/// Returns the path on the wire.
async fn replace(call: &Call, new: Prepared, old: NodePath) -> Result<(NodePath, Stat), Error> {
    let Prepared {
        path,
        request,
        unique_name,
    } = new;
    let prefix = unique_name.expect("the node is protected");
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
    let delete = MultiOp::Delete {
        path: old,
        version: None,
    };
    let transaction = Request::Multi(vec![delete, MultiOp::Create2(request)]);
    let mut attempts = 0;
    let mut in_doubt = false;
    loop {
        attempts += 1;
        let answer = call
            .request(&path, Repeat::Never, &transaction, created)
            .await;
        let error = match answer.result {
            Ok((made, Some(stat))) => {
                cleanup.job = None;
                return Ok((made, stat));
            }
            Ok((made, None)) => {
                let stat = read_stat(call, &path, &made).await?;
                cleanup.job = None;
                return Ok((made, stat));
            }
            Err(error) => error,
        };
        if !error.is_outcome_unknown() && !in_doubt {
            cleanup.job = None;
            return Err(error);
        }
        // An earlier attempt may have deleted the node.
        let is_gone = error.failed_part() == Some(0) && error.is_no_node();
        if error.is_fatal() || !error.is_outcome_unknown() && !is_gone {
            return Err(error.maybe_applied());
        }
        in_doubt = true;
        match protected::find(call, &path, &parent, &prefix, is_ephemeral).await {
            Ok(Some(found)) => {
                tracing::debug!(path = %found.0, "found the node whose creation was in doubt");
                cleanup.job = None;
                return Ok(found);
            }
            // Another client has deleted one of the two nodes.
            Ok(None) if is_gone => return Err(error),
            Ok(None) => {}
            Err(found) if found.is_fatal() => return Err(found.maybe_applied()),
            Err(_) => return Err(error.maybe_applied()),
        }
        if !call.may_try_again(attempts).await {
            return Err(error);
        }
    }
}

/// Extracts the new node.
fn created(response: Response) -> Option<(NodePath, Option<Stat>)> {
    let Response::Committed(results) = response else {
        return None;
    };
    results.into_iter().find_map(|result| match result {
        MultiResult::Created { path, stat } => Some((path, stat)),
        _ => None,
    })
}

/// Reads the stat of the new node, which servers before 3.8.1 do not report (ZOOKEEPER-4026).
async fn read_stat(call: &Call, path: &NodePath, made: &NodePath) -> Result<Stat, Error> {
    let exists = Request::Exists {
        path: made.clone(),
        watch: false,
    };
    let stat = |response| match response {
        Response::Stat { stat, .. } => Some(stat),
        _ => None,
    };
    match call.read(path, &exists, stat).await {
        Ok(Some(stat)) => Ok(stat),
        Ok(None) => Err(call
            .error(path, ErrorKind::NoNode)
            .detail("another client has deleted the new node")
            .maybe_applied()),
        Err(error) => Err(error.maybe_applied()),
    }
}
