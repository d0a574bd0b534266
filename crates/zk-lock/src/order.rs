//! Decides the order of the contenders: which one is first, and whom each of the others waits for.
//!
//! The decision depends on the names of the children alone: on their numbers, and on which contenders may share.
//! The counter behind the numbers wraps at 2^31 or stays there. Numbers are therefore compared by their distance, and
//! where they do not determine an order, no contender is first.
//!
//! Pure: no I/O and no clock.

use zk_core::Sequence;

use crate::layout::{Kind, Layout};

/// The position of a contender among the children of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QueuePosition<'a> {
    /// It waits for no other contender.
    First,
    /// It waits for others: a reader for the writers ahead, any other contender for all contenders ahead.
    Behind {
        /// The name of the last of them, which is the one to watch.
        predecessor: &'a str,
        /// The number of them, at least one.
        ahead: usize,
    },
    /// It is not among the children.
    Missing,
    /// Its number does not determine its position: it is not unique, or the counter is at its end.
    Unordered {
        /// The contender with the same number.
        tied_with: Option<&'a str>,
    },
}

/// What a contender that waits can know before its predecessor leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lookahead<'a> {
    /// Nothing: the children have to be listed again when the predecessor leaves.
    Unknown,
    /// Once this contender leaves, only the predecessor may be left.
    After(&'a str),
    /// Only the predecessor is ahead, and none that excludes the waiter can take its position: its deletion makes the
    /// waiter first.
    Next,
}

/// Returns the position of the contender `own` among `children`.
pub(crate) fn position<'a>(children: &'a [String], own: &str, layout: Layout) -> QueuePosition<'a> {
    position_with_lookahead(children, own, layout).0
}

/// Returns the position of the contender `own` among `children`, and what it can know before its predecessor leaves.
///
/// Contenders ahead of an existing one can only leave, never join, with one exception: a writer that becomes a reader
/// leaves a node with its number, see [`Layout::cannot_downgrade`].
/// So an old list that contains our node is safe: at worst it makes us wait for a contender that is gone.
pub(crate) fn position_with_lookahead<'a>(
    children: &'a [String],
    own: &str,
    layout: Layout,
) -> (QueuePosition<'a>, Lookahead<'a>) {
    let Some((own_sequence, own_kind)) = layout.parse(own) else {
        // Not even our own name has a valid number: the server counts beyond what names can order.
        return (
            QueuePosition::Unordered { tied_with: None },
            Lookahead::Unknown,
        );
    };
    let mut is_there = false;
    let mut ahead = 0;
    let mut predecessor: Option<(i32, &str)> = None;
    let mut second_last: Option<(i32, &str)> = None;
    let mut tied_with = None;
    for child in children {
        if child == own {
            is_there = true;
            continue;
        }
        let Some((sequence, kind)) = layout.parse(child) else {
            continue;
        };
        let distance = sequence.distance_from(own_sequence);
        if distance == 0 && kind == own_kind {
            tied_with = Some(child.as_str());
        }
        if is_before(distance, kind, own_kind) && !may_share(kind, own_kind) {
            ahead += 1;
            let found = Some((distance, child.as_str()));
            second_last = second_last.max(predecessor.min(found));
            predecessor = predecessor.max(found);
        }
    }
    let lookahead = match predecessor {
        // A reader shares the lock with a writer that becomes a reader.
        Some((_, predecessor))
            if own_kind == Kind::Shared || layout.cannot_downgrade(predecessor) =>
        {
            second_last.map_or(Lookahead::Next, |(_, second)| Lookahead::After(second))
        }
        _ => Lookahead::Unknown,
    };
    let position = match predecessor {
        _ if !is_there => QueuePosition::Missing,
        _ if tied_with.is_some() || own_sequence.is_near_end() => {
            QueuePosition::Unordered { tied_with }
        }
        None => QueuePosition::First,
        Some((_, predecessor)) => QueuePosition::Behind { predecessor, ahead },
    };
    (position, lookahead)
}

/// Returns whether `own` is the only contender among `children`.
pub(crate) fn is_alone(children: &[String], own: &str, layout: Layout) -> bool {
    let mut others = children.iter().filter(|child| child.as_str() != own);
    !others.any(|child| layout.parse(child).is_some())
}

/// Returns whether a contender of this kind that joined now would wait for no other one.
pub(crate) fn is_free(children: &[String], kind: Kind, layout: Layout) -> bool {
    let mut contenders = children.iter().filter_map(|child| layout.parse(child));
    contenders.all(|(_, other)| may_share(other, kind))
}

/// Returns whether others wait for the holder `own` to leave: contenders behind it that do not share the lock with it.
///
/// A child that is no contender of this layout may be one of another client's, and counts. So does a writer with the
/// number of a reader, which has become that reader and is about to leave.
pub(crate) fn has_waiters(children: &[String], own: &str, layout: Layout) -> bool {
    let Some((own_sequence, own_kind)) = layout.parse(own) else {
        return !children.is_empty();
    };
    let mut others = children.iter().filter(|child| child.as_str() != own);
    others.any(|child| match layout.parse(child) {
        Some((sequence, kind)) => {
            sequence.distance_from(own_sequence) >= 0 && !may_share(kind, own_kind)
        }
        None => true,
    })
}

/// Returns the first exclusive contender ahead of `own`.
pub(crate) fn writer_before<'a>(
    children: &'a [String],
    own: &str,
    layout: Layout,
) -> Option<&'a str> {
    let (own_sequence, own_kind) = layout.parse(own)?;
    let writers = children.iter().filter_map(|child| {
        let (sequence, kind) = layout.parse(child)?;
        let distance = sequence.distance_from(own_sequence);
        let counts = child != own && kind == Kind::Exclusive && is_before(distance, kind, own_kind);
        counts.then_some((distance, child.as_str()))
    });
    writers.min().map(|(_, writer)| writer)
}

/// Returns the contenders among `children` in order of arrival; equal numbers are ordered by name.
pub(crate) fn ranked(children: Vec<String>, layout: Layout) -> Vec<(Sequence, String)> {
    let mut contenders: Vec<(Sequence, String)> = children
        .into_iter()
        .filter_map(|name| Some((layout.sequence_of(&name)?, name)))
        .collect();
    // Distances from any one of them order them all, since all of them together span less than half the numbers.
    if let Some(&(anchor, _)) = contenders.first() {
        contenders.sort_by(|(a, a_name), (b, b_name)| {
            let by_number = a.distance_from(anchor).cmp(&b.distance_from(anchor));
            by_number.then_with(|| a_name.cmp(b_name))
        });
    }
    contenders
}

/// Returns whether a contender at this distance from another one is ahead of it.
///
/// A writer that becomes a reader creates a second node with the number of the first one (CURATOR-621). While both
/// exist, the writer is ahead.
const fn is_before(distance: i32, kind: Kind, other: Kind) -> bool {
    distance < 0 || (distance == 0 && matches!((kind, other), (Kind::Exclusive, Kind::Shared)))
}

/// Returns whether both may hold the lock at the same time.
const fn may_share(one: Kind, other: Kind) -> bool {
    matches!((one, other), (Kind::Shared, Kind::Shared))
}

#[cfg(test)]
mod tests;
