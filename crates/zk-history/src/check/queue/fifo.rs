//! Checks the FIFO order of each producer's items.
//!
//! Pure: no I/O and no clock.

use std::collections::BTreeMap;

use super::{Evidence, Findings, Offer, Queue};
use crate::{Call, Client};

/// An item that was offered and delivered.
#[derive(Clone, Copy)]
struct Item<'q, 'a> {
    offer: &'q Offer<'a>,
    offered: u64,
    /// The first delivery; later ones are repetitions.
    delivery: &'a Call,
}

pub(super) fn judge(path: &str, queue: &Queue<'_>, findings: &mut Findings) {
    let mut lines: BTreeMap<(&Client, i32), Vec<Item<'_, '_>>> = BTreeMap::new();
    for offer in &queue.offers {
        let (Some(offered), Some(delivery)) = (
            offer.call.returned,
            queue.deliveries_of(offer.item).first().copied(),
        ) else {
            continue;
        };
        let line = lines.entry((&offer.call.client, offer.priority));
        line.or_default().push(Item {
            offer,
            offered,
            delivery,
        });
    }
    let late: Vec<_> = lines.values().flat_map(|line| late(line)).collect();
    findings.count("out of order", late.len());
    if late.len() <= queue.unknown_takes {
        return;
    }
    for (first, second) in late {
        findings.violation(
            "out of order",
            || {
                format!(
                    "{} offered {} to {path} before {}, which was delivered first",
                    first.offer.call.client, first.offer.item, second.offer.item
                )
            },
            [
                first.offer.call,
                second.offer.call,
                second.delivery,
                first.delivery,
            ]
            .map(Evidence::of),
        );
    }
}

/// Finds the items that were delivered after a later one, each with such an item.
fn late<'q, 'a>(line: &[Item<'q, 'a>]) -> Vec<(Item<'q, 'a>, Item<'q, 'a>)> {
    // From the last offer to the first, compare each with the earliest delivery of those offered after it.
    let mut by_invoke = line.to_vec();
    by_invoke.sort_by_key(|item| item.offer.call.invoked);
    let mut by_return = line.to_vec();
    by_return.sort_by_key(|item| item.offered);
    let mut found = Vec::new();
    let mut earliest: Option<Item<'_, '_>> = None;
    for item in by_return.into_iter().rev() {
        while let Some(after) = by_invoke.pop_if(|after| item.offered < after.offer.call.invoked) {
            if earliest.is_none_or(|known| after.delivery.returned < known.delivery.returned) {
                earliest = Some(after);
            }
        }
        let overtaken = earliest.filter(|second| {
            second
                .delivery
                .returned
                .is_some_and(|at| at < item.delivery.invoked)
        });
        found.extend(overtaken.map(|second| (item, second)));
    }
    found.reverse();
    found
}
