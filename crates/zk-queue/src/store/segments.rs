//! Where offers go when the node of the queue has as many children as one list can have.
//!
//! The data of the desk names the segment that offers go to; every offer is carried out only if that is still so, so
//! that nothing comes into a segment once another one was begun. Consumers take the segments in their order.
//!
//! A server numbers the items of a node from a counter of 32 bits, and gives its last number again and again: then a later
//! item has the name and the version of one that a consumer has read, and is taken for it. So offers leave the queue's
//! own node half-way, and where other clients share it, which see no segments, they are refused shortly before the end.

use zk_core::Error;
use zk_core::ErrorKind;
use zk_core::NodePath;
use zk_core::Stat;

use super::Line;
use crate::deadline::Deadline;
use crate::error::OfferError;
use crate::idempotency::lock;
use crate::layout::Layout;
use crate::paths::segment_of;

/// The segment that offers go to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tail {
    /// Zero for the queue's own node.
    pub(super) segment: u32,
    /// The version of the data that says so.
    pub(super) version: i32,
}

impl Tail {
    /// What the desk says then.
    pub(super) fn data(self) -> String {
        match self.segment {
            0 => String::new(),
            segment => format!("{segment:010}"),
        }
    }
}

impl Line {
    /// The segment that offers go to, as was read last.
    pub(super) async fn tail(&self, deadline: Deadline) -> Result<Tail, OfferError> {
        let known = *lock(&self.tail);
        if let Some(tail) = known {
            return Ok(tail);
        }
        loop {
            let (tail, next) = self.read_tail(deadline).await.map_err(OfferError::Core)?;
            if let Some(tail) = self.with_numbers_left(tail, next, deadline).await? {
                *lock(&self.tail) = Some(tail);
                return Ok(tail);
            }
        }
    }

    /// The segment to offer to so that no number is given twice; nothing if somebody else has just begun another one.
    async fn with_numbers_left(
        &self,
        tail: Tail,
        next: u32,
        deadline: Deadline,
    ) -> Result<Option<Tail>, OfferError> {
        if tail.segment != 0 {
            return Ok(Some(tail));
        }
        match self.options.layout.use_of(next) {
            Numbers::Left => Ok(Some(tail)),
            Numbers::HalfUsed => match self.roll(tail, deadline).await {
                Ok(begun) => Ok(begun),
                // There are many left: the next offers try again.
                Err(error) if next < LAST => {
                    tracing::debug!(%error, "no segment could be begun");
                    Ok(Some(tail))
                }
                Err(error) => Err(OfferError::Core(error)),
            },
            Numbers::UsedUp => Err(OfferError::Exhausted {
                path: self.place.items.clone(),
            }),
        }
    }

    /// Goes on with another one that was read.
    pub(super) fn replace_tail(&self, tail: Tail) {
        *lock(&self.tail) = Some(tail);
    }

    /// Forgets it, unless somebody else has read another one meanwhile.
    pub(super) fn forget_tail(&self, tail: Tail) {
        let mut known = lock(&self.tail);
        if *known == Some(tail) {
            *known = None;
        }
    }

    /// Reads it from a server that has caught up, and which number the next child of the queue's own node gets. The desk
    /// is there while there is a receipt.
    async fn read_tail(&self, deadline: Deadline) -> Result<(Tail, u32), Error> {
        let sync = self
            .session
            .sync(&self.place.desk)
            .timeout(deadline.remaining());
        let get = self
            .session
            .get(&self.place.desk)
            .timeout(deadline.remaining());
        let look = self.session.exists(&self.place.items);
        let (synced, got, items) = futures_util::future::join3(
            sync.into_future(),
            get.into_future(),
            look.timeout(deadline.remaining()).into_future(),
        )
        .await;
        synced?;
        let (data, version) = match got {
            Ok((data, stat)) => (data, stat.version),
            Err(error) if error.is_no_node() => (Vec::new(), 0),
            Err(error) => return Err(error),
        };
        let tail = Tail {
            segment: self.segment_in(&data),
            version,
        };
        Ok((tail, items?.as_ref().map_or(0, next_number)))
    }

    pub(super) fn segment_in(&self, data: &[u8]) -> u32 {
        if data.is_empty() {
            return 0;
        }
        let segment = std::str::from_utf8(data).ok().and_then(segment_of);
        segment.unwrap_or_else(|| {
            tracing::warn!(path = %self.place.desk, "its data names no segment; it is taken for empty");
            0
        })
    }

    /// Begins the next segment if this one has as many items, or has given as many numbers, as it may; the numbers are
    /// those that an offer was given.
    pub(super) async fn roll_if_full(&self, tail: Tail, numbers: &[i32], deadline: Deadline) {
        let size = self.options.segment_size;
        let layout = self.options.layout;
        let is_worn = |number: &i32| layout.use_of(number.cast_unsigned()) != Numbers::Left;
        if tail.segment == 0 && numbers.iter().any(is_worn) {
            // The next offer looks where it can go, and begins a segment or is refused.
            self.forget_tail(tail);
            return;
        }
        let is_due = match tail.segment {
            // Other clients take items and offer some here, and the counter goes on: only the server knows.
            0 => {
                let step = i32::try_from((size / 4).clamp(1, LOOK_EVERY)).unwrap_or(1);
                numbers.iter().any(|number| number.rem_euclid(step) == 0)
            }
            // It has had so many.
            _ => numbers
                .iter()
                .any(|number| number.cast_unsigned().saturating_add(1) >= size.min(HALF)),
        };
        if !is_due {
            return;
        }
        let rolled = async {
            if tail.segment == 0 {
                let stat = self
                    .session
                    .stat(&self.place.items)
                    .timeout(deadline.remaining());
                if stat.await?.num_children < size {
                    return Ok(());
                }
            }
            self.roll(tail, deadline).await.map(drop)
        };
        if let Err(error) = rolled.await {
            // The next offers try again; this one was carried out.
            tracing::debug!(%error, "no segment could be begun");
        }
    }

    /// Begins the next segment; nothing if somebody else has.
    async fn roll(&self, tail: Tail, deadline: Deadline) -> Result<Option<Tail>, Error> {
        let next = tail.segment + 1;
        let made = self
            .session
            .create(self.place.segment(next), "")
            .container_parents()
            .or_set()
            .timeout(deadline.remaining());
        made.await?;
        let set = self
            .session
            .set(&self.place.desk, format!("{next:010}"))
            .version(tail.version)
            .idempotent()
            .timeout(deadline.remaining());
        let moved = set.await;
        self.forget_tail(tail);
        match moved {
            Ok(stat) => {
                tracing::debug!(path = %self.place.items, segment = next, "offers go to the next segment");
                Ok(Some(Tail {
                    segment: next,
                    version: stat.version,
                }))
            }
            Err(error) if error.kind() == ErrorKind::BadVersion => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Sends offers back to the queue's own node, because the segment they went to was deleted.
    pub(super) async fn heal_tail(&self, tail: Tail, deadline: Deadline) -> Result<(), Error> {
        let set = self.session.set(&self.place.desk, "").version(tail.version);
        let healed = set.timeout(deadline.remaining()).await;
        self.forget_tail(tail);
        match healed {
            Err(error) if error.kind() == ErrorKind::BadVersion || error.is_no_node() => Ok(()),
            Err(error) if error.is_outcome_unknown() && !error.is_fatal() => Ok(()),
            other => other.map(|_| ()),
        }
    }

    /// Removes a segment that is empty, and sends offers back to the queue's own node if all others are gone; tells
    /// whether it is gone.
    ///
    /// One into which something was put back meanwhile stays, and offers go on behind it.
    pub(super) async fn retire(&self, segment: u32, tail: Tail, are_others_gone: bool) -> bool {
        let path: NodePath = self.place.segment(segment);
        let removed = if segment != tail.segment {
            self.session.delete(&path).await
        } else if are_others_gone {
            let both = self.session.transaction();
            let both = both
                .set_version(&self.place.desk, "", tail.version)
                .delete(&path);
            let removed = both.commit().await.map(|_| ());
            self.forget_tail(tail);
            removed
        } else {
            return false;
        };
        match removed {
            Ok(()) => true,
            Err(error) if error.is_no_node() => true,
            // Something was offered, or put back; and it does no harm where it is.
            Err(error) => {
                tracing::trace!(%path, %error, "an empty segment was not removed");
                false
            }
        }
    }
}

/// How much of its numbers the queue's own node has given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Numbers {
    Left,
    /// It is time to go on in a segment.
    HalfUsed,
    /// There can be no segment, and soon a number would be given twice.
    UsedUp,
}

impl Layout {
    /// What an offer does whose number would be this one; one that has wrapped is taken for the large number it was.
    const fn use_of(self, number: u32) -> Numbers {
        match self {
            Self::Native if number >= HALF => Numbers::HalfUsed,
            Self::Native => Numbers::Left,
            _ if number >= LAST => Numbers::UsedUp,
            _ => Numbers::Left,
        }
    }
}

/// The number that the next child of a node gets.
///
/// Servers count creations, and tell twice as many less the children that are there: creations and deletions.
fn next_number(stat: &Stat) -> u32 {
    stat.cversion
        .cast_unsigned()
        .wrapping_add(stat.num_children)
        / 2
}

/// From which number on offers go to a segment.
const HALF: u32 = 1 << 30;
/// From which number on offers are refused: so many before the end that all that are in flight then have another one.
const LAST: u32 = (1 << 31) - (1 << 20);
/// How many offers go to the queue's own node until one of them looks how many children it has.
const LOOK_EVERY: u32 = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_number_is_read_from_creations_and_deletions() {
        for (created, children) in [
            (0_i32, 0_i32),
            (7, 3),
            (1 << 30, 0),
            ((1 << 30) + 5, 5),
            (i32::MAX, 0),
            (i32::MAX, 1),
            (i32::MAX, 40_000),
        ] {
            let told = created.wrapping_mul(2).wrapping_sub(children);
            let mut stat = Stat::zeroed();
            stat.cversion = told;
            stat.num_children = children.cast_unsigned();
            assert_eq!(
                next_number(&stat),
                created.cast_unsigned(),
                "{created}, {children}"
            );
        }
    }

    #[test]
    fn a_native_queue_moves_half_way_and_a_shared_one_ends() {
        for (layout, number, expected) in [
            (Layout::Native, 0, Numbers::Left),
            (Layout::Native, HALF - 1, Numbers::Left),
            (Layout::Native, HALF, Numbers::HalfUsed),
            (Layout::Native, i32::MAX.cast_unsigned(), Numbers::HalfUsed),
            (Layout::Native, (-1_i32).cast_unsigned(), Numbers::HalfUsed),
            (Layout::Recipe, HALF, Numbers::Left),
            (Layout::Kazoo, LAST - 1, Numbers::Left),
            (Layout::Curator, LAST, Numbers::UsedUp),
            (Layout::Recipe, i32::MAX.cast_unsigned(), Numbers::UsedUp),
        ] {
            assert_eq!(layout.use_of(number), expected, "{layout:?}, {number}");
        }
    }
}
