//! Changing data.

use std::time::Duration;

use zk_wire::{NodePath, Stat};

use super::request_checks::{check_size, check_version};
use super::target::{OperationFuture, Target};
use crate::call::{Call, WriteOutcome};
use crate::error::{Error, ErrorKind, Operation};
use crate::outcome::{ANY_VERSION, Verdict, judge_overwrite, judge_set};
use crate::transport::{MultiOp, MultiResult, NodeData, Request, Response};

/// Replaces the data of a node; created by [`Session::set`](crate::Session::set).
///
/// Returns the node's stat after the change.
///
/// # After a lost reply
///
/// The session reads the node once the server has caught up:
///
/// | the node | a write without a version | a write with one |
/// |---|---|---|
/// | was not written since the last reply that this session received before | is repeated | is repeated |
/// | has the data of this call | is done, even if another client wrote it | with the next version it is done if it is [`idempotent`](Self::idempotent); otherwise [`OutcomeUnknown`](ErrorKind::OutcomeUnknown) |
/// | has other data | [`OutcomeUnknown`](ErrorKind::OutcomeUnknown) | [`BadVersion`](ErrorKind::BadVersion) with the next version, otherwise [`OutcomeUnknown`](ErrorKind::OutcomeUnknown) |
///
/// A repetition therefore never overwrites what another client has written in between.
/// If the last writer may win, call again after [`OutcomeUnknown`](ErrorKind::OutcomeUnknown).
/// A session that has not read or written anything recently cannot distinguish an older change from one in between.
///
/// # Errors
///
/// [`NoNode`](ErrorKind::NoNode), [`BadVersion`](ErrorKind::BadVersion), [`NoAuth`](ErrorKind::NoAuth),
/// [`TooLarge`](ErrorKind::TooLarge).
/// [`OutcomeUnknown`](ErrorKind::OutcomeUnknown) if the request was sent and the node does not show its outcome.
///
/// # Cancel safety
///
/// Not safe after the first poll, because a request in flight cannot be recalled: the data may still change. Read the
/// node afterwards.
///
/// # Cost
///
/// One round trip; after a lost reply one more to read the node, which requires the READ permission.
#[derive(Debug, Clone)]
#[must_use = "nothing is written until it is awaited"]
pub struct Set {
    target: Target,
    data: Vec<u8>,
    version: Option<i32>,
    is_idempotent: bool,
}

impl Set {
    pub(crate) fn new(target: Target, data: Vec<u8>) -> Self {
        Self {
            target,
            data,
            version: None,
            is_idempotent: false,
        }
    }

    /// Writes only if the data has this version now; by default any.
    ///
    /// Version -1, which servers take for any, is refused with [`InvalidArgument`](ErrorKind::InvalidArgument); other
    /// negative ones occur, since versions wrap around.
    pub fn version(mut self, version: i32) -> Self {
        self.version = Some(version);
        self
    }

    /// Says that the data names its writer, so that a node that has exactly this data and the next version is taken
    /// for the work of this call when an answer was lost.
    ///
    /// Of use with [`version`](Self::version) only.
    pub fn idempotent(mut self) -> Self {
        self.is_idempotent = true;
        self
    }

    /// Bounds the whole call; the default is the session's operation timeout.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.target.timeout(timeout);
        self
    }
}

impl IntoFuture for Set {
    type Output = Result<Stat, Error>;
    type IntoFuture = OperationFuture<Stat>;

    fn into_future(self) -> Self::IntoFuture {
        let Self {
            target,
            data,
            version,
            is_idempotent,
        } = self;
        target.run(Operation::Set, async move |call, path| {
            check_version(&call, &path, version)?;
            check_size(&call, &path, &data, 0)?;
            let data = data.into();
            set(&call, &path, data, version, is_idempotent).await
        })
    }
}

/// Replaces the data of the node at `path`, if it has this version.
///
/// Here version -1 is a version like any other; see [`conditional_set`].
pub(crate) async fn set(
    call: &Call,
    path: &NodePath,
    data: NodeData,
    version: Option<i32>,
    is_idempotent: bool,
) -> Result<Stat, Error> {
    let request = if version == Some(ANY_VERSION) {
        Request::Multi(conditional_set(call.wire(path), data.clone(), ANY_VERSION))
    } else {
        Request::SetData {
            path: call.wire(path),
            data: data.clone(),
            version,
        }
    };
    let data = data.as_slice();
    call.write(path, request, first_set, |seen| async move {
        let get = Request::GetData {
            path: call.wire(path),
            watch: false,
        };
        let Some((found, stat)) = call.fresh(path, true, &get, Response::data).await? else {
            // It may have been written before it was deleted.
            let gone = call.error(path, ErrorKind::NoNode).maybe_applied();
            return Ok(WriteOutcome::Refused(gone));
        };
        let verdict = match version {
            None => judge_overwrite(data, seen, (&found, &stat)),
            Some(version) => judge_set(data, version, seen, (&found, &stat)),
        };
        Ok(match (verdict, version) {
            (Verdict::SameEffect, None) => WriteOutcome::Done(stat),
            (Verdict::SameEffect, Some(_)) if is_idempotent => WriteOutcome::Done(stat),
            (Verdict::NotApplied, Some(version)) if stat.version != version => {
                WriteOutcome::Refused(call.error(path, ErrorKind::BadVersion))
            }
            (Verdict::NotApplied, _) => WriteOutcome::NotApplied,
            _ => WriteOutcome::Unknown(
                "the node has changed, and its state does not show whether this call changed it",
            ),
        })
    })
    .await
}

/// Returns the parts of a transaction that replaces the data of a node only if it has exactly this version.
///
/// Servers without ZOOKEEPER-4743 count from -2 to -1, and treat -1 in a request as any version. To require that version,
/// the data is replaced whatever the version, and has to have version 0 then: each part sees the effects of the ones
/// before it, and nothing is changed if one of them is refused.
pub(super) fn conditional_set(path: NodePath, data: NodeData, version: i32) -> Vec<MultiOp> {
    if version != ANY_VERSION {
        let version = Some(version);
        return vec![MultiOp::SetData {
            path,
            data,
            version,
        }];
    }
    let set = MultiOp::SetData {
        path: path.clone(),
        data,
        version: None,
    };
    let version = Some(version.wrapping_add(1));
    vec![set, MultiOp::Check { path, version }]
}

/// Returns the stat of a node whose data was replaced, alone or as the first part of a transaction.
fn first_set(response: Response) -> Option<Stat> {
    match response {
        Response::Committed(results) => match results.into_iter().next()? {
            MultiResult::Set(stat) => Some(stat),
            _ => None,
        },
        other => other.set(),
    }
}
