//! Offers, as builders that end in `.await`.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use zk_core::ErrorKind;
use zk_core::codec::EncodeError;

use crate::batch_limits::fitting;
use crate::curator_frame as frame;
use crate::deadline::Deadline;
use crate::error::OfferAllError;
use crate::error::OfferError;
use crate::store::Draft;
use crate::store::Line;

/// Offers an item; made by [`Queue::offer`](crate::Queue::offer) and [`WorkQueue::offer`](crate::WorkQueue::offer).
///
/// The item is behind all those whose offers were answered before this one began, of the same priority.
/// When the answer is lost, it is found out whether the item was offered; it is never in the queue twice.
///
/// # Errors
///
/// See [`OfferError`].
///
/// # Cancel safety
///
/// Not safe once it was polled, because a request that has left cannot be called back: the item may still be offered,
/// once.
///
/// # Session loss
///
/// A fatal error; it is [`OfferError::Unknown`] if the item may be in the queue.
///
/// # Cost
///
/// One round trip, and two more for the first one of those that are made at the same time.
/// One more for the first one of all, which reads where offers go, and two when another segment was begun since.
/// With a capacity or a delay, one more; the first one into a queue whose node is not there makes that, which are two.
/// One of at most 256 looks how many items there are, which is one more, or three if it begins a segment.
#[derive(Debug)]
#[must_use = "nothing is offered until it is awaited"]
pub struct Offer {
    line: Arc<Line>,
    data: Result<Vec<u8>, EncodeError>,
    placing: Placing,
}

/// Offers several items; made by [`Queue::offer_all`](crate::Queue::offer_all) and
/// [`WorkQueue::offer_all`](crate::WorkQueue::offer_all).
///
/// They come in their order, in as few transactions as hold them, each of which is carried out as a whole or not at all.
/// Where the queue is bounded, each has as many items as there is room for at that moment.
///
/// # Errors
///
/// See [`OfferAllError`], which tells how many were offered.
///
/// # Cancel safety
///
/// Not safe once it was polled: some of the items may be offered, from the first one on, each once.
///
/// # Session loss
///
/// As of [`Offer`].
///
/// # Cost
///
/// One round trip for each 500 items or half a megabyte, paths included.
#[derive(Debug)]
#[must_use = "nothing is offered until it is awaited"]
pub struct OfferAll {
    line: Arc<Line>,
    data: Result<Vec<Vec<u8>>, EncodeError>,
    placing: Placing,
}

#[derive(Debug, Clone, Copy, Default)]
struct Placing {
    priority: Option<i32>,
    delay: Option<Duration>,
    within: Duration,
}

/// What an offer is when it is awaited.
pub type OfferFuture<E> = Pin<Box<dyn Future<Output = Result<(), E>> + Send>>;

macro_rules! placing {
    ($($offer:ident),+) => {$(
        impl $offer {
            /// Sets the priority; the least comes first, and the default is 0, with kazoo's layout 100.
            pub fn priority(mut self, priority: i32) -> Self {
                self.placing.priority = Some(priority);
                self
            }

            /// Lets it be taken only after so long, by the leader's clock.
            ///
            /// The clock of no client counts. A leader whose clock differs from that of the one before it moves the
            /// moment by as much.
            pub fn delay(mut self, delay: Duration) -> Self {
                self.placing.delay = Some(delay);
                self
            }

            /// Waits for so long at most, in all, if the queue is full; by default it is refused then.
            pub fn within(mut self, time: Duration) -> Self {
                self.placing.within = time;
                self
            }
        }
    )+};
}

placing!(Offer, OfferAll);

impl Offer {
    pub(crate) fn new(line: &Arc<Line>, data: Result<Vec<u8>, EncodeError>) -> Self {
        Self {
            line: Arc::clone(line),
            data,
            placing: Placing::default(),
        }
    }
}

impl OfferAll {
    pub(crate) fn new(line: &Arc<Line>, data: Result<Vec<Vec<u8>>, EncodeError>) -> Self {
        Self {
            line: Arc::clone(line),
            data,
            placing: Placing::default(),
        }
    }
}

impl IntoFuture for Offer {
    type Output = Result<(), OfferError>;
    type IntoFuture = OfferFuture<OfferError>;

    fn into_future(self) -> Self::IntoFuture {
        let Self {
            line,
            data,
            placing,
        } = self;
        Box::pin(async move {
            let data = framed(&line, data?);
            line.room(1, Deadline::after(placing.within)).await?;
            let deadline = line.deadline();
            let stem = line.stem(placing.priority, placing.delay, deadline).await?;
            let draft = Draft { stem, data };
            line.check_size(&draft)?;
            line.offer(&[draft], deadline).await
        })
    }
}

impl IntoFuture for OfferAll {
    type Output = Result<(), OfferAllError>;
    type IntoFuture = OfferFuture<OfferAllError>;

    fn into_future(self) -> Self::IntoFuture {
        let Self {
            line,
            data,
            placing,
        } = self;
        Box::pin(async move {
            let all = data.as_ref().map_or(0, Vec::len);
            let mut offered = 0;
            let offering = offer_all(&line, data, placing, &mut offered);
            offering.await.map_err(|source| OfferAllError {
                offered,
                all,
                source,
            })
        })
    }
}

async fn offer_all(
    line: &Arc<Line>,
    data: Result<Vec<Vec<u8>>, EncodeError>,
    placing: Placing,
    offered: &mut usize,
) -> Result<(), OfferError> {
    let data = data?;
    let stem = line
        .stem(placing.priority, placing.delay, line.deadline())
        .await?;
    let drafts = data.into_iter().map(|data| Draft {
        stem: stem.clone(),
        data: framed(line, data),
    });
    let mut drafts: Vec<_> = drafts.collect();
    let mut left = drafts.as_mut_slice();
    let mut most = MOST_AT_ONCE;
    let patience = Deadline::after(placing.within);
    while let Some(first) = left.first() {
        line.check_size(first)?;
        let sizes = left.iter().take(most).map(|draft| line.size_of(draft));
        let room = line.room(fitting(sizes), patience).await?;
        if placing.delay.is_some() {
            // They may have waited until now.
            let stem = line.stem(placing.priority, placing.delay, line.deadline());
            let stem = stem.await?;
            for draft in &mut left[..room] {
                draft.stem.clone_from(&stem);
            }
        }
        match line.offer(&left[..room], line.deadline()).await {
            // Nobody told us how much the access rules take.
            Err(OfferError::Core(error)) if error.kind() == ErrorKind::TooLarge && room > 1 => {
                most = room / 2;
                continue;
            }
            answer => answer?,
        }
        *offered += room;
        left = &mut left[room..];
    }
    Ok(())
}

fn framed(line: &Line, data: Vec<u8>) -> Vec<u8> {
    if line.options.layout.is_framed() {
        frame::encode([data.as_slice()])
    } else {
        data
    }
}

impl Line {
    /// Waits until the queue has room, and answers for how many, so many at most.
    async fn room(&self, items: usize, patience: Deadline) -> Result<usize, OfferError> {
        let Some(capacity) = self.options.capacity else {
            return Ok(items);
        };
        loop {
            let len = self.len(self.deadline()).await.map_err(OfferError::Core)?;
            // One that may have no items at all takes one when it is empty.
            let free = capacity.max(1).saturating_sub(len);
            if free > 0 {
                return Ok(free.min(items));
            }
            if patience.is_over() {
                return Err(OfferError::Full {
                    path: self.place.items.clone(),
                    len,
                    capacity,
                });
            }
            self.wait_for_less(len, patience)
                .await
                .map_err(OfferError::Core)?;
        }
    }
}

const MOST_AT_ONCE: usize = 500;
