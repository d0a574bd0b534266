//! Pages of dead letters, and changes of many of them: several in one transaction.
//!
//! A dead letter's name ends in the zxid that created its item. That gives all names an order which does not change when
//! others come and go.

use std::time::{Duration, SystemTime};

use futures_util::future;
use zk_core::{Error, ErrorKind};

use super::{DeadLetter, READ_AT_ONCE, WorkQueue};
use crate::batch_limits::{expected_largest, fitting_count, next_read_count};
use crate::error::{DeadLetterBatchError, DeadLetterError, OfferError};
use crate::paths::child;

impl<T: Send + 'static> WorkQueue<T> {
    /// Lists up to `max` dead letters (at most 1000): the first ones, or those after the one with the name `after`.
    ///
    /// Pass the name of the last one of a page to get the next page. An empty page is the end.
    /// Unlike [`dead_letters`](Self::dead_letters), the order is that in which the items were added to the queue, or
    /// postponed for the last time. It does not depend on which dead letters exist: one that exists all the time is in
    /// exactly one page, and `after` need not exist any more. One that is added meanwhile may be in a later page or in
    /// none.
    ///
    /// # Errors
    ///
    /// If a read failed.
    ///
    /// # Cost
    ///
    /// A list of all names, and a read for each dead letter of the page, 64 in a flight.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn demo(queue: zk_queue::WorkQueue<String>) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut page = queue.dead_letter_page(None, 50).await?;
    /// while let Some(last) = page.last() {
    ///     for letter in &page {
    ///         let data = queue.dead_letter(letter).await?;
    ///         match queue.decode_dead_letter(&data) {
    ///             Ok(item) => println!("{item}: {}", letter.reason),
    ///             Err(_) => println!("{data:?}: {}", letter.reason),
    ///         }
    ///     }
    ///     page = queue.dead_letter_page(Some(&last.name), 50).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn dead_letter_page(
        &self,
        after: Option<&str>,
        max: usize,
    ) -> Result<Vec<DeadLetter>, Error> {
        let max = max.min(MAX_PAGE);
        let mut names = self.dead_letter_names().await?;
        if let Some(after) = after {
            names.retain(|name| order(name) > order(after));
        }
        let mut page = Vec::new();
        while page.len() < max && !names.is_empty() {
            let count = (max - page.len()).min(READ_AT_ONCE).min(names.len());
            let several: Vec<_> = names.drain(..count).collect();
            page.extend(self.read_dead_letters(&several).await?);
        }
        Ok(page)
    }

    /// Offers up to `max` dead letters again, in the order of [`dead_letter_page`](Self::dead_letter_page), each at the
    /// end of its priority and with no deliveries so far. Returns how many.
    ///
    /// It is about the dead letters that exist when it begins: an item that becomes one again meanwhile stays one.
    /// Those that another caller offers again or discards first are left out, and not counted. So are those below which
    /// another client created nodes, with a warning.
    ///
    /// # Errors
    ///
    /// [`DeadLetterBatchError`], with the number of those that were offered again before. The others are still dead
    /// letters, unless the outcome is unknown ([`OfferError::Unknown`]): then either all dead letters of the next
    /// transaction were offered again or none.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe once it was polled: those of one transaction may still be offered. Each item is either in the
    /// queue or a dead letter.
    ///
    /// # Session loss
    ///
    /// The cause is a fatal error. Each item is either in the queue or a dead letter.
    ///
    /// # Cost
    ///
    /// A list of all names, a read for each dead letter, and a write for each 64 of them, or half a megabyte. One more
    /// write for each that is left out.
    pub async fn redrive_up_to(&self, max: usize) -> Result<usize, DeadLetterBatchError> {
        let mut done = 0;
        let redriven = self.redrive_first(max, &mut done).await;
        count_or_error(done, redriven)
    }

    /// Deletes up to `max` dead letters that have been dead letters for at least `age` by the leader's clock; with
    /// [`Duration::ZERO`], of any age. Returns how many.
    ///
    /// It is about the dead letters that exist when it begins, in the order of
    /// [`dead_letter_page`](Self::dead_letter_page). Those that another caller offers again or discards first are not
    /// counted.
    ///
    /// # Errors
    ///
    /// [`DeadLetterBatchError`], with the number of those that were deleted before. If the outcome is unknown (a
    /// [`Core`](DeadLetterError::Core) error with [`is_outcome_unknown`](Error::is_outcome_unknown)), either all dead
    /// letters of the next transaction were deleted or none.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe once it was polled: those of one transaction may still be deleted.
    ///
    /// # Cost
    ///
    /// A list of all names, a read for each dead letter until `max` are old enough, a write for each 64 of those, and
    /// one more for each that is gone. A write if the leader's time is not known.
    pub async fn discard_older_than(
        &self,
        age: Duration,
        max: usize,
    ) -> Result<usize, DeadLetterBatchError> {
        let mut done = 0;
        let discarded = self.discard_old(age, max, &mut done).await;
        count_or_error(done, discarded)
    }

    async fn redrive_first(&self, max: usize, done: &mut usize) -> Result<(), DeadLetterError> {
        let mut names = self.dead_letter_names().await?;
        names.truncate(max);
        let mut largest = None;
        while !names.is_empty() {
            let count = next_read_count(largest).min(READ_AT_ONCE).min(names.len());
            let several = names.drain(..count);
            let mut letters = self.read_letter_data(several.collect()).await?;
            largest = expected_largest(largest, letters.iter().map(|(_, data)| data.len()));
            while !letters.is_empty() {
                let size = |(name, data): &(String, Vec<u8>)| {
                    data.len() + 3 * (self.context.paths.dead_letters.as_str().len() + name.len())
                };
                let rest = letters.split_off(fitting_count(letters.iter().map(size)));
                *done += self.redrive_batch(letters).await?;
                letters = rest;
            }
        }
        Ok(())
    }

    /// Offers dead letters again in one transaction, without those that are gone. Returns how many.
    async fn redrive_batch(
        &self,
        mut letters: Vec<(String, Vec<u8>)>,
    ) -> Result<usize, DeadLetterError> {
        while !letters.is_empty() {
            let all = letters.iter().map(|(name, data)| (&**name, &**data));
            let all: Vec<_> = all.collect();
            let failure = match self.offer_again(&all).await {
                Ok(()) => return Ok(letters.len()),
                Err(failure) => failure,
            };
            let refused = match &failure {
                OfferError::Core(error) => refused_letter(error, 1 + letters.len()),
                _ => None,
            };
            let Some((refused, kind)) = refused else {
                return Err(failure.into());
            };
            let (name, _) = letters.remove(refused);
            if kind == ErrorKind::NotEmpty {
                tracing::warn!(
                    name,
                    "the dead letter is not offered again, because it has other children"
                );
            }
        }
        Ok(0)
    }

    async fn discard_old(
        &self,
        age: Duration,
        max: usize,
        done: &mut usize,
    ) -> Result<(), DeadLetterError> {
        let mut names = self.dead_letter_names().await?;
        let latest = if age.is_zero() {
            None
        } else {
            let context = &self.store.context;
            let now = context.leader_time(context.deadline()).await?;
            let now = SystemTime::UNIX_EPOCH + Duration::from_millis(now);
            // Nothing is older than time itself.
            Some(now.checked_sub(age).unwrap_or(SystemTime::UNIX_EPOCH))
        };
        while *done < max && !names.is_empty() {
            let count = READ_AT_ONCE.min(names.len());
            let several: Vec<_> = names.drain(..count).collect();
            let mut letters = self.read_dead_letters(&several).await?;
            letters.retain(|letter| latest.is_none_or(|latest| letter.since <= latest));
            letters.truncate(max - *done);
            self.discard_batch(letters, done).await?;
        }
        Ok(())
    }

    /// Deletes dead letters in one transaction, without those that are gone.
    async fn discard_batch(
        &self,
        mut letters: Vec<DeadLetter>,
        done: &mut usize,
    ) -> Result<(), DeadLetterError> {
        while !letters.is_empty() {
            let context = &self.store.context;
            let names = letters.iter().map(|letter| &*letter.name);
            let deleted = self.delete_letters(context.session.transaction(), names);
            let error = match context.commit(deleted, context.deadline()).await {
                Ok(_) => {
                    *done += letters.len();
                    return Ok(());
                }
                Err(failure) => failure.error,
            };
            let Some((refused, kind)) = refused_letter(&error, 0) else {
                return Err(error.into());
            };
            let letter = letters.remove(refused);
            if kind == ErrorKind::NotEmpty {
                self.discard(&letter).await?;
                *done += 1;
            }
        }
        Ok(())
    }

    /// Lists the names of the dead letters, in their order.
    pub(super) async fn dead_letter_names(&self) -> Result<Vec<String>, Error> {
        let context = &self.store.context;
        let names = context.child_names(&self.context.paths.dead_letters, context.deadline());
        let mut names = names.await?;
        names.sort_by(|a, b| order(a).cmp(&order(b)));
        Ok(names)
    }

    /// Reads the data of dead letters concurrently, without those that no longer exist.
    async fn read_letter_data(&self, names: Vec<String>) -> Result<Vec<(String, Vec<u8>)>, Error> {
        let session = &self.store.context.session;
        let reads = names.iter().map(|name| async {
            let read = session.get(child(&self.context.paths.dead_letters, name));
            read.await
        });
        let mut letters = Vec::new();
        for (read, name) in future::join_all(reads).await.into_iter().zip(&names) {
            match read {
                Ok((data, _)) => letters.push((name.clone(), data.into())),
                Err(error) if error.is_no_node() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(letters)
    }
}

/// Returns how many dead letters were changed, with the error if there is one.
fn count_or_error(
    done: usize,
    changed: Result<(), DeadLetterError>,
) -> Result<usize, DeadLetterBatchError> {
    match changed {
        Ok(()) => Ok(done),
        Err(source) => Err(DeadLetterBatchError { done, source }),
    }
}

/// Returns the key by which dead letters are ordered: the zxid that created the item, which is at the end of the name.
fn order(name: &str) -> (u64, &str) {
    let czxid = name.rsplit_once('-').map(|(_, czxid)| czxid);
    let czxid = czxid.and_then(|czxid| u64::from_str_radix(czxid, 16).ok());
    (czxid.unwrap_or(0), name)
}

/// Returns which dead letter of a transaction is gone or has other children, counted from zero.
///
/// There are `before` parts before the first one, and two for each.
fn refused_letter(error: &Error, before: usize) -> Option<(usize, ErrorKind)> {
    let part = error.failed_part()?.checked_sub(before)?;
    let kind = error.kind();
    matches!(kind, ErrorKind::NoNode | ErrorKind::NotEmpty).then_some((part / 2, kind))
}

/// How many dead letters a page has at most.
const MAX_PAGE: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dead_letters_are_ordered_by_the_zxid_that_created_them() {
        let sorted = [
            "foreign",
            "w-9-0-0-0000000001-9",
            "w-0-0-0-0000000007-1f",
            "w-0-0-0-0000000002-100000000",
        ];
        for pair in sorted.windows(2) {
            assert!(order(pair[0]) < order(pair[1]), "{pair:?}");
        }
    }
}
