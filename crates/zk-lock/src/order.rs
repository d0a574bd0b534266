//! Who comes first: the decision at the heart of every recipe on a wait queue.
//!
//! It is made from the names of the children alone: by their numbers, and by whether two may share.
//! The counter behind the numbers wraps at 2^31 or sticks there, so numbers are compared by their distance, and where
//! they cannot tell an order nobody is granted anything.
//!
//! Pure: no I/O and no clock.

use zk_core::Sequence;

use crate::layout::Kind;
use crate::layout::Layout;

/// Where a contender stands among the children of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place<'a> {
    /// Nobody is before it that it has to wait for.
    First,
    /// Others are before it that it has to wait for: of a reader these are the writers, of anyone else all.
    Behind {
        /// The name of the last one of them: the one to watch.
        predecessor: &'a str,
        /// How many they are, at least one.
        ahead: usize,
    },
    /// It is not among the children.
    Missing,
    /// Its number does not tell its place: another contender has the same, or the parent's counter is at its end.
    Unordered {
        /// The contender with the same number.
        tied_with: Option<&'a str>,
    },
}

/// What a contender behind another one can know ahead of its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outlook<'a> {
    /// Nothing: when the predecessor goes, the children tell who is before it then.
    Unknown,
    /// When this one goes, the children may tell that only the predecessor is left.
    After(&'a str),
    /// Only the predecessor is before it, and nothing takes its place: when that one is deleted, it is the first.
    Next,
}

/// Finds the place of the contender `own` among `children`.
pub(crate) fn place<'a>(children: &'a [String], own: &str, layout: Layout) -> Place<'a> {
    view(children, own, layout).0
}

/// Finds the place of the contender `own` among `children`, and what it can know ahead of its turn.
///
/// Contenders before one that exists can only go, never come.
/// There is one exception, a writer that becomes a reader, which a predecessor may be that
/// [leaves something](Layout::leaves_nothing).
/// So what is concluded from old children stays true, as long as the contender itself is there.
pub(crate) fn view<'a>(
    children: &'a [String],
    own: &str,
    layout: Layout,
) -> (Place<'a>, Outlook<'a>) {
    let Some((own_sequence, own_kind)) = layout.contender(own) else {
        // A number that does not fit our own name either: the server counts on beyond what its names can order.
        return (Place::Unordered { tied_with: None }, Outlook::Unknown);
    };
    let mut is_there = false;
    let mut ahead = 0;
    let mut predecessor: Option<(i32, &str)> = None;
    let mut before_it: Option<(i32, &str)> = None;
    let mut tied_with = None;
    for child in children {
        if child == own {
            is_there = true;
            continue;
        }
        let Some((sequence, kind)) = layout.contender(child) else {
            continue;
        };
        let distance = sequence.distance_from(own_sequence);
        if distance == 0 && kind == own_kind {
            tied_with = Some(child.as_str());
        }
        if is_before(distance, kind, own_kind) && !may_share(kind, own_kind) {
            ahead += 1;
            let found = Some((distance, child.as_str()));
            before_it = before_it.max(predecessor.min(found));
            predecessor = predecessor.max(found);
        }
    }
    let outlook = match (predecessor, before_it) {
        (Some((_, last)), before) if layout.leaves_nothing(last) => {
            before.map_or(Outlook::Next, |(_, before)| Outlook::After(before))
        }
        _ => Outlook::Unknown,
    };
    let place = match predecessor {
        _ if !is_there => Place::Missing,
        _ if tied_with.is_some() || own_sequence.is_near_end() => Place::Unordered { tied_with },
        None => Place::First,
        Some((_, predecessor)) => Place::Behind { predecessor, ahead },
    };
    (place, outlook)
}

/// Tells whether `own` is the only contender among `children`.
pub(crate) fn is_alone(children: &[String], own: &str, layout: Layout) -> bool {
    let mut others = children.iter().filter(|child| child.as_str() != own);
    !others.any(|child| layout.contender(child).is_some())
}

/// Finds the first contender before `own` that wants to be alone.
pub(crate) fn writer_before<'a>(
    children: &'a [String],
    own: &str,
    layout: Layout,
) -> Option<&'a str> {
    let (own_sequence, own_kind) = layout.contender(own)?;
    let writers = children.iter().filter_map(|child| {
        let (sequence, kind) = layout.contender(child)?;
        let distance = sequence.distance_from(own_sequence);
        let counts = child != own && kind == Kind::Exclusive && is_before(distance, kind, own_kind);
        counts.then_some((distance, child.as_str()))
    });
    writers.min().map(|(_, writer)| writer)
}

/// Tells whether a contender at this distance from another one is before it.
///
/// A writer that becomes a reader makes a second node with the number of its first one (CURATOR-621): whoever looks
/// while both are there finds the writer first.
const fn is_before(distance: i32, kind: Kind, other: Kind) -> bool {
    distance < 0 || (distance == 0 && matches!((kind, other), (Kind::Exclusive, Kind::Shared)))
}

/// Tells whether both may hold the lock at the same time.
const fn may_share(one: Kind, other: Kind) -> bool {
    matches!((one, other), (Kind::Shared, Kind::Shared))
}

/// Returns the contenders among `children`, first come first, those with the same number by name.
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

#[cfg(test)]
mod tests;
