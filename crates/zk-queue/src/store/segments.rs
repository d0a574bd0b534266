//! Spreads items over several parents, because one node's list of children has to fit into one reply.
//!
//! Items are offered to the *active segment*: the items node (segment 0) or, once that is full, a node of its own. The
//! data of the control node names the active segment. Each offer checks the control node's version, so that nothing is
//! added to a segment once the next one is active. Consumers take the segments in their order, and remove empty ones.
//!
//! A server numbers the items of a node with a counter of 32 bits, and repeats the last number at its end. An item
//! would then get the name and version of one that a consumer has read, and be taken for it. So offers leave the items
//! node after half of the numbers. Other clients see no segments: with their layouts, offers are refused shortly before
//! the end instead.

use zk_core::Error;
use zk_core::ErrorKind;
use zk_core::NodePath;
use zk_core::Stat;

use super::ItemStore;
use crate::deadline::Deadline;
use crate::error::OfferError;
use crate::layout::Layout;
use crate::mutex::lock;
use crate::paths::parse_segment;
use crate::paths::segment_name;

/// The segment that items are offered to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ActiveSegment {
    /// Zero for the items node.
    pub(super) segment: u32,
    /// The version of the control node that names it.
    pub(super) control_version: i32,
}

impl ActiveSegment {
    /// Returns the data of the control node that names this segment.
    pub(super) fn data(self) -> String {
        match self.segment {
            0 => String::new(),
            segment => segment_name(segment),
        }
    }
}

impl ItemStore {
    /// Returns the active segment, as it was read last.
    pub(super) async fn active_segment(
        &self,
        deadline: Deadline,
    ) -> Result<ActiveSegment, OfferError> {
        let known = *lock(&self.active);
        if let Some(active) = known {
            return Ok(active);
        }
        loop {
            let (active, next) = self
                .read_active_segment(deadline)
                .await
                .map_err(OfferError::Core)?;
            if let Some(active) = self.ensure_numbers_left(active, next, deadline).await? {
                *lock(&self.active) = Some(active);
                return Ok(active);
            }
        }
    }

    /// Returns the segment to offer to, so that no number is used twice; `None` if another session has just rotated.
    async fn ensure_numbers_left(
        &self,
        active: ActiveSegment,
        next: u32,
        deadline: Deadline,
    ) -> Result<Option<ActiveSegment>, OfferError> {
        if active.segment != 0 {
            return Ok(Some(active));
        }
        match self.options.layout.number_space(next) {
            NumberSpace::Left => Ok(Some(active)),
            NumberSpace::HalfUsed => match self.rotate(active, deadline).await {
                Ok(next) => Ok(next),
                // Many numbers are left: the next offers try again.
                Err(error) if next < LAST => {
                    tracing::debug!(%error, "the next segment could not be activated");
                    Ok(Some(active))
                }
                Err(error) => Err(OfferError::Core(error)),
            },
            NumberSpace::UsedUp => Err(OfferError::Exhausted {
                path: self.paths.items.clone(),
            }),
        }
    }

    /// Continues with an active segment that was read elsewhere.
    pub(super) fn set_active_segment(&self, active: ActiveSegment) {
        *lock(&self.active) = Some(active);
    }

    /// Forgets the active segment, unless another one was read since.
    pub(super) fn forget_active_segment(&self, active: ActiveSegment) {
        let mut known = lock(&self.active);
        if *known == Some(active) {
            *known = None;
        }
    }

    /// Reads the active segment and the next number of the items node, from a server that has caught up.
    ///
    /// The control node exists while there is a token.
    async fn read_active_segment(&self, deadline: Deadline) -> Result<(ActiveSegment, u32), Error> {
        let sync = self
            .session
            .sync(&self.paths.control_node)
            .timeout(deadline.remaining());
        let get = self
            .session
            .get(&self.paths.control_node)
            .timeout(deadline.remaining());
        let exists = self.session.exists(&self.paths.items);
        let (synced, got, items) = futures_util::future::join3(
            sync.into_future(),
            get.into_future(),
            exists.timeout(deadline.remaining()).into_future(),
        )
        .await;
        synced?;
        let (data, control_version) = match got {
            Ok((data, stat)) => (data, stat.version),
            Err(error) if error.is_no_node() => (Vec::new(), 0),
            Err(error) => return Err(error),
        };
        let active = ActiveSegment {
            segment: self.segment_in(&data),
            control_version,
        };
        Ok((active, items?.as_ref().map_or(0, next_number)))
    }

    /// Returns the numbers of the segments that exist, in their order.
    pub(super) async fn list_segments(&self, deadline: Deadline) -> Result<Vec<u32>, Error> {
        let names = self.child_names(&self.paths.segments(), deadline).await?;
        let mut numbers: Vec<u32> = names
            .iter()
            .filter_map(|name| parse_segment(name))
            .collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Returns the active segment that the data of the control node names.
    pub(super) fn segment_in(&self, data: &[u8]) -> u32 {
        if data.is_empty() {
            return 0;
        }
        let segment = std::str::from_utf8(data).ok().and_then(parse_segment);
        segment.unwrap_or_else(|| {
            tracing::warn!(path = %self.paths.control_node, "the data of the control node names no segment and is ignored");
            0
        })
    }

    /// Activates the next segment if this one is full or has used its numbers; `numbers` are those of an offer.
    pub(super) async fn rotate_if_full(
        &self,
        active: ActiveSegment,
        numbers: &[i32],
        deadline: Deadline,
    ) {
        let size = self.options.segment_size;
        let layout = self.options.layout;
        let is_past_half =
            |number: &i32| layout.number_space(number.cast_unsigned()) != NumberSpace::Left;
        if active.segment == 0 && numbers.iter().any(is_past_half) {
            // The next offer reads the active segment again, and rotates or is refused.
            self.forget_active_segment(active);
            return;
        }
        let may_be_full = match active.segment {
            // Other clients add and take items here too, so only the server knows the count: ask from time to time.
            0 => {
                let step = i32::try_from((size / 4).clamp(1, CHECK_EVERY)).unwrap_or(1);
                numbers.iter().any(|number| number.rem_euclid(step) == 0)
            }
            // Numbers restart in each segment, so the number counts the items.
            _ => numbers
                .iter()
                .any(|number| number.cast_unsigned().saturating_add(1) >= size.min(HALF)),
        };
        if !may_be_full {
            return;
        }
        let rotated = async {
            if active.segment == 0 {
                let stat = self
                    .session
                    .stat(&self.paths.items)
                    .timeout(deadline.remaining());
                if stat.await?.num_children < size {
                    return Ok(());
                }
            }
            self.rotate(active, deadline).await.map(drop)
        };
        if let Err(error) = rotated.await {
            // This offer was committed; the next ones try to rotate again.
            tracing::debug!(%error, "the next segment could not be activated");
        }
    }

    /// Activates the next segment; `None` if another session has done so.
    async fn rotate(
        &self,
        active: ActiveSegment,
        deadline: Deadline,
    ) -> Result<Option<ActiveSegment>, Error> {
        let next = active.segment + 1;
        let created = self
            .session
            .create(self.paths.segment(next), "")
            .container_parents()
            .or_set()
            .timeout(deadline.remaining());
        created.await?;
        let set = self
            .session
            .set(&self.paths.control_node, segment_name(next))
            .version(active.control_version)
            .idempotent()
            .timeout(deadline.remaining());
        let activated = set.await;
        self.forget_active_segment(active);
        match activated {
            Ok(stat) => {
                tracing::debug!(path = %self.paths.items, segment = next, "offers go to the next segment");
                Ok(Some(ActiveSegment {
                    segment: next,
                    control_version: stat.version,
                }))
            }
            Err(error) if error.kind() == ErrorKind::BadVersion => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Makes the items node active again, because the active segment was deleted.
    pub(super) async fn reset_active_segment(
        &self,
        active: ActiveSegment,
        deadline: Deadline,
    ) -> Result<(), Error> {
        let set = self
            .session
            .set(&self.paths.control_node, "")
            .version(active.control_version);
        let reset = set.timeout(deadline.remaining()).await;
        self.forget_active_segment(active);
        match reset {
            Err(error) if error.kind() == ErrorKind::BadVersion || error.is_no_node() => Ok(()),
            Err(error) if error.is_outcome_unknown() && !error.is_fatal() => Ok(()),
            other => other.map(|_| ()),
        }
    }

    /// Removes an empty segment, and returns whether it is gone.
    ///
    /// The active segment is removed only if all others are gone; then the items node is active again. A segment stays
    /// if an item was put back into it in between.
    pub(super) async fn remove_segment(
        &self,
        segment: u32,
        active: ActiveSegment,
        are_others_gone: bool,
    ) -> bool {
        let path: NodePath = self.paths.segment(segment);
        let removed = if segment != active.segment {
            self.session.delete(&path).await
        } else if are_others_gone {
            let both = self.session.transaction();
            let both = both
                .set_version(&self.paths.control_node, "", active.control_version)
                .delete(&path);
            let removed = both.commit().await.map(|_| ());
            self.forget_active_segment(active);
            removed
        } else {
            return false;
        };
        match removed {
            Ok(()) => true,
            Err(error) if error.is_no_node() => true,
            // An item was offered or put back; it can be taken where it is.
            Err(error) => {
                tracing::trace!(%path, %error, "an empty segment was not removed");
                false
            }
        }
    }
}

/// How much of the items node's numbers is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NumberSpace {
    Left,
    /// Offers continue in a segment.
    HalfUsed,
    /// There can be no segments, and numbers would soon repeat.
    UsedUp,
}

impl Layout {
    /// Returns what an offer with this number does. A counter that has wrapped reads as a large number.
    const fn number_space(self, number: u32) -> NumberSpace {
        match self {
            Self::Native if number >= HALF => NumberSpace::HalfUsed,
            Self::Native => NumberSpace::Left,
            _ if number >= LAST => NumberSpace::UsedUp,
            _ => NumberSpace::Left,
        }
    }
}

/// Returns the number of a node's next child.
///
/// Servers count creations, but report `2 * creations - children`: the creations plus the deletions.
fn next_number(stat: &Stat) -> u32 {
    stat.cversion
        .cast_unsigned()
        .wrapping_add(stat.num_children)
        / 2
}

/// The first number from which on offers go to a segment.
const HALF: u32 = 1 << 30;
/// The first number from which on offers are refused. The distance to the end is enough for all offers in flight.
const LAST: u32 = (1 << 31) - (1 << 20);
/// How many offers go to the items node until one of them asks how many children it has.
const CHECK_EVERY: u32 = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_number_follows_from_the_child_version() {
        for (created, children) in [
            (0_i32, 0_i32),
            (7, 3),
            (1 << 30, 0),
            ((1 << 30) + 5, 5),
            (i32::MAX, 0),
            (i32::MAX, 1),
            (i32::MAX, 40_000),
        ] {
            let cversion = created.wrapping_mul(2).wrapping_sub(children);
            let mut stat = Stat::zeroed();
            stat.cversion = cversion;
            stat.num_children = children.cast_unsigned();
            assert_eq!(
                next_number(&stat),
                created.cast_unsigned(),
                "{created}, {children}"
            );
        }
    }

    #[test]
    fn a_native_queue_rotates_half_way_and_a_shared_one_ends() {
        for (layout, number, expected) in [
            (Layout::Native, 0, NumberSpace::Left),
            (Layout::Native, HALF - 1, NumberSpace::Left),
            (Layout::Native, HALF, NumberSpace::HalfUsed),
            (
                Layout::Native,
                i32::MAX.cast_unsigned(),
                NumberSpace::HalfUsed,
            ),
            (
                Layout::Native,
                (-1_i32).cast_unsigned(),
                NumberSpace::HalfUsed,
            ),
            (Layout::Recipe, HALF, NumberSpace::Left),
            (Layout::Kazoo, LAST - 1, NumberSpace::Left),
            (Layout::Curator, LAST, NumberSpace::UsedUp),
            (
                Layout::Recipe,
                i32::MAX.cast_unsigned(),
                NumberSpace::UsedUp,
            ),
        ] {
            assert_eq!(
                layout.number_space(number),
                expected,
                "{layout:?}, {number}"
            );
        }
    }
}
