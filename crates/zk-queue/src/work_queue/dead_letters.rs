//! Dead letters: moving items to them, listing, offering one again, and discarding one.
//!
//! Pages of them, and changes of many of them, are in [`dead_letter_batches`](super::dead_letter_batches).

use std::time::SystemTime;

use futures_util::future;
use zk_core::codec::DecodeError;
use zk_core::{Error, ErrorClass, ErrorKind, Transaction};

use super::held_claim::{HeldClaim, Unsettled};
use super::{READ_AT_ONCE, Undeliverable, WorkQueue};
use crate::deadline::Deadline;
use crate::detached::Detached;
use crate::error::{DeadLetterError, OfferError, TakeError};
use crate::leader_clock::whole_millis;
use crate::measure::DeliveryOutcome;
use crate::options::WorkerOptions;
use crate::paths::child;
use crate::ready_items::ListedItem;
use crate::store::{Candidate, ConditionalOutcome, MAX_PARENT_ROUNDS, NewItem};

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
    pub(super) fn bury(self: Box<Self>, reason: &str) -> Detached<Result<(), Unsettled>> {
        let letter = child(
            &self.context.paths.dead_letters,
            &letter_name(&self.listed.name, self.identity.item_czxid),
        );
        tracing::warn!(item = %self.identity.item, %letter, reason, "the item becomes a dead letter");
        let container = self.context.paths.dead_letters.clone();
        let (data, note) = (self.data.clone(), note(self.deliveries, reason));
        let changes = move |transaction: Transaction| {
            transaction
                .create(&letter, data.clone())
                .create(child(&letter, NOTE), note.clone())
        };
        self.settle(DeliveryOutcome::Buried, Box::new(changes), Some(container))
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
        let is_shared = self.store.context.paths.is_shared;
        let later = if is_last {
            None
        } else {
            let delay = WorkerOptions::default().delay_after(deliveries, || 1.0);
            let due = self.store.context.due_after(delay, deadline).await?;
            let listed = if is_shared {
                // Other clients do not know a name with a due time.
                ListedItem::clone(&candidate.in_flight)
            } else {
                let key = candidate.in_flight.key.postponed(due, deliveries);
                ListedItem {
                    segment: candidate.in_flight.segment,
                    name: key.native_name().into(),
                    key,
                }
            };
            // This consumer leaves the item to others for longer than its delay.
            let deferred_until = due.saturating_add(whole_millis(delay / 4));
            Some((listed, deferred_until))
        };
        let claim = self.context.claim_path(&candidate.in_flight);
        let letter = child(
            &self.context.paths.dead_letters,
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
                // Refused if another consumer has claimed the item.
                let unclaimed = transaction.create_ephemeral(&claim, "").delete(&claim);
                let (path, version) = (&candidate.path, candidate.item.version);
                let data = candidate.item.data.clone();
                match &later {
                    Some(_) if is_shared => {
                        // Its version counts this delivery.
                        unclaimed.set_version(path, context.options.layout.frame(data), version)
                    }
                    Some((listed, _)) => {
                        let later = context.paths.item(listed.segment, &listed.name);
                        let removed = unclaimed.delete_version(path, version);
                        removed.create(later, data)
                    }
                    None => unclaimed
                        .delete_version(path, version)
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
                        .create_claims_node(&self.context.paths.claims, deadline)
                        .await?;
                }
                ConditionalOutcome::Refused { part: 3, error }
                    if error.is_no_node() && later.is_none() =>
                {
                    self.store
                        .context
                        .create_container(&self.context.paths.dead_letters, deadline)
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
    /// Unlike [`dead_letter_page`](Self::dead_letter_page), the order is that in which they became dead letters.
    ///
    /// # Errors
    ///
    /// If a read failed.
    ///
    /// # Cost
    ///
    /// A list, and a read for each of them, 64 in a flight.
    pub async fn dead_letters(&self) -> Result<Vec<DeadLetter>, Error> {
        let names = self.dead_letter_names().await?;
        let mut letters = Vec::new();
        for several in names.chunks(READ_AT_ONCE) {
            letters.extend(self.read_dead_letters(several).await?);
        }
        letters.sort_by(|a, b| (a.since, &a.name).cmp(&(b.since, &b.name)));
        Ok(letters)
    }

    /// Reads the notes of dead letters concurrently, without those that no longer exist.
    pub(super) async fn read_dead_letters(
        &self,
        names: &[String],
    ) -> Result<Vec<DeadLetter>, Error> {
        let reads = names.iter().map(|name| {
            let note = child(&child(&self.context.paths.dead_letters, name), NOTE);
            async move { (name, self.store.context.session.get(note).await) }
        });
        let mut letters = Vec::new();
        for (name, read) in future::join_all(reads).await {
            let (note, stat) = match read {
                Ok(read) => read,
                Err(error) if error.is_no_node() => continue,
                Err(error) => return Err(error),
            };
            let note = String::from_utf8_lossy(&note);
            let (deliveries, reason) = read_note(&note).unwrap_or_else(|| (0, note.to_string()));
            letters.push(DeadLetter {
                name: name.clone(),
                deliveries,
                reason,
                since: stat.ctime,
            });
        }
        Ok(letters)
    }

    /// Reads the data of a dead letter; [`decode_dead_letter`](Self::decode_dead_letter) decodes it.
    ///
    /// # Errors
    ///
    /// [`DeadLetterError::Gone`], or [`DeadLetterError::Core`] if the read failed.
    ///
    /// # Cost
    ///
    /// One round trip.
    pub async fn dead_letter(&self, letter: &DeadLetter) -> Result<Vec<u8>, DeadLetterError> {
        match self
            .store
            .context
            .session
            .get(child(&self.context.paths.dead_letters, &letter.name))
            .await
        {
            Ok((data, _)) => Ok(data.into()),
            Err(error) if error.is_no_node() => Err(gone(letter)),
            Err(error) => Err(error.into()),
        }
    }

    /// Decodes the data of a [dead letter](Self::dead_letter).
    ///
    /// # Errors
    ///
    /// If the codec cannot decode it.
    pub fn decode_dead_letter(&self, data: &[u8]) -> Result<T, DecodeError> {
        self.codec.decode(data)
    }

    /// Offers a dead letter again, at the end of its priority and with no deliveries so far.
    ///
    /// # Errors
    ///
    /// [`DeadLetterError::Gone`] or [`DeadLetterError::Offer`]. It is still a dead letter then, except after
    /// [`OfferError::Unknown`].
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
        match self.offer_again(&[(&letter.name, &data)]).await {
            Err(OfferError::Core(error)) if error.is_no_node() => Err(gone(letter)),
            other => Ok(other?),
        }
    }

    /// Offers dead letters with these names and data again, all or none of them, in one transaction.
    ///
    /// Its parts are one for the segment, one for each new item, and two for each dead letter.
    pub(super) async fn offer_again(&self, letters: &[(&str, &[u8])]) -> Result<(), OfferError> {
        let deadline = self.store.context.deadline();
        let offers = &self.store.offers;
        let mut new_items = Vec::with_capacity(letters.len());
        for (name, data) in letters {
            let item = name.rsplit_once('-').map_or("", |(item, _)| item);
            let layout = self.store.context.options.layout;
            let priority = layout.priority_of(item);
            let id = layout.id_of(item);
            new_items.push(NewItem {
                name_prefix: offers.name_prefix(priority, None, id, deadline).await?,
                data: layout.frame(data.to_vec()),
            });
        }
        let offered = offers.offer_with(
            &new_items,
            |transaction| self.delete_letters(transaction, letters.iter().map(|(name, _)| name)),
            deadline,
        );
        offered.await
    }

    /// Deletes dead letters and their notes: two parts for each of them.
    pub(super) fn delete_letters(
        &self,
        transaction: Transaction,
        names: impl IntoIterator<Item: AsRef<str>>,
    ) -> Transaction {
        names.into_iter().fold(transaction, |transaction, name| {
            let path = child(&self.context.paths.dead_letters, name.as_ref());
            // Without its note, it would not be listed any more.
            transaction.delete(child(&path, NOTE)).delete(&path)
        })
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
        let path = child(&self.context.paths.dead_letters, &letter.name);
        let deadline = self.store.context.deadline();
        let context = &self.store.context;
        let transaction = context.session.transaction();
        let both = self.delete_letters(transaction, [&letter.name]);
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
