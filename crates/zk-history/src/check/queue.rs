//! Checks that a queue delivers exactly the offered items.
//!
//! Pure: no I/O and no clock.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::verdict::{Evidence, Verdict};
use crate::{Call, History, Op, Value};

/// How often an item may be delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Delivery {
    /// Once.
    #[default]
    ExactlyOnce,
    /// Once or more often, until it is acknowledged.
    AtLeastOnce,
}

/// All offered items are delivered, and no others.
///
/// | rule | broken if |
/// |---|---|
/// | `lost` | an offer succeeded, and the item is never delivered although the queue was drained |
/// | `unexpected` | an item is delivered that was never offered, or whose offer failed |
/// | `duplicated` | an item is delivered twice, unless delivery is at least once |
/// | `delivered after ack` | an item is delivered by a take that began after the item was acknowledged |
///
/// An item whose offer has an unknown outcome may be delivered or not; if delivered, it counts as recovered.
/// Each item is offered at most once in a history.
///
/// The queue was drained if a take that began after all offers returned no item.
/// Otherwise lost items cannot be detected, and the history cannot be judged.
///
/// Time is O(n log n) in the number of operations and items.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct TotalQueue {
    delivery: Delivery,
}

impl TotalQueue {
    /// Sets how often items may be delivered. Default: exactly once.
    #[must_use]
    pub const fn with_delivery(mut self, delivery: Delivery) -> Self {
        self.delivery = delivery;
        self
    }

    /// Judges a history.
    pub fn check(&self, history: &History) -> Verdict {
        let mut verdict = Verdict::new("total-queue");
        for (path, calls) in history.by_path() {
            let queue = Queue::of(&calls);
            if queue.is_empty() {
                continue;
            }
            self.judge(path, &queue, &mut verdict);
        }
        if verdict.counted("offers") == 0 {
            verdict.cannot_judge("the history has no offer");
        }
        verdict
    }

    fn judge(&self, path: &str, queue: &Queue<'_>, verdict: &mut Verdict) {
        verdict.count("offers", queue.offers.len());
        verdict.count("takes unknown", queue.unknown_takes);
        let drained = queue.is_drained();
        if !drained {
            verdict.cannot_judge(format!(
                "{path} was not drained after all offers: missing items may still be in it"
            ));
        }
        let mut missing: Vec<&Offer<'_>> = Vec::new();
        for offer in &queue.offers {
            let deliveries = queue.deliveries_of(offer.item);
            let (known, delivered) = (offer.call.outcome.is_ok(), !deliveries.is_empty());
            match (known, delivered) {
                (true, false) => missing.push(offer),
                (false, _) if offer.call.outcome.is_unknown() => {
                    verdict.count("offers unknown", 1);
                    verdict.count("recovered", usize::from(delivered));
                }
                _ => {}
            }
            verdict.count("delivered", usize::from(delivered));
            let more = deliveries.len().saturating_sub(1);
            verdict.count("duplicated", more);
            if more > 0 && self.delivery != Delivery::AtLeastOnce {
                let item = offer.item;
                verdict.violation(
                    "duplicated",
                    || format!("{item} was delivered {} times", deliveries.len()),
                    [offer.call]
                        .into_iter()
                        .chain(deliveries.iter().copied())
                        .map(Evidence::of),
                );
            }
        }
        if drained {
            lost(path, &missing, verdict);
        } else {
            verdict.count("missing", missing.len());
        }
        unexpected(path, queue, verdict);
        after_ack(path, queue, verdict);
    }
}

fn lost(path: &str, missing: &[&Offer<'_>], verdict: &mut Verdict) {
    verdict.count("lost", missing.len());
    for offer in missing {
        verdict.violation(
            "lost",
            || {
                format!(
                    "{} of {} was accepted by {path} and never delivered",
                    offer.item, offer.call.client
                )
            },
            [Evidence::of(offer.call)],
        );
    }
}

/// The calls of one queue.
#[derive(Default)]
struct Queue<'a> {
    offers: Vec<Offer<'a>>,
    /// The calls that delivered an item, in the order of their returns.
    deliveries: HashMap<&'a Value, Vec<&'a Call>>,
    acks: HashMap<&'a Value, &'a Call>,
    unknown_takes: usize,
    /// When the last offer ended, or began if its outcome is unknown.
    last_offer: u64,
    /// When the last take began that found the queue empty.
    last_empty: Option<u64>,
}

struct Offer<'a> {
    call: &'a Call,
    item: &'a Value,
}

impl<'a> Queue<'a> {
    fn of(calls: &[&'a Call]) -> Self {
        let mut queue = Self::default();
        for call in calls {
            match &call.op {
                Op::Offer { item, .. } => {
                    // An unknown offer may take effect at any time; the last take begins after the others.
                    let over = call.returned.unwrap_or(call.invoked);
                    queue.last_offer = queue.last_offer.max(over);
                    queue.offers.push(Offer { call, item });
                }
                Op::Ack { item, .. } if call.outcome.is_ok() => {
                    queue.acks.entry(item).or_insert(call);
                }
                Op::Take { .. } => queue.take(call),
                _ => {}
            }
        }
        for deliveries in queue.deliveries.values_mut() {
            deliveries.sort_by_key(|call| call.returned);
        }
        queue
    }

    fn take(&mut self, call: &'a Call) {
        let Some(answer) = call.outcome.return_value() else {
            self.unknown_takes += usize::from(call.outcome.is_unknown());
            return;
        };
        for item in &answer.items {
            self.deliveries.entry(item).or_default().push(call);
        }
        if answer.items.is_empty() {
            self.last_empty = self.last_empty.max(Some(call.invoked));
        }
    }

    fn is_empty(&self) -> bool {
        self.offers.is_empty() && self.deliveries.is_empty()
    }

    fn is_drained(&self) -> bool {
        self.last_empty
            .is_some_and(|emptied| self.last_offer <= emptied)
    }

    fn deliveries_of(&self, item: &Value) -> &[&'a Call] {
        self.deliveries.get(item).map_or(&[], Vec::as_slice)
    }
}

fn unexpected(path: &str, queue: &Queue<'_>, verdict: &mut Verdict) {
    let mut offered: HashMap<&Value, bool> = HashMap::new();
    for offer in &queue.offers {
        *offered.entry(offer.item).or_default() |= !offer.call.outcome.is_failed();
    }
    let mut unexpected: Vec<_> = queue
        .deliveries
        .iter()
        .filter(|(item, _)| offered.get(*item) != Some(&true))
        .collect();
    unexpected.sort_by_key(|(_, deliveries)| deliveries[0].returned);
    verdict.count("unexpected", unexpected.len());
    for (item, deliveries) in unexpected {
        let offer = queue.offers.iter().find(|offer| offer.item == *item);
        verdict.violation(
            "unexpected",
            || match offer {
                Some(_) => format!("{path} delivered {item}, whose offer had failed"),
                None => format!("{path} delivered {item}, which was never offered"),
            },
            offer
                .map(|offer| offer.call)
                .into_iter()
                .chain([deliveries[0]])
                .map(Evidence::of),
        );
    }
}

fn after_ack(path: &str, queue: &Queue<'_>, verdict: &mut Verdict) {
    for offer in &queue.offers {
        let Some(ack) = queue.acks.get(offer.item) else {
            continue;
        };
        let late = queue
            .deliveries_of(offer.item)
            .iter()
            .find(|delivery| ack.returned.is_some_and(|acked| acked < delivery.invoked));
        if let Some(late) = late {
            verdict.violation(
                "delivered after ack",
                || {
                    format!(
                        "{path} delivered {} to {} after {} had acknowledged it",
                        offer.item, late.client, ack.client
                    )
                },
                [Evidence::of(ack), Evidence::of(late)],
            );
        }
    }
}

#[cfg(test)]
mod tests;
