//! Creating an ephemeral node under a name that others want as well.
//!
//! When the answer to a create is lost and a node of this session is there, its owner does not tell which of several
//! calls of the session has made it; its data does, if each call has data of its own.

use std::time::Duration;

use super::Create;
use super::OwnedNode;
use super::check_size;
use super::mode_of;
use super::parents;
use super::protected::Cleanup;
use crate::call::Call;
use crate::call::Repeat;
use crate::engine::cleanup;
use crate::engine::cleanup::Job;
use crate::error::Error;
use crate::error::ErrorKind;
use crate::error::Operation;
use crate::operation::OperationFuture;
use crate::operation::acl_bytes;
use crate::path::NodePath;
use crate::stat::Stat;
use crate::transport::CreateMode;
use crate::transport::CreateRequest;
use crate::transport::Request;
use crate::transport::Response;

/// Creates an ephemeral node unless one is there, and answers a handle that removes it; made by [`Create::claimed`].
///
/// # Errors
///
/// As [`Create`] has them, but for [`NodeExists`](ErrorKind::NodeExists), which is no error here.
///
/// # Cancel safety
///
/// Safe: what was made, or will be by a request that has left, is removed in the background, and a node of anybody else
/// is not.
///
/// # Session loss
///
/// A fatal error.
///
/// # Cost
///
/// As [`Create`] has it.
#[derive(Debug, Clone)]
#[must_use = "nothing is created until it is awaited"]
pub struct CreateClaimed {
    create: Create,
}

impl CreateClaimed {
    pub(super) fn new(create: Create) -> Self {
        Self { create }
    }

    /// Bounds the whole call; the default is the operation timeout of the session's view.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.create = self.create.timeout(timeout);
        self
    }
}

impl IntoFuture for CreateClaimed {
    type Output = Result<Option<OwnedNode>, Error>;
    type IntoFuture = OperationFuture<Option<OwnedNode>>;

    fn into_future(self) -> Self::IntoFuture {
        let Create {
            target,
            data,
            options,
            acl,
        } = self.create;
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
            let request = CreateRequest {
                path: call.wire(&path),
                data,
                mode,
                acl,
            };
            let claimed = claim(&call, &path, request, options.parents).await?;
            Ok(claimed.map(|stat| OwnedNode::claimed(call.session().clone(), path, stat)))
        })
    }
}

/// Creates the node, and finds out whose it is when the answer is lost.
///
/// If this is dropped, or fails without knowing, what may have been made is removed in the background.
async fn claim(
    call: &Call,
    path: &NodePath,
    request: CreateRequest,
    parents: Option<CreateMode>,
) -> Result<Option<Stat>, Error> {
    let mut cleanup = Cleanup::new(
        call,
        Job::Claimed {
            path: request.path.clone(),
            data: request.data.clone(),
        },
    );
    let mut rounds = 0;
    let mut attempts = 0;
    let mut in_doubt = false;
    loop {
        attempts += 1;
        let create = Request::Create(request.clone());
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
            && rounds < super::MOST_ROUNDS
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
        let found = call.until_told(path, || async move {
            cleanup::find_claimed(engine, &wanted.path, &wanted.data).await
        });
        match found.await {
            Ok(Some(stat)) => {
                tracing::debug!(%path, "found the node whose creation was in doubt");
                cleanup.job = None;
                return Ok(Some(stat));
            }
            // Somebody else's. What is in doubt is still looked after in the background.
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
