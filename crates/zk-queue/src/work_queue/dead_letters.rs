//! Dead letters: moving items to them, listing, offering them again, and discarding them.

use std::time::SystemTime;

use futures_util::future;
use zk_core::Error;
use zk_core::ErrorClass;
use zk_core::ErrorKind;
use zk_core::Transaction;

use super::READ_AT_ONCE;
use super::Undeliverable;
use super::WorkQueue;
use super::held_claim::HeldClaim;
use crate::deadline::Deadline;
use crate::detached::Detached;
use crate::error::DeadLetterError;
use crate::error::SettleError;
use crate::error::TakeError;
use crate::leader_clock::whole_millis;
use crate::options::WorkerOptions;
use crate::paths::child;
use crate::ready_items::ListedItem;
use crate::store::Candidate;
use crate::store::ConditionalOutcome;
use crate::store::MAX_PARENT_ROUNDS;
use crate::store::NewItem;

/// An item that was delivered too often, could not be decoded, or was [buried](crate::Claim::bury).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeadLetter {
    /// The unique name of its node.
    pub name: String,
    /// How often the item was delivered.
    pub deliveries: u32,
    /// Why it became a dead letter.
    pub reason: String,
    /// When it became one, by the leader's clock.
    pub since: SystemTime,
}

/// Formats the data of a dead letter's child `note`.
fn note(deliveries: u32, reason: &str) -> String {
    format!("deliveries: {deliveries}\nreason: {reason}")
}

fn read_note(note: &str) -> Option<(u32, String)> {
    let (deliveries, reason) = note
        .strip_prefix("deliveries: ")?
        .split_once("\nreason: ")?;
    Some((deliveries.parse().ok()?, reason.to_owned()))
}

impl HeldClaim {
    /// As [`Claim::bury`](crate::Claim::bury). If this is dropped, it continues in the background.
    pub(super) fn bury(self, reason: &str) -> Detached<Result<(), SettleError>> {
        let letter = child(
            &self.context.dead_letters,
            &letter_name(&self.listed.name, self.identity.item_czxid),
        );
        tracing::warn!(item = %self.identity.item, %letter, reason, "the item becomes a dead letter");
        let container = self.context.dead_letters.clone();
        let (data, note) = (self.data.clone(), note(self.deliveries, reason));
        let changes = move |transaction: Transaction| {
            transaction
                .create(&letter, data.clone())
                .create(child(&letter, NOTE), note.clone())
        };
        self.settle(Box::new(changes), Some(container))
    }
}

impl<T: Send + 'static> WorkQueue<T> {
    /// Moves an unclaimed item to the dead letters, or delays it, unless another consumer claims it.
    pub(super) async fn reject_undeliverable(
        &self,
        candidate: Candidate,
        undeliverable: Undeliverable,
        deadline: Deadline,
    ) -> Result<(), TakeError> {
        let Undeliverable {
            deliveries,
            reason,
            is_last,
        } = undeliverable;
        let later = if is_last {
            None
        } else {
            let delay = WorkerOptions::default().delay_after(deliveries);
            let due = self.store.context.due_after(delay, deadline).await?;
            let key = candidate.in_flight.key.postponed(due, deliveries);
            let listed = ListedItem {
                segment: candidate.in_flight.segment,
                name: key.native_name().into(),
                key,
            };
            // This consumer leaves the item to others for longer than its delay.
            let deferred_until = due.saturating_add(whole_millis(delay / 4));
            Some((listed, deferred_until))
        };
        let claim = self.context.claim_path(&candidate.in_flight);
        let letter = child(
            &self.context.dead_letters,
            &letter_name(&candidate.in_flight.name, candidate.item.czxid),
        );
        let note = note(deliveries, &reason);
        let Some(preconditions) = candidate.in_flight.preconditions.clone() else {
            self.store.inventory.invalidate();
            return Ok(());
        };
        for _ in 0..MAX_PARENT_ROUNDS {
            let context = &self.store.context;
            let outcome = context.commit_if(&preconditions, deadline, |transaction| {
                let removed = transaction
                    // Refused if another consumer has claimed the item.
                    .create_ephemeral(&claim, "")
                    .delete(&claim)
                    .delete_version(&candidate.path, candidate.item.version);
                let data = candidate.item.data.clone();
                match &later {
                    Some((listed, _)) => {
                        let path = context.paths.item(listed.segment, &listed.name);
                        removed.create(path, data)
                    }
                    None => removed
                        .create(&letter, data)
                        .create(child(&letter, NOTE), note.clone()),
                }
            });
            let outcome = match outcome.await.map_err(|failure| failure.error) {
                Err(error) if error.kind() == ErrorKind::TooLarge => {
                    candidate
                        .in_flight
                        .quarantine("it is too large to be moved");
                    return Ok(());
                }
                outcome => outcome?,
            };
            match outcome {
                ConditionalOutcome::PreconditionsFailed => {
                    self.store.inventory.invalidate_if(&preconditions);
                    return Ok(());
                }
                ConditionalOutcome::Committed(_) => {
                    match later {
                        Some((listed, deferred_until)) => {
                            let later = &*listed.name;
                            tracing::warn!(item = %candidate.path, later, reason, "the item is left to other consumers");
                            self.store.inventory.defer(listed, deferred_until);
                        }
                        None => {
                            tracing::warn!(item = %candidate.path, %letter, reason, "the item becomes a dead letter");
                        }
                    }
                    break;
                }
                ConditionalOutcome::Refused { part: 0, error } if error.is_no_node() => {
                    self.store
                        .context
                        .create_container(&self.context.claims, deadline)
                        .await?;
                }
                ConditionalOutcome::Refused { part: 3, error }
                    if error.is_no_node() && later.is_none() =>
                {
                    self.store
                        .context
                        .create_container(&self.context.dead_letters, deadline)
                        .await?;
                }
                ConditionalOutcome::Refused { part, error } => match error.kind() {
                    ErrorKind::NodeExists | ErrorKind::NoNode | ErrorKind::BadVersion => break,
                    // One item must not keep the others from being processed.
                    _ if part >= 2 && error.class() == ErrorClass::Outcome => {
                        let reason = format!("{reason}, and it cannot be moved: {error}");
                        candidate.in_flight.quarantine(&reason);
                        return Ok(());
                    }
                    _ => return Err(error.into()),
                },
            }
        }
        candidate.in_flight.complete();
        Ok(())
    }

    /// Lists the dead letters, the oldest first.
    ///
    /// # Errors
    ///
    /// If a read failed.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    ///
    /// # Cost
    ///
    /// A list, and a read for each of them, 64 in a flight.
    pub async fn dead_letters(&self) -> Result<Vec<DeadLetter>, Error> {
        let deadline = self.store.context.deadline();
        let names = self
            .store
            .context
            .child_names(&self.context.dead_letters, deadline);
        let names = names.await?;
        let mut letters = Vec::new();
        for several in names.chunks(READ_AT_ONCE) {
            let reads = several.iter().map(|name| {
                let note = child(&child(&self.context.dead_letters, name), NOTE);
                async move { (name, self.store.context.session.get(note).await) }
            });
            for (name, read) in future::join_all(reads).await {
                let (note, stat) = match read {
                    Ok(read) => read,
                    Err(error) if error.is_no_node() => continue,
                    Err(error) => return Err(error),
                };
                let note = String::from_utf8_lossy(&note);
                let (deliveries, reason) =
                    read_note(&note).unwrap_or_else(|| (0, note.to_string()));
                letters.push(DeadLetter {
                    name: name.clone(),
                    deliveries,
                    reason,
                    since: stat.ctime,
                });
            }
        }
        letters.sort_by(|a, b| (a.since, &a.name).cmp(&(b.since, &b.name)));
        Ok(letters)
    }

    /// Reads the data of a dead letter.
    ///
    /// # Errors
    ///
    /// [`DeadLetterError::Gone`], or [`DeadLetterError::Core`] if the read failed.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    ///
    /// # Cost
    ///
    /// One round trip.
    pub async fn dead_letter(&self, letter: &DeadLetter) -> Result<Vec<u8>, DeadLetterError> {
        match self
            .store
            .context
            .session
            .get(child(&self.context.dead_letters, &letter.name))
            .await
        {
            Ok((data, _)) => Ok(data.into()),
            Err(error) if error.is_no_node() => Err(gone(letter)),
            Err(error) => Err(error.into()),
        }
    }

    /// Offers a dead letter again, at the end of its priority and with no deliveries so far.
    ///
    /// # Errors
    ///
    /// [`DeadLetterError::Gone`] or [`DeadLetterError::Offer`]. It is still a dead letter then, except after
    /// [`OfferError::Unknown`](crate::OfferError::Unknown).
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe once it was polled: the item may still be offered. It is either in the queue or a dead letter.
    ///
    /// # Cost
    ///
    /// Two round trips.
    pub async fn redrive(&self, letter: &DeadLetter) -> Result<(), DeadLetterError> {
        let data = self.dead_letter(letter).await?;
        let name = letter.name.rsplit_once('-').map_or("", |(name, _)| name);
        let priority = self
            .store
            .context
            .options
            .layout
            .parse(name)
            .map(|key| key.priority);
        let deadline = self.store.context.deadline();
        let name_prefix = self
            .store
            .offers
            .name_prefix(priority, None, deadline)
            .await?;
        let path = child(&self.context.dead_letters, &letter.name);
        let new_item = NewItem { name_prefix, data };
        let offered = self.store.offers.offer_with(
            std::slice::from_ref(&new_item),
            |transaction| transaction.delete(child(&path, NOTE)).delete(&path),
            deadline,
        );
        match offered.await {
            Err(crate::OfferError::Core(error)) if error.is_no_node() => Err(gone(letter)),
            other => Ok(other?),
        }
    }

    /// Deletes a dead letter. It is no error if it no longer exists.
    ///
    /// # Errors
    ///
    /// [`DeadLetterError::Core`].
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe once it was polled: the dead letter may still be deleted.
    ///
    /// # Cost
    ///
    /// One round trip, and one more for the first change of a process.
    pub async fn discard(&self, letter: &DeadLetter) -> Result<(), DeadLetterError> {
        let path = child(&self.context.dead_letters, &letter.name);
        // One transaction: without its note, the dead letter would not be listed any more.
        let deadline = self.store.context.deadline();
        let context = &self.store.context;
        let transaction = context.session.transaction();
        let both = transaction.delete(child(&path, NOTE)).delete(&path);
        let refusal = match context.commit(both, deadline).await {
            Ok(_) => return Ok(()),
            Err(failure) if failure.error.failed_part().is_none() => {
                return Err(failure.error.into());
            }
            Err(failure) => failure.error,
        };
        if !refusal.is_no_node() && refusal.kind() != ErrorKind::NotEmpty {
            return Err(refusal.into());
        }
        // Another client has deleted its note, or created another child.
        match context.session.delete(path).recursive().await {
            Err(error) if !error.is_no_node() => Err(error.into()),
            _ => Ok(()),
        }
    }
}

/// Names a dead letter. An item's name may repeat after the queue was deleted, but not the zxid of its creation.
fn letter_name(item: &str, czxid: i64) -> String {
    format!("{item}-{czxid:x}")
}

fn gone(letter: &DeadLetter) -> DeadLetterError {
    DeadLetterError::Gone {
        name: letter.name.clone(),
    }
}

const NOTE: &str = "note";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_read_back_and_other_text_is_not_a_note() {
        assert_eq!(read_note(&note(3, "a\nb")), Some((3, "a\nb".to_owned())));
        assert_eq!(read_note("another text"), None);
    }
}
