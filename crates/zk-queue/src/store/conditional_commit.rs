//! Commits a transaction exactly once, if its preconditions still hold.

use zk_core::{CommitError, Committed, Error, ErrorKind, Transaction};

use super::context::QueueContext;
use crate::deadline::Deadline;
use crate::preconditions::Preconditions;

/// The outcome of a transaction with preconditions.
#[derive(Debug)]
pub(crate) enum ConditionalOutcome {
    /// It was committed, with these results of the caller's parts.
    Committed(Committed),
    /// It was refused because of one of the caller's parts, and nothing was changed.
    Refused { part: usize, error: Error },
    /// The preconditions no longer hold, and nothing was changed.
    PreconditionsFailed,
}

impl QueueContext {
    /// Commits a transaction exactly once; changes nothing if the preconditions no longer hold.
    ///
    /// If this is dropped after the transaction was sent, it may be committed.
    pub(crate) async fn commit_if(
        &self,
        preconditions: &Preconditions,
        deadline: Deadline,
        build: impl FnOnce(Transaction) -> Transaction,
    ) -> Result<ConditionalOutcome, CommitError> {
        let (checked, checks) = preconditions.check(self.session.transaction());
        let failure = match self.commit(build(checked), deadline).await {
            Ok(Committed::Answered(mut results)) => {
                results.drain(..checks);
                let committed = Committed::Answered(results);
                return Ok(ConditionalOutcome::Committed(committed));
            }
            Ok(Committed::Applied) => {
                return Ok(ConditionalOutcome::Committed(Committed::Applied));
            }
            Err(failure) => failure,
        };
        let (part, error) = match failure.error.failed_part() {
            Some(part) => (part, &failure.error),
            None => return Err(failure),
        };
        if part >= checks {
            let (part, error) = (part - checks, failure.error);
            return Ok(ConditionalOutcome::Refused { part, error });
        }
        if !error.is_no_node() && error.kind() != ErrorKind::BadVersion {
            return Err(failure);
        }
        if part == 0 {
            self.tokens.forget_fence(&preconditions.fence);
        }
        Ok(ConditionalOutcome::PreconditionsFailed)
    }
}
