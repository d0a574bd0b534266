//! Changing data.

use std::time::Duration;

use super::OperationFuture;
use super::Target;
use super::check_size;
use crate::call::Repeat;
use crate::error::Error;
#[cfg(doc)]
use crate::error::ErrorKind;
use crate::error::Operation;
use crate::stat::Stat;

/// Replaces the data of a node; made by [`Session::set`](crate::Session::set).
///
/// The answer is the node's stat after the change.
///
/// # Errors
///
/// [`NoNode`](ErrorKind::NoNode), [`BadVersion`](ErrorKind::BadVersion), [`NoAuth`](ErrorKind::NoAuth),
/// [`TooLarge`](ErrorKind::TooLarge).
/// [`OutcomeUnknown`](ErrorKind::OutcomeUnknown) when the request was sent and no answer came.
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
}

impl Set {
    pub(crate) fn new(target: Target, data: Vec<u8>) -> Self {
        Self {
            target,
            data,
            version: None,
        }
    }

    /// Writes only if the data has this version now; by default any.
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

impl IntoFuture for Set {
    type Output = Result<Stat, Error>;
    type IntoFuture = OperationFuture<Stat>;

    fn into_future(self) -> Self::IntoFuture {
        let Self {
            target,
            data,
            version,
        } = self;
        target.run(Operation::Set, async move |call, path| {
            check_size(&call, &path, &data, 0)?;
            call.request(&path, Repeat::Never, |wire| wire.set(&path, &data, version))
                .await
        })
    }
}
