//! Changes several items in one transaction: as many of them as still exist.

use std::sync::Arc;

use zk_core::{CommitError, Committed, Error, ErrorKind, NodePath, Transaction};

use super::conditional_commit::ConditionalOutcome;
use super::read_items::{Candidate, ItemReader};
use crate::batch_limits::{contended_count, fitting_count};
use crate::deadline::Deadline;
use crate::preconditions::Preconditions;

/// Items that fit into one transaction, and its preconditions.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) candidates: Vec<Candidate>,
    pub(crate) preconditions: Arc<Preconditions>,
}

/// What a transaction does with each item of a batch.
pub(crate) trait ItemChange: Sync {
    /// Returns how many parts of the transaction each item has.
    fn parts(&self) -> usize;

    /// Adds the parts of all items to a transaction.
    fn add_to(&self, transaction: Transaction, candidates: &[Candidate]) -> Transaction;

    /// Decides what to do about an item; `part` is that of its parts which was refused.
    fn judge(&self, part: usize, error: &Error) -> Refusal<'_>;
}

/// What to do about an item that the servers refuse to change.
pub(crate) enum Refusal<'a> {
    /// Forget it: another consumer has taken or changed it.
    Forget,
    /// Skip it from now on, for this reason.
    Quarantine(String),
    /// Create the parent of the claims, and try again.
    CreateParent(&'a NodePath),
    /// Give up, and return the error.
    GiveUp,
}

/// The items of a batch were not changed, or the outcome is unknown.
pub(crate) enum BatchFailure {
    NotChanged(Error),
    InDoubt(Batch, CommitError),
}

impl From<Error> for BatchFailure {
    fn from(error: Error) -> Self {
        Self::NotChanged(error)
    }
}

impl ItemReader {
    /// Returns the candidates that one transaction can change, to whose request each adds its `size`.
    ///
    /// The others are released.
    pub(crate) fn batch(
        &self,
        mut candidates: Vec<Candidate>,
        size: impl Fn(&Candidate) -> usize,
    ) -> Option<Batch> {
        let preconditions = self.retain_of_one_epoch(&mut candidates)?;
        self.keep_prefetched(candidates.split_off(fitting_count(candidates.iter().map(size))));
        Some(Batch {
            candidates,
            preconditions,
        })
    }

    /// Releases the candidates that do not agree with the others, and returns the preconditions of those that are left.
    fn retain_of_one_epoch(&self, candidates: &mut Vec<Candidate>) -> Option<Arc<Preconditions>> {
        let all = || {
            candidates
                .iter()
                .filter_map(|candidate| candidate.in_flight.preconditions.as_ref())
        };
        if all().count() < candidates.len() {
            self.inventory.invalidate();
        }
        let common = Preconditions::common(all()).cloned()?;
        candidates.retain(|candidate| {
            let preconditions = candidate.in_flight.preconditions.as_ref();
            preconditions.is_some_and(|preconditions| preconditions.agrees_with(&common))
        });
        Some(common)
    }

    /// Commits a change of the items of a batch, without those that are gone; `None` if no item is left.
    ///
    /// Returns the items that were changed, and the results of the parts.
    pub(crate) async fn commit<C: ItemChange>(
        &self,
        Batch {
            mut candidates,
            mut preconditions,
        }: Batch,
        change: &C,
        deadline: Deadline,
    ) -> Result<Option<(Batch, Committed)>, BatchFailure> {
        let (mut parent_rounds, mut refusals) = (0, 0);
        let (mut was_refreshed, mut was_contended) = (false, false);
        while !candidates.is_empty() {
            let outcome = self
                .context
                .commit_if(&preconditions, deadline, |transaction| {
                    change.add_to(transaction, &candidates)
                });
            let (part, error) = match outcome.await {
                Ok(ConditionalOutcome::Committed(committed)) => {
                    self.inventory
                        .lock()
                        .contention
                        .on_success(candidates.len());
                    let batch = Batch {
                        candidates,
                        preconditions,
                    };
                    return Ok(Some((batch, committed)));
                }
                Ok(ConditionalOutcome::PreconditionsFailed) if was_refreshed => {
                    self.inventory.invalidate_if(&preconditions);
                    break;
                }
                Ok(ConditionalOutcome::PreconditionsFailed) => {
                    was_refreshed = true;
                    let Some(new) = self.advance_epoch(&preconditions, deadline).await? else {
                        break;
                    };
                    preconditions = new;
                    candidates.retain(|candidate| candidate.in_flight.segment == 0);
                    continue;
                }
                Ok(ConditionalOutcome::Refused { part, error }) => (part, error),
                Err(failure) if failure.error.is_outcome_unknown() => {
                    let batch = Batch {
                        candidates,
                        preconditions,
                    };
                    return Err(BatchFailure::InDoubt(batch, failure));
                }
                Err(failure) if failure.error.kind() != ErrorKind::TooLarge => {
                    return Err(failure.error.into());
                }
                Err(_) if candidates.len() > 1 => {
                    self.keep_prefetched(candidates.split_off(candidates.len() / 2));
                    continue;
                }
                Err(failure) => (0, failure.error),
            };
            let reason = match change.judge(part % change.parts(), &error) {
                Refusal::CreateParent(path) if parent_rounds < MAX_PARENT_ROUNDS => {
                    parent_rounds += 1;
                    self.context.create_claims_node(path, deadline).await?;
                    continue;
                }
                Refusal::Forget | Refusal::CreateParent(_) => None,
                Refusal::Quarantine(reason) => Some(reason),
                Refusal::GiveUp => return Err(error.into()),
            };
            // Parts are judged in order: the items before this one still existed.
            let others = candidates.split_off(part / change.parts() + 1);
            match (candidates.pop(), reason) {
                (Some(refused), Some(reason)) => refused.in_flight.quarantine(&reason),
                (Some(refused), None) => {
                    // However many items of the batch another consumer took, it was there once.
                    if !was_contended {
                        self.inventory.lock().contention.on_refusal();
                    }
                    was_contended = true;
                    refused.in_flight.complete();
                }
                (None, _) => {}
            }
            candidates.extend(self.retain_existing(others, deadline).await?);
            refusals += 1;
            // The consumer that has taken some of the first ones probably takes more of them.
            drop(candidates.drain(..contended_count(candidates.len(), refusals)));
        }
        Ok(None)
    }

    /// Advances the list to the epoch that began while a batch was changed, and returns the new preconditions of the
    /// items in the items node.
    ///
    /// If only the active segment has changed, the items can still be taken. If the items node is another one, this
    /// returns `None`, and the next call reads the list again.
    async fn advance_epoch(
        &self,
        preconditions: &Arc<Preconditions>,
        deadline: Deadline,
    ) -> Result<Option<Arc<Preconditions>>, Error> {
        let new = self
            .context
            .reread_for_same_items_node(preconditions, deadline);
        let new = new.await?.map(Arc::new);
        let mut inventory = self.inventory.lock();
        match &new {
            Some(new) => inventory.advance(preconditions, new),
            None => inventory.invalidate_if(preconditions),
        }
        Ok(new)
    }
}

/// How often a transaction is repeated because a parent that it needs does not exist.
pub(crate) const MAX_PARENT_ROUNDS: u32 = 16;
