//! Reading and writing access rules.

use std::time::Duration;

use zk_wire::{Acl, NodePath, Stat};

use super::request_checks::{acl_bytes, check_size, check_version};
use super::target::{OperationFuture, Target, operations};
use crate::call::{Call, WriteOutcome};
use crate::error::{Error, ErrorKind, Operation};
use crate::outcome::{Verdict, judge_acl};
use crate::transport::{Request, Response};

operations! {
    GetAcl => GetAcl get_acl -> (Acl, Stat);
}

/// Reads the access rules of a node; created by [`Session::acl`](crate::Session::acl).
///
/// # Errors
///
/// [`NoNode`](ErrorKind::NoNode), [`NoAuth`](ErrorKind::NoAuth).
#[derive(Debug, Clone)]
#[must_use = "nothing is read until it is awaited"]
pub struct GetAcl {
    target: Target,
}

async fn get_acl(call: Call, path: NodePath) -> Result<(Acl, Stat), Error> {
    let request = Request::GetAcl {
        path: call.wire(&path),
    };
    call.read(&path, &request, rules).await
}

/// Replaces the access rules of a node; created by [`Session::set_acl`](crate::Session::set_acl).
///
/// Returns the node's stat after the change.
///
/// # After a lost reply
///
/// The rules are read, once the server has caught up.
/// The change is repeated if their version shows that they are unchanged: it is the required version or, without one,
/// the version of rules that were never changed.
/// Without a required version the change succeeded if the rules are those of this call, even if another client set
/// them. Otherwise the outcome is unknown, and the error is [`OutcomeUnknown`](ErrorKind::OutcomeUnknown): a repetition
/// never replaces rules that another client has set in between.
///
/// # Errors
///
/// [`NoNode`](ErrorKind::NoNode), [`BadVersion`](ErrorKind::BadVersion), [`NoAuth`](ErrorKind::NoAuth),
/// [`InvalidAcl`](ErrorKind::InvalidAcl), [`TooLarge`](ErrorKind::TooLarge).
/// [`OutcomeUnknown`](ErrorKind::OutcomeUnknown) if the request was sent and no reply arrived.
///
/// # Cancel safety
///
/// Not safe after the first poll, because a request in flight cannot be recalled: the rules may still change. Read them
/// afterwards.
///
/// # Cost
///
/// One round trip; after a lost reply one more to read the rules, which requires the READ or ADMIN permission.
#[derive(Debug, Clone)]
#[must_use = "nothing is written until it is awaited"]
pub struct SetAcl {
    target: Target,
    acl: Acl,
    version: Option<i32>,
}

impl SetAcl {
    pub(crate) fn new(target: Target, acl: Acl) -> Self {
        Self {
            target,
            acl,
            version: None,
        }
    }

    /// Writes only if the rules have this version ([`Stat::aversion`]) now; by default any.
    ///
    /// Version -1, which servers take for any, is refused with [`InvalidArgument`](ErrorKind::InvalidArgument).
    pub fn version(mut self, version: i32) -> Self {
        self.version = Some(version);
        self
    }

    /// Bounds the whole call; the default is the session's operation timeout.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.target.timeout(timeout);
        self
    }
}

impl IntoFuture for SetAcl {
    type Output = Result<Stat, Error>;
    type IntoFuture = OperationFuture<Stat>;

    fn into_future(self) -> Self::IntoFuture {
        let Self {
            target,
            acl,
            version,
        } = self;
        target.run(Operation::SetAcl, async move |call, path| {
            if acl.entries().is_empty() {
                return Err(call
                    .error(&path, ErrorKind::InvalidAcl)
                    .detail("it has no entry"));
            }
            check_version(&call, &path, version)?;
            check_size(&call, &path, &[], acl_bytes(&acl))?;
            let request = Request::SetAcl {
                path: call.wire(&path),
                acl: acl.clone(),
                version,
            };
            let (call, path, acl) = (&call, &path, &acl);
            call.write(path, request, Response::set, |seen| async move {
                let get = Request::GetAcl {
                    path: call.wire(path),
                };
                let Some((found, stat)) = call.fresh(path, true, &get, rules).await? else {
                    // They may have been changed before the node was deleted.
                    let gone = call.error(path, ErrorKind::NoNode).maybe_applied();
                    return Ok(WriteOutcome::Refused(gone));
                };
                Ok(match judge_acl(acl, version, seen, (&found, &stat)) {
                    Verdict::Applied | Verdict::SameEffect => WriteOutcome::Done(stat),
                    Verdict::NotApplied => WriteOutcome::NotApplied,
                    Verdict::Unknown => WriteOutcome::Unknown(
                        "the rules have changed, and they do not show whether this call changed them",
                    ),
                })
            })
            .await
        })
    }
}

fn rules(response: Response) -> Option<(Acl, Stat)> {
    match response {
        Response::Acl { acl, stat } => Some((acl, stat)),
        _ => None,
    }
}
