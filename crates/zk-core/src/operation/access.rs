//! Reading and writing access rules.

use std::time::Duration;

use super::OperationFuture;
use super::Target;
use super::check_size;
use crate::acl::Acl;
use crate::call::Repeat;
use crate::error::Error;
use crate::error::ErrorKind;
use crate::error::Operation;
use crate::stat::Stat;
use crate::transport::Request;
use crate::transport::Response;

/// Reads the access rules of a node; made by [`Session::acl`](crate::Session::acl).
///
/// # Errors
///
/// [`NoNode`](ErrorKind::NoNode), [`NoAuth`](ErrorKind::NoAuth).
/// [`NotConnected`](ErrorKind::NotConnected), [`TimedOut`](ErrorKind::TimedOut) or
/// [`ConnectionLost`](ErrorKind::ConnectionLost) when no answer came by the deadline.
///
/// # Cancel safety
///
/// Safe, nothing happened.
///
/// # Session loss
///
/// A fatal error.
///
/// # Cost
///
/// One round trip, repeated after a connection loss.
#[derive(Debug, Clone)]
#[must_use = "nothing is read until it is awaited"]
pub struct GetAcl {
    target: Target,
}

impl GetAcl {
    pub(crate) fn new(target: Target) -> Self {
        Self { target }
    }

    /// Bounds the whole call; the default is the session's operation timeout.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.target.timeout(timeout);
        self
    }
}

impl IntoFuture for GetAcl {
    type Output = Result<(Acl, Stat), Error>;
    type IntoFuture = OperationFuture<(Acl, Stat)>;

    fn into_future(self) -> Self::IntoFuture {
        self.target.run(Operation::GetAcl, async move |call, path| {
            let request = Request::GetAcl {
                path: call.wire(&path),
            };
            call.read(&path, &request, |response| match response {
                Response::Acl { acl, stat } => Some((acl, stat)),
                _ => None,
            })
            .await
        })
    }
}

/// Replaces the access rules of a node; made by [`Session::set_acl`](crate::Session::set_acl).
///
/// The answer is the node's stat after the change.
///
/// # Errors
///
/// [`NoNode`](ErrorKind::NoNode), [`BadVersion`](ErrorKind::BadVersion), [`NoAuth`](ErrorKind::NoAuth),
/// [`InvalidAcl`](ErrorKind::InvalidAcl), [`TooLarge`](ErrorKind::TooLarge).
/// [`OutcomeUnknown`](ErrorKind::OutcomeUnknown) when the request was sent and no answer came.
///
/// # Cancel safety
///
/// Not safe once it was polled, because a request that has left cannot be called back: the rules may still change.
/// Read them afterwards. Dropped before its first poll, nothing has happened.
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
            check_size(&call, &path, &[], super::acl_bytes(&acl))?;
            let request = Request::SetAcl {
                path: call.wire(&path),
                acl,
                version,
            };
            let repeat = if version.is_some() {
                Repeat::Never
            } else {
                Repeat::Write
            };
            let answer = call.request(&path, repeat, &request, Response::set).await;
            match answer.result {
                Err(error) if answer.was_in_doubt => Err(error.maybe_applied()),
                result => result,
            }
        })
    }
}
