//! The builders of offers: `offer` and `offer_all`, with priority, delay and waiting time.

use std::borrow::Borrow;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use zk_core::ErrorKind;
use zk_core::codec::Codec;
use zk_core::codec::EncodeError;

use crate::batch_limits::fitting_count;
use crate::deadline::Deadline;
use crate::error::OfferAllError;
use crate::error::OfferError;
use crate::store::JoinedCalls;
use crate::store::NewItem;
use crate::store::Offers;

/// Offers an item; created by [`Queue::offer`](crate::Queue::offer) and [`WorkQueue::offer`](crate::WorkQueue::offer).
///
/// The item is placed behind all items of the same priority whose offers returned before this one began.
/// Offers that wait while others of the same queue handle and its clones are in flight are joined into one transaction,
/// of up to 500 items or half a megabyte. If an item is refused, its offer fails, and the others are sent again without
/// it.
/// If the reply is lost, the offer finds out whether the item was added; the item is never in the queue twice.
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
/// # Errors
///
/// See [`OfferAllError`], which has the number of offered items.
///
/// # Cancel safety
///
/// Not cancel safe once it was polled: some of the items may be added, from the first one on, each once.
///
/// # Session loss
///
/// As for [`Offer`].
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

#[derive(Debug, Clone, Copy, Default)]
struct Placement {
    priority: Option<i32>,
    delay: Option<Duration>,
    within: Duration,
}

/// The future of an awaited offer.
pub type OfferFuture<E> = Pin<Box<dyn Future<Output = Result<(), E>> + Send>>;

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
    type Output = Result<(), OfferError>;
    type IntoFuture = OfferFuture<OfferError>;

    fn into_future(self) -> Self::IntoFuture {
        let Self {
            calls,
            data,
            placement,
        } = self;
        Box::pin(async move {
            let offers = &calls.work;
            let data = offers.context.options.layout.frame(data?);
            offers
                .wait_for_capacity(1, Deadline::after(placement.within))
                .await?;
            let deadline = offers.context.deadline();
            let name_prefix = offers
                .name_prefix(placement.priority, placement.delay, deadline)
                .await?;
            let new_item = NewItem { name_prefix, data };
            offers.check_size(&new_item)?;
            calls.call(new_item, deadline).await
        })
    }
}

impl IntoFuture for OfferAll {
    type Output = Result<(), OfferAllError>;
    type IntoFuture = OfferFuture<OfferAllError>;

    fn into_future(self) -> Self::IntoFuture {
        let Self {
            offers,
            data,
            placement,
        } = self;
        Box::pin(async move {
            let all = data.as_ref().map_or(0, Vec::len);
            let mut offered = 0;
            let offering = offer_all(&offers, data, placement, &mut offered);
            offering.await.map_err(|source| OfferAllError {
                offered,
                all,
                source,
            })
        })
    }
}

async fn offer_all(
    offers: &Arc<Offers>,
    data: Result<Vec<Vec<u8>>, EncodeError>,
    placement: Placement,
    offered: &mut usize,
) -> Result<(), OfferError> {
    let data = data?;
    let name_prefix = offers
        .name_prefix(
            placement.priority,
            placement.delay,
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
            outcome => outcome?,
        }
        *offered += count;
        left = &mut left[count..];
    }
    Ok(())
}

/// How many items one transaction offers at most.
const MAX_OFFERED: usize = 500;
