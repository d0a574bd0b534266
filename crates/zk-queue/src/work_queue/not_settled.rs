//! `NotSettled`: a claim that was not settled, and why.

use std::fmt;

use zk_core::ErrorClass;

use super::claim::Claim;
use crate::error::SettleError;

/// A claim was not settled: why, and the claim, so that it can be settled by another attempt.
///
/// Transient failures are retried before this is returned. Before the next attempt, correct the cause: the parts you
/// added, or the permissions, quotas or nodes because of which the servers refused.
///
/// `?` converts this to [`SettleError`].
///
/// # Dropping
///
/// The claim is released, and the item is delivered again if nothing was changed.
#[non_exhaustive]
pub struct NotSettled<T> {
    /// The cause.
    pub error: SettleError,
    /// The claim; `None` after [`SettleError::Lost`] and fatal errors. Its [time to
    /// run](crate::WorkOptions::with_time_to_run) has begun again.
    pub claim: Option<Claim<T>>,
}

impl<T> NotSettled<T> {
    /// Returns what a caller can do about the error.
    pub fn class(&self) -> ErrorClass {
        self.error.class()
    }
}

impl<T> From<NotSettled<T>> for SettleError {
    fn from(not_settled: NotSettled<T>) -> Self {
        not_settled.error
    }
}

impl<T> fmt::Debug for NotSettled<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NotSettled")
            .field("error", &self.error)
            .finish_non_exhaustive()
    }
}

impl<T> fmt::Display for NotSettled<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<T> std::error::Error for NotSettled<T> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.source()
    }
}
