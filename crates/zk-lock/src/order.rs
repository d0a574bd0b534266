//! Who comes first: the decision at the heart of every recipe on a wait queue.
//!
//! It is made from the names of the children alone, in the order of their numbers and of nothing else in the names.
//! The counter behind the numbers wraps at 2^31 or sticks there, so numbers are compared by their distance, and where
//! they cannot tell an order nobody is granted anything.

use zk_core::Sequence;

use crate::layout::Layout;

/// Where a contender stands among the children of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place<'a> {
    /// Nobody is before it.
    First,
    /// Others are before it.
    Behind {
        /// The name of the last one before it: the one to wait for.
        predecessor: &'a str,
        /// How many are before it, at least one.
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

/// Finds the place of the contender `own` among `children`.
pub(crate) fn place<'a>(children: &'a [String], own: &str, layout: Layout) -> Place<'a> {
    let Some(own_sequence) = layout.sequence_of(own) else {
        // A number that does not fit our own name either: the server counts on beyond what its names can order.
        return Place::Unordered { tied_with: None };
    };
    let mut is_there = false;
    let mut ahead = 0;
    let mut predecessor: Option<(i32, &str)> = None;
    let mut tied_with = None;
    for child in children {
        if child == own {
            is_there = true;
            continue;
        }
        let Some(sequence) = layout.sequence_of(child) else {
            continue;
        };
        match sequence.distance_from(own_sequence) {
            0 => tied_with = Some(child.as_str()),
            distance @ ..0 => {
                ahead += 1;
                predecessor = predecessor.max(Some((distance, child)));
            }
            _ => {}
        }
    }
    match predecessor {
        _ if !is_there => Place::Missing,
        _ if tied_with.is_some() || own_sequence.is_near_end() => Place::Unordered { tied_with },
        None => Place::First,
        Some((_, predecessor)) => Place::Behind { predecessor, ahead },
    }
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
