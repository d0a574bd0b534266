//! Creates an ephemeral node under a name that other clients use too.
//!
//! If the reply to a create is lost and a node of this session exists, its owner does not show which call of the
//! session created it. Its data does, if each call writes different data. A node that was there before the call is not its
//! node in any case.

use zk_wire::{NodePath, Stat};

use super::options::mode_of;
use super::{Create, parents};
use crate::call::{Call, Repeat};
use crate::engine::cleanup::{CleanupOnDrop, Job};
use crate::engine::fresh_read;
use crate::error::{Error, ErrorKind, Operation};
use crate::operation::request_checks::{acl_bytes, check_size};
use crate::operation::target::OperationFuture;
use crate::transport::{CreateMode, NewNode, Request, Response};

impl Create {
    /// Creates an ephemeral node, or returns `None` if another node exists there.
    pub(crate) fn claim(self) -> OperationFuture<Option<(NodePath, Stat)>> {
        let Self {
            target,
            data,
            options,
            acl,
        } = self;
        target.run(Operation::Create, async move |call, path| {
            let invalid =
                |rule: &str| Err(call.error(&path, ErrorKind::InvalidArgument).detail(rule));
            if path.is_root() {
                return invalid("the root always exists");
            }
            if options.protected || options.sequential {
                return invalid("a claimed node has the name that was given");
            }
            let mode = match mode_of(options) {
                Ok(mode) => mode,
                Err(rule) => return invalid(rule),
            };
            if acl.entries().is_empty() {
                return Err(call
                    .error(&path, ErrorKind::InvalidAcl)
                    .detail("it has no entry"));
            }
            check_size(&call, &path, data.as_slice(), acl_bytes(&acl))?;
            let request = NewNode {
                path: call.wire(&path),
                data,
                mode,
                acl,
            };
            let claimed = claim(&call, &path, request, options.parents).await?;
            Ok(claimed.map(|stat| (path, stat)))
        })
    }
}

/// Creates the node, and determines after a lost reply whether this call created it.
///
/// If this is dropped, or the outcome is unknown, a node that may have been created is removed in the background.
async fn claim(
    call: &Call,
    path: &NodePath,
    request: NewNode,
    parents: Option<CreateMode>,
) -> Result<Option<Stat>, Error> {
    let seen = call.engine().newest_zxid();
    let mut cleanup = CleanupOnDrop::new(
        call.session().cleanup(),
        Job::Claimed {
            path: request.path.clone(),
            data: request.data.clone(),
            seen,
        },
    );
    let mut rounds = 0;
    let mut attempts = 0;
    let mut in_doubt = false;
    loop {
        attempts += 1;
        let create = Request::Create2(request.clone());
        let answer = call
            .request(path, Repeat::Never, &create, Response::created)
            .await;
        let error = match answer.result {
            Ok((_, stat)) => {
                cleanup.job = None;
                return Ok(Some(stat));
            }
            Err(error) => error,
        };
        if error.is_no_node()
            && rounds < parents::MOST_ROUNDS
            && let Some(mode) = parents
        {
            rounds += 1;
            parents::create(call, &request, mode).await?;
            continue;
        }
        let is_there = error.is_node_exists();
        if !in_doubt && !error.is_outcome_unknown() {
            cleanup.job = None;
            return if is_there { Ok(None) } else { Err(error) };
        }
        if error.is_fatal() || !(is_there || error.is_outcome_unknown()) {
            return Err(error);
        }
        in_doubt = true;
        let engine = call.engine();
        let wanted = &request;
        let found = call.until_settled(path, || async move {
            fresh_read::find_claimed(engine, &wanted.path, &wanted.data, seen).await
        });
        match found.await {
            Ok(Some(stat)) => {
                tracing::debug!(%path, "found the node whose creation was in doubt");
                cleanup.job = None;
                return Ok(Some(stat));
            }
            // It belongs to another client. The cleanup task still removes what this call may have created.
            Ok(None) if is_there => return Ok(None),
            Ok(None) => {}
            Err(found) if found.is_fatal() => return Err(found.maybe_applied()),
            Err(_) if is_there => return Err(call.error(path, ErrorKind::OutcomeUnknown)),
            Err(_) => return Err(error),
        }
        if !call.may_try_again(attempts).await {
            return Err(error);
        }
    }
}
