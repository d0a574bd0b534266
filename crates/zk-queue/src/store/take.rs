//! Reads items, and takes them by deleting their nodes.

use std::sync::Arc;

use zk_core::Error;
use zk_core::ErrorKind;
use zk_core::NodePath;
use zk_core::Stat;
use zk_core::Transaction;

use super::InFlightItem;
use super::ItemStore;
use crate::batch_limits::contended_count;
use crate::batch_limits::fitting_count;
use crate::deadline::Deadline;
use crate::detached::Detached;
use crate::error::TakeError;
use crate::error::UnknownTake;
use crate::idempotency::CommitFailure;
use crate::idempotency::ConditionalOutcome;
use crate::idempotency::Resolution;
use crate::mutex::lock;
use crate::preconditions::Preconditions;
use crate::ready_items::ListedItem;

/// An item that was read and may be taken.
#[derive(Debug)]
pub(crate) struct Candidate {
    pub(crate) in_flight: InFlightItem,
    pub(crate) path: NodePath,
    pub(crate) item: ItemContent,
}

/// The result of reading an item.
pub(crate) enum ReadOutcome {
    Item(Candidate),
    /// Another consumer has taken it.
    Gone,
    /// It is malformed, and skipped from now on.
    Quarantined,
}

/// The content of an item's node.
#[derive(Debug)]
pub(crate) struct ItemContent {
    /// Without a frame.
    pub(crate) data: Vec<u8>,
    /// The data that stays in the node when the item is taken, if the node has more items.
    rest: Option<Vec<u8>>,
    pub(crate) version: i32,
    pub(crate) czxid: i64,
}

impl ItemContent {
    /// Returns the bytes that the content occupies.
    pub(super) fn size(&self) -> usize {
        self.data.len() + self.rest.as_ref().map_or(0, Vec::len)
    }
}

impl Candidate {
    /// Returns how many bytes taking the item adds to a request.
    pub(crate) fn size(&self) -> usize {
        self.path.as_str().len() + self.item.rest.as_ref().map_or(0, Vec::len)
    }
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

/// Items were not taken, or the outcome is unknown.
enum TakeFailure {
    NotTaken(Error),
    InDoubt(Vec<Candidate>, Arc<Preconditions>, CommitFailure),
}

/// Deletes items as parts of a transaction; a node that has more items keeps those.
fn delete_items(transaction: Transaction, candidates: &[Candidate]) -> Transaction {
    candidates
        .iter()
        .fold(transaction, |transaction, candidate| {
            match &candidate.item.rest {
                None => transaction.delete_version(&candidate.path, candidate.item.version),
                Some(rest) => {
                    transaction.set_version(&candidate.path, rest.clone(), candidate.item.version)
                }
            }
        })
}

impl ItemStore {
    /// Reads an item, unless it was read ahead.
    pub(crate) async fn read(
        &self,
        in_flight: InFlightItem,
        deadline: Deadline,
    ) -> Result<ReadOutcome, Error> {
        let path = in_flight.path();
        let id = in_flight.id();
        // A caller that only reads gets the current content.
        if let Some(preconditions) = &in_flight.preconditions
            && let Some(Some(prefetched)) = lock(&self.list).prefetched.remove(&id)
            && Arc::ptr_eq(&prefetched.preconditions, preconditions)
        {
            return Ok(ReadOutcome::Item(Candidate {
                in_flight,
                path,
                item: prefetched.item,
            }));
        }
        let (data, stat) = match self
            .context
            .session
            .get(&path)
            .timeout(deadline.remaining())
            .await
        {
            Ok(read) => read,
            Err(error) if error.is_no_node() => {
                in_flight.complete();
                return Ok(ReadOutcome::Gone);
            }
            Err(error) if error.kind() == ErrorKind::NoAuth => {
                in_flight.quarantine("the session may not read it");
                return Ok(ReadOutcome::Quarantined);
            }
            Err(error) => return Err(error),
        };
        match self.parse_item(data, &stat) {
            Ok(item) => Ok(ReadOutcome::Item(Candidate {
                in_flight,
                path,
                item,
            })),
            Err(reason) => {
                in_flight.quarantine(&reason);
                Ok(ReadOutcome::Quarantined)
            }
        }
    }

    /// Returns the first item in the data of a node, or why there is none.
    pub(super) fn parse_item(&self, data: Vec<u8>, stat: &Stat) -> Result<ItemContent, String> {
        let (data, rest) = self.context.options.layout.unframe(data)?;
        Ok(ItemContent {
            data,
            rest,
            version: stat.version,
            czxid: stat.czxid,
        })
    }

    /// Takes items in one transaction, and returns those that still existed.
    ///
    /// If this is dropped, it continues without a deadline, and puts back what it takes.
    pub(crate) async fn take(
        self: &Arc<Self>,
        candidates: Vec<Candidate>,
        deadline: Deadline,
    ) -> Result<Vec<TakenItem>, TakeError> {
        let (store, cleanup_store) = (Arc::clone(self), Arc::clone(self));
        let taking = Detached::new(
            &self.context.session,
            async move { store.take_now(candidates, deadline).await },
            async move |taken| {
                for item in cleanup_store.resolve_abandoned(taken).await {
                    cleanup_store.requeue(item).await;
                }
            },
        );
        taking.await.map_err(|failure| match failure {
            TakeFailure::NotTaken(error) => error.into(),
            TakeFailure::InDoubt(candidates, _, failure) => {
                let items = candidates.into_iter().map(|candidate| {
                    let taken = TakenItem::of(candidate);
                    (taken.path, taken.data)
                });
                TakeError::Unknown(Box::new(UnknownTake {
                    items: items.collect(),
                    source: failure.error,
                }))
            }
        })
    }

    /// Returns what was taken for a caller that no longer waits, also if that is found out late.
    async fn resolve_abandoned(
        &self,
        taken: Result<Vec<TakenItem>, TakeFailure>,
    ) -> Vec<TakenItem> {
        let (candidates, preconditions, failure) = match taken {
            Ok(taken) => return taken,
            Err(TakeFailure::NotTaken(_)) => return Vec::new(),
            Err(TakeFailure::InDoubt(candidates, preconditions, failure)) => {
                (candidates, preconditions, failure)
            }
        };
        let resolved = self
            .context
            .tokens
            .resolve(failure, &preconditions, |transaction| {
                delete_items(transaction, &candidates)
            });
        match resolved.await {
            Resolution::Committed(_) => candidates.into_iter().map(TakenItem::of).collect(),
            Resolution::NotCommitted => Vec::new(),
            Resolution::Unknown => {
                for candidate in candidates {
                    tracing::error!(path = %candidate.path, "the outcome is unknown: the item may have been taken for a caller that no longer waits");
                }
                Vec::new()
            }
        }
    }

    async fn take_now(
        &self,
        mut candidates: Vec<Candidate>,
        deadline: Deadline,
    ) -> Result<Vec<TakenItem>, TakeFailure> {
        let Some(mut preconditions) = self.retain_of_one_epoch(&mut candidates) else {
            return Ok(Vec::new());
        };
        let rest = candidates.split_off(fitting_count(candidates.iter().map(Candidate::size)));
        self.keep_prefetched(rest);
        let (mut refusals, mut was_refreshed) = (0, false);
        while !candidates.is_empty() {
            let outcome =
                self.context
                    .tokens
                    .commit_once_if(&preconditions, deadline, |transaction| {
                        delete_items(transaction, &candidates)
                    });
            match outcome.await {
                Ok(ConditionalOutcome::Committed(_)) => {
                    return Ok(candidates.into_iter().map(TakenItem::of).collect());
                }
                Ok(ConditionalOutcome::Refused { part, error }) => {
                    let is_gone = match error.kind() {
                        // Another consumer has taken or changed it.
                        ErrorKind::NoNode | ErrorKind::BadVersion => true,
                        ErrorKind::NotEmpty => false,
                        _ => return Err(TakeFailure::NotTaken(error)),
                    };
                    let others = candidates.split_off(part + 1);
                    if let Some(Candidate { in_flight, .. }) = candidates.pop() {
                        if is_gone {
                            in_flight.complete();
                        } else {
                            in_flight.quarantine("it has children");
                        }
                    }
                    // Parts are judged in order: the items before this one still existed.
                    let others = self.retain_existing(others, deadline).await;
                    candidates.extend(others.map_err(TakeFailure::NotTaken)?);
                    refusals += 1;
                    // The consumer that has taken some of the first ones probably takes more of them.
                    drop(candidates.drain(..contended_count(candidates.len(), refusals)));
                }
                Ok(ConditionalOutcome::PreconditionsFailed) if was_refreshed => {
                    self.invalidate(&preconditions);
                    break;
                }
                Ok(ConditionalOutcome::PreconditionsFailed) => {
                    was_refreshed = true;
                    match self.advance_epoch(&preconditions, deadline).await {
                        Ok(Some(new)) => preconditions = new,
                        Ok(None) => break,
                        Err(error) => return Err(TakeFailure::NotTaken(error)),
                    }
                    candidates.retain(|candidate| candidate.in_flight.segment == 0);
                }
                Err(failure) if failure.is_in_doubt => {
                    return Err(TakeFailure::InDoubt(candidates, preconditions, failure));
                }
                Err(failure)
                    if failure.error.kind() == ErrorKind::TooLarge && candidates.len() > 1 =>
                {
                    self.keep_prefetched(candidates.split_off(candidates.len() / 2));
                }
                Err(failure) => return Err(TakeFailure::NotTaken(failure.error)),
            }
        }
        Ok(Vec::new())
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
