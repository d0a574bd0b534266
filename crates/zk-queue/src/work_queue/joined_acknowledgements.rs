//! Acknowledges several claims in one transaction: it deletes the claims and the items.

use std::sync::Arc;

use zk_core::{Error, ErrorKind};

use super::held_claim::ClaimIdentity;
use crate::deadline::Deadline;
use crate::error::SettleError;
use crate::preconditions::Preconditions;
use crate::store::{ConditionalOutcome, JoinedOutcome, JoinedWork, QueueContext};

/// Acknowledges claims of one queue.
#[derive(Debug)]
pub(super) struct Acknowledgements {
    context: Arc<QueueContext>,
}

impl Acknowledgements {
    pub(super) fn new(context: &Arc<QueueContext>) -> Self {
        Self {
            context: Arc::clone(context),
        }
    }
}

impl JoinedWork for Acknowledgements {
    type Call = ClaimIdentity;
    /// Whether the item was removed. If not, nothing was changed, and the claim has to be settled by itself: that finds
    /// out the reason, and what to do.
    type Output = Result<bool, SettleError>;

    fn size_of(&self, claim: &ClaimIdentity) -> usize {
        claim.claim.as_str().len() + claim.item.as_str().len()
    }

    async fn commit(
        &self,
        claims: &[ClaimIdentity],
        deadline: Deadline,
    ) -> JoinedOutcome<Result<bool, SettleError>> {
        let Some(preconditions) =
            Preconditions::common(claims.iter().map(|claim| &claim.preconditions))
        else {
            return JoinedOutcome::SameOutput(Ok(false));
        };
        // A segment was started or removed between two claims.
        let mut all = claims.iter();
        if let Some(other) = all.position(|claim| !claim.preconditions.agrees_with(preconditions)) {
            return JoinedOutcome::Refused(other, Ok(false));
        }
        let committed = self
            .context
            .commit_if(preconditions, deadline, |transaction| {
                claims.iter().fold(transaction, |transaction, claim| {
                    let ended = claim.delete_claim(transaction);
                    ended.delete_version(&claim.item, claim.version)
                })
            });
        match committed.await {
            Ok(ConditionalOutcome::Committed(_)) => JoinedOutcome::SameOutput(Ok(true)),
            Ok(ConditionalOutcome::Refused { part, .. }) => {
                JoinedOutcome::Refused(part / PARTS, Ok(false))
            }
            Err(failure) if failure.error.kind() == ErrorKind::TooLarge => {
                JoinedOutcome::TooLarge(Ok(false))
            }
            Err(failure) if failure.error.is_fatal() || failure.error.is_outcome_unknown() => {
                JoinedOutcome::SameOutput(Err(failure.into()))
            }
            Ok(ConditionalOutcome::PreconditionsFailed) | Err(_) => {
                JoinedOutcome::SameOutput(Ok(false))
            }
        }
    }

    fn unknown(&self, error: Error) -> Result<bool, SettleError> {
        Err(SettleError::Unknown(error))
    }
}

/// The parts of the transaction for each claim.
const PARTS: usize = 2;
