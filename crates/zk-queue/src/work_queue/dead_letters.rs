//! Items that could not be processed.

use std::time::SystemTime;

use futures_util::future;
use zk_core::Error;
use zk_core::ErrorClass;
use zk_core::ErrorKind;
use zk_core::Transaction;

use super::READ_AT_ONCE;
use super::Undeliverable;
use super::WorkQueue;
use super::held_claim::Held;
use super::held_claim::make_container;
use crate::deadline::Deadline;
use crate::error::DeadLetterError;
use crate::error::SettleError;
use crate::error::TakeError;
use crate::idempotency::Answer;
use crate::leader_clock::whole_millis;
use crate::options::WorkerOptions;
use crate::paths::below;
use crate::ready_items::Spot;
use crate::store::Draft;
use crate::store::Pick;
use crate::store::claim_name;

/// An item that was put aside: delivered too often, not readable, or [buried](crate::Claim::bury).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeadLetter {
    /// The name of its node, which no other one has.
    pub name: String,
    /// How often it was delivered.
    pub deliveries: u32,
    /// Why it was put aside.
    pub reason: String,
    /// When, by the leader's clock.
    pub since: SystemTime,
}

/// What a dead letter's second node has for its data.
fn note(deliveries: u32, reason: &str) -> String {
    format!("deliveries: {deliveries}\nreason: {reason}")
}

fn read_note(note: &str) -> Option<(u32, String)> {
    let (deliveries, reason) = note
        .strip_prefix("deliveries: ")?
        .split_once("\nreason: ")?;
    Some((deliveries.parse().ok()?, reason.to_owned()))
}

impl Held {
    pub(super) async fn bury(self, reason: String) -> Result<(), SettleError> {
        let dead = below(&self.bench.dead, &name_of(&self.spot.name, self.grip.czxid));
        tracing::warn!(item = %self.grip.item, %dead, reason, "an item goes to the dead letters");
        let container = self.bench.dead.clone();
        let (data, note) = (self.data.clone(), note(self.deliveries, &reason));
        let changes = move |transaction: Transaction| {
            transaction
                .create(&dead, data.clone())
                .create(below(&dead, NOTE), note.clone())
        };
        self.settle(Box::new(changes), Some(container)).await
    }
}

impl<T: Send + 'static> WorkQueue<T> {
    /// Puts an item that nobody has claimed to the dead letters, or back for later, unless somebody claims it.
    pub(super) async fn set_aside(
        &self,
        pick: Pick,
        why: Undeliverable,
        deadline: Deadline,
    ) -> Result<(), TakeError> {
        let Undeliverable {
            deliveries, reason, ..
        } = why;
        let later = if why.is_last {
            None
        } else {
            let delay = WorkerOptions::default().delay_after(deliveries);
            let due = self.line.due_after(delay, deadline).await?;
            let slot = pick.hand.slot.postponed(due, deliveries);
            let spot = Spot {
                segment: pick.hand.segment,
                name: slot.native_name().into(),
                slot,
            };
            let for_others = due.saturating_add(whole_millis(delay / 4));
            Some((spot, for_others))
        };
        let claim = below(
            &self.bench.claims,
            &claim_name(pick.hand.segment, &pick.hand.name),
        );
        let dead = below(&self.bench.dead, &name_of(&pick.hand.name, pick.item.czxid));
        let note = note(deliveries, &reason);
        let Some(ground) = pick.hand.ground.clone() else {
            self.line.forget_list();
            return Ok(());
        };
        for _ in 0..MOST_ROUNDS {
            let answer = self
                .line
                .receipts
                .confirm_on(&ground, deadline, |transaction| {
                    let gone = transaction
                        // Refused if somebody has it.
                        .create_ephemeral(&claim, "")
                        .delete(&claim)
                        .delete_version(&pick.path, pick.item.version);
                    let data = pick.item.data.clone();
                    match &later {
                        Some((spot, _)) => {
                            let path = self.line.place.item(spot.segment, &spot.name);
                            gone.create(path, data)
                        }
                        None => gone
                            .create(&dead, data)
                            .create(below(&dead, NOTE), note.clone()),
                    }
                });
            let answer = match answer.await.map_err(|failure| failure.error) {
                Err(error) if error.kind() == ErrorKind::TooLarge => {
                    pick.hand.shun("it is too large to be put aside");
                    return Ok(());
                }
                answer => answer?,
            };
            let Some(answer) = answer else {
                self.line.lost_ground(&ground);
                return Ok(());
            };
            match answer {
                Answer::Done(_) => {
                    match later {
                        Some((spot, for_others)) => {
                            let later = &*spot.name;
                            tracing::warn!(item = %pick.path, later, reason, "an item goes back for other consumers");
                            self.line.hold_back(spot, for_others);
                        }
                        None => {
                            tracing::warn!(item = %pick.path, %dead, reason, "an item goes to the dead letters");
                        }
                    }
                    break;
                }
                Answer::Refused { part: 0, error } if error.is_no_node() => {
                    make_container(&self.line, &self.bench.claims, deadline).await?;
                }
                Answer::Refused { part: 3, error } if error.is_no_node() && later.is_none() => {
                    make_container(&self.line, &self.bench.dead, deadline).await?;
                }
                Answer::Refused { part, error } => match error.kind() {
                    ErrorKind::NodeExists | ErrorKind::NoNode | ErrorKind::BadVersion => break,
                    // It must not keep the others from being processed.
                    _ if part >= 2 && error.class() == ErrorClass::Outcome => {
                        let why = format!("{reason}, and it cannot be put aside: {error}");
                        pick.hand.shun(&why);
                        return Ok(());
                    }
                    _ => return Err(error.into()),
                },
            }
        }
        pick.hand.done();
        Ok(())
    }

    /// Lists the items that were put aside, the oldest first.
    ///
    /// # Errors
    ///
    /// When a read failed.
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
    /// A list, and a read for each of them, 64 in a flight.
    pub async fn dead_letters(&self) -> Result<Vec<DeadLetter>, Error> {
        let names = match self.line.session.list(&self.bench.dead).await {
            Ok((names, _)) => names,
            Err(error) if error.is_no_node() => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut letters = Vec::new();
        for several in names.chunks(READ_AT_ONCE) {
            let reads = several.iter().map(|name| {
                let note = below(&below(&self.bench.dead, name), NOTE);
                async move { (name, self.line.session.get(note).await) }
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

    /// Reads the data of an item that was put aside.
    ///
    /// # Errors
    ///
    /// [`DeadLetterError::Gone`], or [`DeadLetterError::Core`] when the read failed.
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
    /// One round trip.
    pub async fn dead_letter(&self, letter: &DeadLetter) -> Result<Vec<u8>, DeadLetterError> {
        match self
            .line
            .session
            .get(below(&self.bench.dead, &letter.name))
            .await
        {
            Ok((data, _)) => Ok(data),
            Err(error) if error.is_no_node() => Err(gone(letter)),
            Err(error) => Err(error.into()),
        }
    }

    /// Offers an item again that was put aside, at the end of its priority and as one that was never delivered.
    ///
    /// # Errors
    ///
    /// [`DeadLetterError::Gone`], or [`DeadLetterError::Offer`]: it is where it was then, unless that is
    /// [`OfferError::Unknown`](crate::OfferError::Unknown).
    ///
    /// # Cancel safety
    ///
    /// Not safe once it was polled: it may still be offered, and is in one of the two places in any case.
    ///
    /// # Session loss
    ///
    /// A fatal error.
    ///
    /// # Cost
    ///
    /// Two round trips.
    pub async fn revive(&self, letter: &DeadLetter) -> Result<(), DeadLetterError> {
        let data = self.dead_letter(letter).await?;
        let name = letter.name.rsplit_once('-').map_or("", |(name, _)| name);
        let priority = self
            .line
            .options
            .layout
            .parse(name)
            .map(|slot| slot.priority);
        let deadline = self.line.deadline();
        let stem = self.line.stem(priority, None, deadline).await?;
        let dead = below(&self.bench.dead, &letter.name);
        let draft = Draft { stem, data };
        let offered = self.line.offer_with(
            std::slice::from_ref(&draft),
            |transaction| transaction.delete(below(&dead, NOTE)).delete(&dead),
            deadline,
        );
        match offered.await {
            Err(crate::OfferError::Core(error)) if error.is_no_node() => Err(gone(letter)),
            other => Ok(other?),
        }
    }

    /// Deletes an item that was put aside.
    ///
    /// # Errors
    ///
    /// [`DeadLetterError::Core`]. That it is gone already is none.
    ///
    /// # Cancel safety
    ///
    /// Not safe once it was polled: it may still be deleted.
    ///
    /// # Session loss
    ///
    /// A fatal error.
    ///
    /// # Cost
    ///
    /// One round trip, and one more for the first change of a process.
    pub async fn discard(&self, letter: &DeadLetter) -> Result<(), DeadLetterError> {
        let dead = below(&self.bench.dead, &letter.name);
        // Both at once: a letter without its note would not be listed any more.
        let deadline = self.line.deadline();
        let answer = self.line.receipts.confirm(deadline, |transaction| {
            transaction.delete(below(&dead, NOTE)).delete(&dead)
        });
        match answer.await.map_err(|failure| failure.error)? {
            // Somebody else has put something below it, or taken its note away.
            Answer::Refused { error, .. }
                if error.is_no_node() || error.kind() == ErrorKind::NotEmpty =>
            {
                match self.line.session.delete(dead).recursive().await {
                    Err(error) if !error.is_no_node() => Err(error.into()),
                    _ => Ok(()),
                }
            }
            Answer::Refused { error, .. } => Err(error.into()),
            Answer::Done(_) => Ok(()),
        }
    }
}

/// An item may get the name of an earlier one when the nodes of the queue were reaped, but not its transaction.
fn name_of(item: &str, czxid: i64) -> String {
    format!("{item}-{czxid:x}")
}

fn gone(letter: &DeadLetter) -> DeadLetterError {
    DeadLetterError::Gone {
        name: letter.name.clone(),
    }
}

const NOTE: &str = "note";
const MOST_ROUNDS: u32 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_read_back_and_any_other_text_is_a_reason() {
        assert_eq!(read_note(&note(3, "a\nb")), Some((3, "a\nb".to_owned())));
        assert_eq!(read_note("somebody's text"), None);
    }
}
