//! Changing data.

use std::time::Duration;

use super::OperationFuture;
use super::Target;
use super::check_size;
use crate::call::Call;
use crate::call::Repeat;
use crate::error::Error;
use crate::error::ErrorKind;
use crate::error::Operation;
use crate::outcome::Verdict;
use crate::outcome::judge_set;
use crate::path::NodePath;
use crate::stat::Stat;
use crate::transport::Request;
use crate::transport::Response;

/// Replaces the data of a node; made by [`Session::set`](crate::Session::set).
///
/// The answer is the node's stat after the change.
///
/// # After a lost answer
///
/// A write without a version is repeated, which may overwrite what others wrote in between.
/// A write with a version is repeated, too; if the version is another one then, the node tells whether it was this call
/// that changed it: other data says no, the same data says yes if it is [`idempotent`](Self::idempotent), and otherwise
/// nobody can tell.
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
/// One round trip.
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
            check_size(&call, &path, &data, 0)?;
            let request = Request::Set {
                path: call.wire(&path),
                data: data.as_slice().into(),
                version,
            };
            let answer = call
                .request(&path, Repeat::Write, &request, Response::set)
                .await;
            match (answer.result, version) {
                (Err(error), Some(version))
                    if answer.was_in_doubt && error.kind() == ErrorKind::BadVersion =>
                {
                    judge(&call, &path, &data, version, is_idempotent, error).await
                }
                (Err(error), _) if answer.was_in_doubt => Err(error.maybe_applied()),
                (result, _) => result,
            }
        })
    }
}

/// Finds out whether it was this call that changed the version.
async fn judge(
    call: &Call,
    path: &NodePath,
    data: &[u8],
    expected: i32,
    is_idempotent: bool,
    bad_version: Error,
) -> Result<Stat, Error> {
    let get = Request::Get {
        path: call.wire(path),
        watch: false,
    };
    let (found, stat) = match call.read(path, &get, Response::data).await {
        Ok(found) => found,
        Err(error) => return Err(error.maybe_applied()),
    };
    match judge_set(data, expected, is_idempotent, (&found, &stat)) {
        Verdict::Ours => Ok(stat),
        Verdict::NotOurs => Err(bad_version),
        Verdict::Unknown => Err(call
            .error(path, ErrorKind::OutcomeUnknown)
            .attempts_made(bad_version.attempts())
            .detail("the node has changed, and nothing tells whether this call changed it")),
    }
}
