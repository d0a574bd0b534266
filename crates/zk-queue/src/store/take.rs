//! Takes items by deleting their nodes, and returns those to the queue that were taken for a dropped call.

use std::sync::Arc;

use zk_core::{Error, ErrorKind, NodePath, Transaction};

use super::batch::{BatchFailure, ItemChange, Refusal};
use super::offers::Offers;
use super::read_items::{Candidate, ItemReader};
use crate::deadline::Deadline;
use crate::detached::Detached;
use crate::error::{TakeError, UnknownTake};
use crate::preconditions::Preconditions;
use crate::ready_items::ListedItem;

/// Takes items out of one queue.
#[derive(Debug, Clone)]
pub(crate) struct Takes {
    items: Arc<ItemReader>,
    /// For items that cannot be put back to their old places.
    pub(super) offers: Arc<Offers>,
}

/// An item that was taken.
#[derive(Debug)]
pub(crate) struct TakenItem {
    pub(crate) path: NodePath,
    pub(crate) data: Vec<u8>,
    pub(super) listed: ListedItem,
    /// The preconditions of its old place, if it may be put back there.
    pub(super) place: Option<Arc<Preconditions>>,
}

/// Deletes items; a node that has more items keeps those.
struct Deletion;

impl ItemChange for Deletion {
    fn parts(&self) -> usize {
        1
    }

    fn add_to(&self, transaction: Transaction, candidates: &[Candidate]) -> Transaction {
        candidates.iter().fold(
            transaction,
            |transaction, Candidate { path, item, .. }| match &item.rest {
                None => transaction.delete_version(path, item.version),
                Some(rest) => transaction.set_version(path, rest.clone(), item.version),
            },
        )
    }

    fn judge(&self, _part: usize, error: &Error) -> Refusal<'_> {
        match error.kind() {
            ErrorKind::NoNode | ErrorKind::BadVersion => Refusal::Forget,
            ErrorKind::NotEmpty => Refusal::Quarantine("it has children".to_owned()),
            _ => Refusal::GiveUp,
        }
    }
}

impl Takes {
    pub(super) fn new(items: &Arc<ItemReader>, offers: &Arc<Offers>) -> Self {
        Self {
            items: Arc::clone(items),
            offers: Arc::clone(offers),
        }
    }

    /// Takes items in one transaction, and returns those that still existed.
    ///
    /// If this is dropped, it continues without a deadline, and puts back what it takes.
    pub(crate) async fn take(
        &self,
        candidates: Vec<Candidate>,
        deadline: Deadline,
    ) -> Result<Vec<TakenItem>, TakeError> {
        let (takes, cleanup_takes) = (self.clone(), self.clone());
        let taking = Detached::new(
            &self.offers.context.session,
            async move { takes.take_now(candidates, deadline).await },
            async move |taken| {
                for item in cleanup_takes.resolve_abandoned(taken).await {
                    cleanup_takes.requeue(item).await;
                }
            },
        );
        taking.await.map_err(|failure| match failure {
            BatchFailure::NotChanged(error) => error.into(),
            BatchFailure::InDoubt(batch, failure) => {
                let taken = batch.candidates.into_iter().map(TakenItem::of);
                TakeError::Unknown(Box::new(UnknownTake {
                    items: taken.map(|taken| (taken.path, taken.data)).collect(),
                    source: failure.error,
                }))
            }
        })
    }

    async fn take_now(
        &self,
        candidates: Vec<Candidate>,
        deadline: Deadline,
    ) -> Result<Vec<TakenItem>, BatchFailure> {
        let Some(batch) = self.items.batch(candidates, Candidate::size) else {
            return Ok(Vec::new());
        };
        let deleted = self.items.commit(batch, &Deletion, deadline).await?;
        let candidates = deleted.map_or_else(Vec::new, |(batch, _)| batch.candidates);
        Ok(candidates.into_iter().map(TakenItem::of).collect())
    }

    /// Returns what was taken for a caller that no longer waits, also if that is found out late.
    async fn resolve_abandoned(
        &self,
        taken: Result<Vec<TakenItem>, BatchFailure>,
    ) -> Vec<TakenItem> {
        let (batch, failure) = match taken {
            Ok(taken) => return taken,
            Err(BatchFailure::NotChanged(_)) => return Vec::new(),
            Err(BatchFailure::InDoubt(batch, failure)) => (batch, failure),
        };
        match failure.resolve().await {
            Ok(_) => batch.candidates.into_iter().map(TakenItem::of).collect(),
            Err(error) if !error.is_outcome_unknown() => Vec::new(),
            Err(_) => {
                for candidate in batch.candidates {
                    tracing::error!(path = %candidate.path, "the outcome is unknown: the item may have been taken for a caller that no longer waits");
                }
                Vec::new()
            }
        }
    }
}

impl TakenItem {
    fn of(candidate: Candidate) -> Self {
        let listed = ListedItem::clone(&candidate.in_flight);
        let preconditions = candidate.in_flight.preconditions.clone();
        // A node that had several items, or was written since its creation, is not created again: another consumer may
        // have read version 0 of it with other data, and would take this item for it.
        let place =
            preconditions.filter(|_| candidate.item.rest.is_none() && candidate.item.version == 0);
        if candidate.item.rest.is_some() {
            // The next item of the node can be taken.
            drop(candidate.in_flight);
        } else {
            candidate.in_flight.complete();
        }
        Self {
            path: candidate.path,
            data: candidate.item.data,
            listed,
            place,
        }
    }
}
