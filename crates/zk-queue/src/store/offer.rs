//! Putting items in.

use std::time::Duration;

use zk_core::Changed;
use zk_core::CreateMode;
use zk_core::Error;
use zk_core::ErrorClass;
use zk_core::ErrorKind;
use zk_core::Sequence;
use zk_core::Transaction;

use super::Line;
use super::segments::Tail;
use crate::batch_limits::largest;
use crate::deadline::Deadline;
use crate::error::OfferError;
use crate::idempotency::Answer;
use crate::layout::Unfit;
use crate::leader_clock::whole_millis;

/// An item that is to be offered.
#[derive(Debug, Clone)]
pub(crate) struct Draft {
    /// The name without the number.
    pub(crate) stem: String,
    pub(crate) data: Vec<u8>,
}

impl Line {
    /// What offering an item adds to a request, or to its answer.
    pub(crate) fn size_of(&self, draft: &Draft) -> usize {
        let segment = self.place.segment(u32::MAX);
        segment.as_str().len() + draft.stem.len() + draft.data.len()
    }

    /// Refuses an item that could be offered, and then neither be claimed nor put back: those take more of a request.
    pub(crate) fn check_size(&self, draft: &Draft) -> Result<(), OfferError> {
        let item = self.place.item(u32::MAX, &draft.stem);
        let (namespace, chroot) = (self.session.namespace(), self.session.servers().chroot());
        let longest = [item.as_str(), namespace.as_str(), chroot.as_str()];
        let longest = longest.map(str::len).iter().sum::<usize>() + NUMBER;
        let (bytes, most) = (draft.data.len(), largest(longest));
        if bytes <= most {
            return Ok(());
        }
        Err(OfferError::TooLarge {
            path: self.place.items.clone(),
            bytes,
            most,
        })
    }

    /// The name of an item without its number.
    pub(crate) async fn stem(
        &self,
        priority: Option<i32>,
        delay: Option<Duration>,
        deadline: Deadline,
    ) -> Result<String, OfferError> {
        let layout = self.options.layout;
        let due = match delay {
            None => 0,
            Some(_) if !layout.has_delays() => return Err(OfferError::Delay { layout }),
            Some(delay) => self
                .due_after(delay, deadline)
                .await
                .map_err(OfferError::Core)?,
        };
        layout
            .stem(priority, due)
            .map_err(|unfit| match (unfit, priority) {
                (Unfit::Priority, Some(priority)) => OfferError::Priority { priority, layout },
                _ => OfferError::Delay { layout },
            })
    }

    /// When an item is due that is to rest for so long, by the leader's clock.
    pub(crate) async fn due_after(
        &self,
        delay: Duration,
        deadline: Deadline,
    ) -> Result<u64, Error> {
        let latest = self.receipts.latest_leader_time(deadline).await?;
        Ok(latest.saturating_add(whole_millis(delay)))
    }

    /// Offers items, all or none.
    pub(crate) async fn offer(
        &self,
        drafts: &[Draft],
        deadline: Deadline,
    ) -> Result<(), OfferError> {
        self.offer_with(drafts, |nothing_else| nothing_else, deadline)
            .await
    }

    /// Offers items and makes other changes, all or none.
    pub(crate) async fn offer_with(
        &self,
        drafts: &[Draft],
        others: impl Fn(Transaction) -> Transaction,
        deadline: Deadline,
    ) -> Result<(), OfferError> {
        let sequential = CreateMode::Persistent {
            sequential: true,
            ttl: None,
        };
        let mut rounds = 0;
        loop {
            rounds += 1;
            let tail = self.tail(deadline).await?;
            let segment = self.place.segment(tail.segment);
            let answer = self.receipts.confirm(deadline, |transaction| {
                let checked = transaction.check_version(&self.place.desk, tail.version);
                others(drafts.iter().fold(checked, |transaction, draft| {
                    let path = crate::paths::below(&segment, &draft.stem);
                    transaction.create_as(path, draft.data.clone(), sequential, None)
                }))
            });
            match answer.await? {
                Answer::Done(changed) => {
                    let numbers: Vec<i32> =
                        changed.iter().flatten().filter_map(number_of).collect();
                    self.roll_if_full(tail, &numbers, deadline).await;
                    return Ok(());
                }
                Answer::Refused { error, .. } if rounds == MOST_ROUNDS => {
                    return Err(OfferError::Core(error));
                }
                Answer::Refused { part, error } if part > drafts.len() => {
                    return Err(OfferError::Core(error));
                }
                // Offers go elsewhere meanwhile.
                Answer::Refused { part: 0, .. } => self.forget_tail(tail),
                Answer::Refused { error, .. } => match error.kind() {
                    ErrorKind::NoNode if tail.segment == 0 => {
                        self.make_items_node(deadline).await?;
                    }
                    ErrorKind::NoNode => {
                        self.heal_tail(tail, deadline)
                            .await
                            .map_err(OfferError::Core)?;
                    }
                    ErrorKind::NodeExists => self.skip_number(tail, deadline).await?,
                    _ => return Err(OfferError::Core(error)),
                },
            }
        }
    }

    /// Makes the node of the queue. Servers remove it when it was empty for a while; then it is made anew.
    async fn make_items_node(&self, deadline: Deadline) -> Result<(), OfferError> {
        let items = self.session.create(&self.place.items, "");
        let made = items
            .container()
            .container_parents()
            .timeout(deadline.remaining());
        match made.await {
            Err(error) if error.is_node_exists() || is_passing(&error) => Ok(()),
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                // Servers before 3.5 know no containers.
                let items = self.session.create(&self.place.items, "").parents();
                match items.timeout(deadline.remaining()).await {
                    Err(error) if !error.is_node_exists() => Err(OfferError::Core(error)),
                    _ => Ok(()),
                }
            }
            Err(error) => Err(OfferError::Core(error)),
            Ok(_) => Ok(()),
        }
    }

    /// Uses up a number that the counter gives although a child has it: one that was put back, or the counter sticks.
    async fn skip_number(&self, tail: Tail, deadline: Deadline) -> Result<(), OfferError> {
        let path = self.place.item(tail.segment, "skipped-");
        let skipped = self.session.create(path, "").ephemeral().sequential();
        let owned = skipped.owned().timeout(deadline.remaining());
        let node = owned.await.map_err(OfferError::Core)?;
        let number = node.path().name().and_then(Sequence::split);
        if number.is_some_and(|(_, number)| number.is_near_end()) {
            // The next look at where offers go says what is to be done.
            self.forget_tail(tail);
        }
        node.delete().await.map_err(OfferError::Core)
    }
}

/// An unknown outcome of something that is looked at again anyway.
fn is_passing(error: &Error) -> bool {
    error.is_outcome_unknown() && error.class() == ErrorClass::Recoverable
}

fn number_of(changed: &Changed) -> Option<i32> {
    match changed {
        Changed::Created { path, .. } => Some(Sequence::split(path.name()?)?.1.number()),
        _ => None,
    }
}

/// How many digits the number of an item has.
const NUMBER: usize = 10;
/// How often an offer is made anew because nodes came and went at the wrong moments.
const MOST_ROUNDS: u32 = 64;
