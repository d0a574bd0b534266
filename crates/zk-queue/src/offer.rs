//! The builders of offers: `offer` and `offer_all`, with priority, delay and waiting time.

use std::borrow::Borrow;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use zk_core::codec::{Codec, EncodeError};
use zk_core::{ErrorKind, Transaction};

use crate::batch_limits::fitting_count;
use crate::deadline::Deadline;
use crate::error::{OfferAllError, OfferError};
use crate::item_id::ItemId;
use crate::prepared_offer::PreparedOffer;
use crate::store::{JoinedCalls, NewItem, Offers};

/// Offers an item; created by [`Queue::offer`](crate::Queue::offer) and [`WorkQueue::offer`](crate::WorkQueue::offer).
///
/// The item is placed behind all items of the same priority whose offers returned before this one began.
/// Offers that wait while others of the same queue handle and its clones are in flight are joined into one transaction,
/// of up to 500 items or half a megabyte. If an item is refused, its offer fails, and the others are sent again without
/// it.
/// If the reply is lost, the offer finds out whether the item was added; the item is never in the queue twice.
///
/// It returns the [`ItemId`]; `None` if that was in a reply that was lost, or if the servers do not report it, which
/// those before 3.8.1 do not. The item is in the queue all the same.
///
/// # Errors
///
/// See [`OfferError`].
///
/// # Cancel safety
///
/// Not cancel safe once it was polled: a request that was sent cannot be called back, and may add the item, once. If it
/// is dropped while it waits for other offers, the item is not added.
///
/// # Session loss
///
/// A fatal error; [`OfferError::Unknown`] if the item may be in the queue.
///
/// [`Session::close`](zk_core::Session::close) waits for joined offers.
///
/// # Cost
///
/// One round trip; two if other offers are in flight, however many, and a part of a request then. And these:
///
/// - two more for a new token: in the first call, and whenever more calls are in flight than before;
/// - one more for the first offer, which reads the active segment, and two when that has changed;
/// - one more with a capacity, and one more with a delay;
/// - two more if the queue's node does not exist;
/// - one more for one in at most 256 offers, which counts the items, or three if it activates the next segment.
#[derive(Debug)]
#[must_use = "nothing is offered until it is awaited"]
pub struct Offer {
    calls: Arc<JoinedCalls<Offers>>,
    data: Result<Vec<u8>, EncodeError>,
    placement: Placement,
}

/// Offers several items; created by [`Queue::offer_all`](crate::Queue::offer_all) and
/// [`WorkQueue::offer_all`](crate::WorkQueue::offer_all).
///
/// The items keep their order. They are added in as few transactions as possible, each of which adds all of its items
/// or none. In a bounded queue, each transaction adds as many items as there is room for at that moment.
///
/// It returns the ids of the items, in their order, each as that of an [`Offer`].
///
/// # Errors
///
/// See [`OfferAllError`], which has the number and the ids of the offered items.
///
/// # Cancel safety
///
/// Not cancel safe once it was polled: some of the items may be added, from the first one on, each once.
///
/// # Cost
///
/// One round trip for each 500 items or half a megabyte, paths included.
#[derive(Debug)]
#[must_use = "nothing is offered until it is awaited"]
pub struct OfferAll {
    offers: Arc<Offers>,
    data: Result<Vec<Vec<u8>>, EncodeError>,
    placement: Placement,
}

#[derive(Debug, Clone, Default)]
struct Placement {
    priority: Option<i32>,
    delay: Option<Duration>,
    id: Option<String>,
    within: Duration,
}

/// The future of an awaited offer.
pub type OfferFuture<T, E> = Pin<Box<dyn Future<Output = Result<T, E>> + Send>>;

macro_rules! placement_setters {
    ($($offer:ident),+) => {$(
        impl $offer {
            /// Sets the priority. Items with lower numbers come first. The default is 0, or 100 with [`Layout::Kazoo`].
            ///
            /// [`Layout::Kazoo`]: crate::Layout::Kazoo
            pub fn priority(mut self, priority: i32) -> Self {
                self.placement.priority = Some(priority);
                self
            }

            /// Keeps the item from being taken for this long, by the leader's clock.
            ///
            /// The clocks of clients do not matter. If the leader changes, the difference between the two leaders'
            /// clocks shifts the time.
            pub fn delay(mut self, delay: Duration) -> Self {
                self.placement.delay = Some(delay);
                self
            }

            /// Gives the item an id of the application, by which [`Queue::cancel_with_id`] removes it.
            ///
            /// Several items may have the same id. Each item of [`Layout::CuratorId`] has one, and no other item has. Like
            /// Curator, this stores `_` for each `/` and `|` of the id.
            ///
            /// [`Queue::cancel_with_id`]: crate::Queue::cancel_with_id
            /// [`Layout::CuratorId`]: crate::Layout::CuratorId
            pub fn id(mut self, id: impl Into<String>) -> Self {
                self.placement.id = Some(id.into());
                self
            }

            /// Waits for at most this long, in total, if the queue is full. By default, such an offer fails at once.
            pub fn within(mut self, time: Duration) -> Self {
                self.placement.within = time;
                self
            }
        }
    )+};
}

placement_setters!(Offer, OfferAll);

impl Offer {
    pub(crate) fn new<T>(calls: &Arc<JoinedCalls<Offers>>, codec: &dyn Codec<T>, item: &T) -> Self {
        Self {
            calls: Arc::clone(calls),
            data: codec.encode(item),
            placement: Placement::default(),
        }
    }

    /// Offers the item and applies other changes in one transaction: the item is offered if and only if the changes are
    /// applied, and both exactly once.
    ///
    /// This is what a transactional outbox is for, without an outbox. The changes may be any that a [`Transaction`] has,
    /// and checks, below any path. The closure may be called more than once, because the transaction is built again if
    /// another segment was started; it is not called at all if the queue is full.
    /// Their paths are relative to the [namespace](zk_core::Session::namespace) of the queue's session.
    ///
    /// # Errors
    ///
    /// [`OfferError::Refused`] if one of the changes was refused, and those of the offer. Unless it is
    /// [`OfferError::Unknown`], nothing was changed.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe once it was polled: the item may be offered and the changes applied, both or none, once.
    ///
    /// # Cost
    ///
    /// As an offer, but it is never joined with others.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn demo(queue: zk_queue::Queue<String>, version: i32) -> Result<(), zk_queue::OfferError> {
    /// let letter = "to anna: your order is paid".to_owned();
    /// let paid = queue.offer(&letter).commit_with(|txn| txn.set_version("/orders/7", "paid", version));
    /// paid.await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn commit_with(
        self,
        changes: impl Fn(Transaction) -> Transaction + Send + Sync,
    ) -> Result<Option<ItemId>, OfferError> {
        let offers = &self.calls.work;
        let (new_item, deadline) = new_item(offers, self.data, self.placement).await?;
        offers.offer_and_change(&new_item, changes, deadline).await
    }

    /// Prepares the offer for a transaction that the application commits, as an acknowledgement of another queue. Nothing
    /// is offered by this call.
    ///
    /// If the queue itself may commit the transaction, use [`commit_with`](Self::commit_with), which needs no repetition.
    /// The room in a bounded queue, the time from which a delay counts, and the active segment are those of this call. A
    /// segment that is started later makes the offer [outdated](PreparedOffer::is_outdated), so commit soon.
    ///
    /// # Errors
    ///
    /// See [`OfferError`]; never [`OfferError::Unknown`].
    ///
    /// # Cost
    ///
    /// Two round trips, and three if it activates the next segment; two more for a new token, in the first call; two more
    /// if the queue's node does not exist; one more with a capacity, and one more with a delay.
    pub async fn prepare(self) -> Result<PreparedOffer, OfferError> {
        let offers = &self.calls.work;
        let (new_item, deadline) = new_item(offers, self.data, self.placement).await?;
        offers.prepare(new_item, deadline).await
    }
}

impl OfferAll {
    pub(crate) fn new<T>(
        offers: &Arc<Offers>,
        codec: &dyn Codec<T>,
        items: impl IntoIterator<Item: Borrow<T>>,
    ) -> Self {
        let encoded = items.into_iter().map(|item| codec.encode(item.borrow()));
        Self {
            offers: Arc::clone(offers),
            data: encoded.collect(),
            placement: Placement::default(),
        }
    }
}

impl IntoFuture for Offer {
    type Output = Result<Option<ItemId>, OfferError>;
    type IntoFuture = OfferFuture<Option<ItemId>, OfferError>;

    fn into_future(self) -> Self::IntoFuture {
        let Self {
            calls,
            data,
            placement,
        } = self;
        Box::pin(async move {
            let (new_item, deadline) = new_item(&calls.work, data, placement).await?;
            calls.call(new_item, deadline).await
        })
    }
}

/// Waits for room, and returns the item and the deadline for offering it.
async fn new_item(
    offers: &Offers,
    data: Result<Vec<u8>, EncodeError>,
    placement: Placement,
) -> Result<(NewItem, Deadline), OfferError> {
    let data = offers.context.options.layout.frame(data?);
    offers
        .wait_for_capacity(1, Deadline::after(placement.within))
        .await?;
    let deadline = offers.context.deadline();
    let name_prefix = offers
        .name_prefix(
            placement.priority,
            placement.delay,
            placement.id.as_deref(),
            deadline,
        )
        .await?;
    let new_item = NewItem { name_prefix, data };
    offers.check_size(&new_item)?;
    Ok((new_item, deadline))
}

impl IntoFuture for OfferAll {
    type Output = Result<Vec<Option<ItemId>>, OfferAllError>;
    type IntoFuture = OfferFuture<Vec<Option<ItemId>>, OfferAllError>;

    fn into_future(self) -> Self::IntoFuture {
        let Self {
            offers,
            data,
            placement,
        } = self;
        Box::pin(async move {
            let all = data.as_ref().map_or(0, Vec::len);
            let mut ids = Vec::new();
            let offering = offer_all(&offers, data, placement, &mut ids);
            match offering.await {
                Ok(()) => Ok(ids),
                Err(source) => Err(OfferAllError {
                    offered: ids.len(),
                    ids,
                    all,
                    source,
                }),
            }
        })
    }
}

async fn offer_all(
    offers: &Arc<Offers>,
    data: Result<Vec<Vec<u8>>, EncodeError>,
    placement: Placement,
    ids: &mut Vec<Option<ItemId>>,
) -> Result<(), OfferError> {
    let data = data?;
    let name_prefix = offers
        .name_prefix(
            placement.priority,
            placement.delay,
            placement.id.as_deref(),
            offers.context.deadline(),
        )
        .await?;
    let new_items = data.into_iter().map(|data| NewItem {
        name_prefix: name_prefix.clone(),
        data: offers.context.options.layout.frame(data),
    });
    let mut new_items: Vec<_> = new_items.collect();
    let mut left = new_items.as_mut_slice();
    let mut max = MAX_OFFERED;
    let room_deadline = Deadline::after(placement.within);
    while let Some(first) = left.first() {
        offers.check_size(first)?;
        let sizes = left
            .iter()
            .take(max)
            .map(|new_item| offers.size_of(new_item));
        let count = offers
            .wait_for_capacity(fitting_count(sizes), room_deadline)
            .await?;
        if placement.delay.is_some() {
            // The delay begins now, after the wait.
            let name_prefix = offers.name_prefix(
                placement.priority,
                placement.delay,
                placement.id.as_deref(),
                offers.context.deadline(),
            );
            let name_prefix = name_prefix.await?;
            for new_item in &mut left[..count] {
                new_item.name_prefix.clone_from(&name_prefix);
            }
        }
        match offers
            .offer(&left[..count], offers.context.deadline())
            .await
        {
            // The size of the ACL in the request is not known here.
            Err(OfferError::Core(error)) if error.kind() == ErrorKind::TooLarge && count > 1 => {
                max = count / 2;
                continue;
            }
            outcome => ids.extend(outcome?),
        }
        left = &mut left[count..];
    }
    Ok(())
}

/// How many items one transaction offers at most.
const MAX_OFFERED: usize = 500;
