//! Decides when offers leave the active segment for the next one.
//!
//! A server numbers the items of a node with a counter of 32 bits, and repeats the last number at its end. An item
//! would then get the name and version of one that a consumer has read, and be taken for it. So offers leave the items
//! node after half of the numbers. Other clients see no segments: with their layouts, offers are refused shortly before
//! the end instead.
//!
//! Pure: no I/O and no clock.

use zk_core::Stat;

use crate::layout::Layout;
use crate::paths::segment_name;

/// The segment that items are offered to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ActiveSegment {
    /// Zero for the items node.
    pub(super) segment: u32,
    /// The version of the control node that names it.
    pub(super) control_version: i32,
}

/// How much of the items node's numbers is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NumberSpace {
    Left,
    /// Offers continue in a segment.
    HalfUsed,
    /// There can be no segments, and numbers would soon repeat.
    UsedUp,
}

/// What follows an offer that was committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AfterOffer {
    Nothing,
    /// The next offer reads the active segment again, and rotates or is refused.
    Forget,
    /// The next segment is activated if this one has its full number of items.
    Count,
    /// The next segment is activated.
    Rotate,
}

impl ActiveSegment {
    /// Returns the data of the control node that names this segment.
    pub(super) fn data(self) -> String {
        match self.segment {
            0 => String::new(),
            segment => segment_name(segment),
        }
    }

    /// Returns what follows an offer to this segment whose items got these numbers; `size` is that of a full segment.
    pub(super) fn after_offer(self, numbers: &[i32], layout: Layout, size: u32) -> AfterOffer {
        let any = |is_reached: &dyn Fn(u32) -> bool| {
            numbers
                .iter()
                .any(|number| is_reached(number.cast_unsigned()))
        };
        if self.segment != 0 {
            // Numbers restart in each segment, so the number counts the items.
            let is_full = any(&|number| number.saturating_add(1) >= size.min(HALF));
            return if is_full {
                AfterOffer::Rotate
            } else {
                AfterOffer::Nothing
            };
        }
        // Other clients add and take items here too, so only the server knows the count: ask from time to time.
        let step = (size / 4).clamp(1, CHECK_EVERY);
        if any(&|number| layout.number_space(number) != NumberSpace::Left) {
            AfterOffer::Forget
        } else if any(&|number| number.is_multiple_of(step)) {
            AfterOffer::Count
        } else {
            AfterOffer::Nothing
        }
    }
}

impl Layout {
    /// Returns what an offer with this number does. A counter that has wrapped reads as a large number.
    pub(super) const fn number_space(self, number: u32) -> NumberSpace {
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
pub(super) fn next_number(stat: &Stat) -> u32 {
    stat.cversion
        .cast_unsigned()
        .wrapping_add(stat.num_children)
        / 2
}

/// The first number from which on offers go to a segment.
const HALF: u32 = 1 << 30;
/// The first number from which on offers are refused. The distance to the end is enough for all offers in flight.
pub(super) const LAST: u32 = (1 << 31) - (1 << 20);
/// How many offers go to the items node until one of them asks how many children it has.
const CHECK_EVERY: u32 = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offer_counts_from_time_to_time_and_rotates_a_full_segment() {
        use AfterOffer::{Count, Forget, Nothing, Rotate};
        let half = HALF.cast_signed();
        for (segment, layout, size, numbers, expected) in [
            (0, Layout::Native, 16_384, vec![], Nothing),
            (0, Layout::Native, 16_384, vec![1, 255], Nothing),
            (0, Layout::Native, 16_384, vec![255, 256], Count),
            (0, Layout::Recipe, 8, vec![3], Nothing),
            (0, Layout::Recipe, 8, vec![4], Count),
            (0, Layout::Native, 1, vec![7], Count),
            (0, Layout::Native, 1, vec![half - 1, half], Forget),
            (0, Layout::Native, 1, vec![i32::MIN], Forget),
            (0, Layout::Recipe, 1, vec![half], Count),
            (0, Layout::Recipe, 1, vec![LAST.cast_signed()], Forget),
            (1, Layout::Native, 16_384, vec![0, 16_382], Nothing),
            (1, Layout::Native, 16_384, vec![16_383], Rotate),
            (1, Layout::Native, u32::MAX, vec![half - 2], Nothing),
            (1, Layout::Native, u32::MAX, vec![half - 1], Rotate),
            (1, Layout::Native, u32::MAX, vec![-1], Rotate),
        ] {
            let active = ActiveSegment {
                segment,
                control_version: 0,
            };
            assert_eq!(
                active.after_offer(&numbers, layout, size),
                expected,
                "{segment}, {layout:?}, {size}, {numbers:?}"
            );
        }
    }

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
            let stat = Stat {
                cversion,
                num_children: children.cast_unsigned(),
                ..Stat::default()
            };
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
