//! Changing data.

use std::time::Duration;

use super::OperationFuture;
use super::Target;
use super::check_size;
use super::check_version;
use crate::call::Call;
use crate::call::Fate;
use crate::error::Error;
use crate::error::ErrorKind;
use crate::error::Operation;
use crate::outcome::Verdict;
use crate::outcome::judge_overwrite;
use crate::outcome::judge_set;
use crate::path::NodePath;
use crate::stat::Stat;
use crate::transport::Bytes;
use crate::transport::Request;
use crate::transport::Response;

/// Replaces the data of a node; made by [`Session::set`](crate::Session::set).
///
/// The answer is the node's stat after the change.
///
/// # After a lost answer
///
/// The node is read, once the server has caught up:
///
/// | the node | a write without a version | a write with one |
/// |---|---|---|
/// | was not written since the last answer that this session had before | is repeated | is repeated |
/// | has the data of this call | is done, even if another client wrote it | with the next version it is done if it is [`idempotent`](Self::idempotent); otherwise [`OutcomeUnknown`](ErrorKind::OutcomeUnknown) |
/// | has other data | [`OutcomeUnknown`](ErrorKind::OutcomeUnknown) | [`BadVersion`](ErrorKind::BadVersion) with the next version, otherwise [`OutcomeUnknown`](ErrorKind::OutcomeUnknown) |
///
/// So a repetition never overwrites what another client has written in between.
/// Where the last writer may win, call again after [`OutcomeUnknown`](ErrorKind::OutcomeUnknown).
/// A session that has not read, made or written anything lately cannot tell an older change from one that came in between.
///
/// # Errors
///
/// [`NoNode`](ErrorKind::NoNode), [`BadVersion`](ErrorKind::BadVersion), [`NoAuth`](ErrorKind::NoAuth),
/// [`TooLarge`](ErrorKind::TooLarge).
/// [`OutcomeUnknown`](ErrorKind::OutcomeUnknown) when the request was sent and nothing tells what became of it.
///
/// # Cancel safety
///
/// Not safe once it was polled, because a request that has left cannot be called back: the data may still change.
/// Read the node afterwards. Dropped before its first poll, nothing has happened.
///
/// # Session loss
///
/// A fatal error; [`Error::is_outcome_unknown`] tells whether the request was in flight.
///
/// # Cost
///
/// One round trip; after a lost answer one more to read the node, which takes the READ permission.
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
            let data = data.as_slice().into();
            set(&call, &path, data, version, is_idempotent).await
        })
    }
}

/// Replaces the data of the node at `path`.
pub(super) async fn set(
    call: &Call,
    path: &NodePath,
    data: Bytes,
    version: Option<i32>,
    is_idempotent: bool,
) -> Result<Stat, Error> {
    let request = Request::Set {
        path: call.wire(path),
        data: data.clone(),
        version,
    };
    let data = data.as_slice();
    call.write(path, request, Response::set, |seen| async move {
        let get = Request::Get {
            path: call.wire(path),
            watch: false,
        };
        let Some((found, stat)) = call.fresh(path, true, &get, Response::data).await? else {
            // It may have been written before it was deleted.
            let gone = call.error(path, ErrorKind::NoNode).maybe_applied();
            return Ok(Fate::Refused(gone));
        };
        let verdict = match version {
            None => judge_overwrite(data, seen, (&found, &stat)),
            Some(version) => judge_set(data, version, is_idempotent, seen, (&found, &stat)),
        };
        Ok(match (verdict, version) {
            (Verdict::Ours, _) => Fate::Done(stat),
            (Verdict::NotOurs, Some(version)) if stat.version != version => {
                Fate::Refused(call.error(path, ErrorKind::BadVersion))
            }
            (Verdict::NotOurs, _) => Fate::NotApplied,
            (Verdict::Unknown, _) => Fate::Unknown(
                "the node has changed, and nothing tells whether this call changed it",
            ),
        })
    })
    .await
}
