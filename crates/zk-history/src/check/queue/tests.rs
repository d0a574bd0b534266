use proptest::prelude::*;

use super::super::history_builder::{HistoryBuilder, broken, unjudged, valid, violated};
use super::*;
use crate::{Outcome, ReturnValue};

fn check(builder: &HistoryBuilder) -> Verdict {
    TotalQueue::default().check(&builder.history())
}

fn offer(s: &mut HistoryBuilder, client: &str, item: &str, time: std::ops::Range<u64>) -> u64 {
    s.ok(client, &Op::offer("/q", item), time, ())
}

fn take(s: &mut HistoryBuilder, client: &str, items: &[&str], time: std::ops::Range<u64>) -> u64 {
    let items = ReturnValue::items(items.iter().copied());
    s.ok(client, &Op::take("/q"), time, items)
}

#[test]
fn items_that_are_offered_and_taken_are_valid() {
    let mut s = HistoryBuilder::new();
    offer(&mut s, "p", "a", 0..10);
    take(&mut s, "c", &["a"], 5..12);
    offer(&mut s, "p", "b", 11..20);
    take(&mut s, "c", &["b"], 21..25);
    take(&mut s, "c", &[], 26..30);
    let verdict = check(&s);
    valid(&verdict);
    assert_eq!(verdict.counted("delivered"), 2);
}

#[test]
fn an_item_that_nobody_was_given_is_found_lost() {
    let mut s = HistoryBuilder::new();
    offer(&mut s, "p", "a", 0..10);
    offer(&mut s, "p", "b", 11..20);
    take(&mut s, "c", &["b"], 21..22);
    take(&mut s, "c", &[], 23..24);
    violated(&check(&s), &["lost: 1"]);
}

#[test]
fn without_a_full_drain_nothing_is_said_of_lost_items() {
    let mut s = HistoryBuilder::new();
    offer(&mut s, "p", "a", 0..10);
    take(&mut s, "c", &[], 9..12);
    offer(&mut s, "p", "b", 11..20);
    let verdict = check(&s);
    unjudged(&verdict, "was not drained");
    assert_eq!(verdict.counted("missing"), 2);
    assert_eq!(verdict.counted("lost"), 0);
}

#[test]
fn an_item_that_was_never_offered_is_found() {
    let mut s = HistoryBuilder::new();
    offer(&mut s, "p", "a", 0..10);
    s.failed("p", &Op::offer("/q", "f"), 11..12);
    take(&mut s, "c", &["a", "x"], 12..13);
    take(&mut s, "c", &["f"], 14..15);
    take(&mut s, "c", &[], 23..24);
    violated(&check(&s), &["unexpected: 3", "unexpected: 2 4"]);
}

#[test]
fn an_item_may_be_delivered_twice_only_at_least_once() {
    let mut s = HistoryBuilder::new();
    offer(&mut s, "p", "a", 0..10);
    take(&mut s, "c", &["a"], 12..13);
    take(&mut s, "d", &["a"], 14..15);
    take(&mut s, "c", &[], 23..24);
    violated(&check(&s), &["duplicated: 1 2 3"]);
    let verdict = TotalQueue::default()
        .with_delivery(Delivery::AtLeastOnce)
        .check(&s.history());
    valid(&verdict);
    assert_eq!(verdict.counted("duplicated"), 1);
}

#[test]
fn an_item_that_was_acknowledged_is_never_delivered_again() {
    let at_least_once = TotalQueue::default().with_delivery(Delivery::AtLeastOnce);
    let mut s = HistoryBuilder::new();
    offer(&mut s, "p", "a", 0..10);
    take(&mut s, "c", &["a"], 12..13);
    s.ok("c", &Op::ack("/q", "a"), 14..20, ());
    let other = take(&mut s, "d", &["a"], 19..25);
    take(&mut s, "c", &[], 30..31);
    assert_eq!(other, 4);
    valid(&at_least_once.check(&s.history()));
    take(&mut s, "d", &["a"], 21..26);
    violated(
        &at_least_once.check(&s.history()),
        &["delivered after ack: 3 6"],
    );
}

#[test]
fn an_unknown_offer_may_or_may_not_be_there() {
    let mut s = HistoryBuilder::new();
    s.unknown("p", &Op::offer("/q", "a"), 0..10);
    s.unknown("p", &Op::offer("/q", "b"), 11..20);
    take(&mut s, "c", &["b"], 21..22);
    take(&mut s, "c", &[], 23..24);
    let verdict = check(&s);
    valid(&verdict);
    assert_eq!(verdict.counted("recovered"), 1);
    assert_eq!(verdict.counted("offers unknown"), 2);
    take(&mut s, "d", &["b"], 25..26);
    violated(&check(&s), &["duplicated: 2 3 5"]);
}

#[test]
fn without_an_offer_nothing_is_judged() {
    let mut s = HistoryBuilder::new();
    s.ok("c", &Op::read("/q"), 0..1, ());
    unjudged(&check(&s), "no offer");
}

/// A correct queue: producers offer, consumers take the oldest item, and in the end all the rest.
fn working(steps: &[(u8, bool, u64)]) -> HistoryBuilder {
    let mut s = HistoryBuilder::new();
    let (mut at, mut next) = (0, 0);
    let mut waiting = std::collections::VecDeque::new();
    for (client, offers, lasts) in steps {
        let client = format!("p{client}");
        let time = at..at + lasts;
        // Calls of different clients overlap a little.
        at += lasts.div_ceil(2);
        if *offers {
            let item = next.to_string();
            next += 1;
            offer(&mut s, &client, &item, time);
            waiting.push_back(item);
        } else {
            let item = waiting.pop_front();
            s.ok(&client, &Op::take("/q"), time, ReturnValue::items(item));
        }
        at += lasts;
    }
    let rest = ReturnValue::items(waiting);
    s.ok("end", &Op::take("/q"), at..at + 9, rest);
    take(&mut s, "end", &[], at + 10..at + 11);
    s
}

proptest! {
    #[test]
    fn a_queue_that_works_passes_and_each_change_is_found(
        steps in prop::collection::vec((0..3_u8, any::<bool>(), 1..9_u64), 3..40),
        at in any::<prop::sample::Index>(),
    ) {
        let history = working(&steps).history();
        prop_assume!(steps.iter().any(|(_, offers, _)| *offers));
        prop_assert!(TotalQueue::default().check(&history).is_valid());

        let deliveries: Vec<usize> = (0..history.calls.len())
            .filter(|at| history.calls[*at].outcome.return_value().is_some_and(|value| !value.items.is_empty()))
            .collect();
        let victim = deliveries[at.index(deliveries.len())];
        let change = |change: &dyn Fn(&mut Vec<Value>)| {
            let mut other = history.clone();
            if let Outcome::Ok(answer) = &mut other.calls[victim].outcome {
                change(&mut answer.items);
            }
            broken(&TotalQueue::default().check(&other))
        };
        let lost = change(&|items| drop(items.pop()));
        prop_assert!(lost.iter().any(|rule| rule.starts_with("lost")), "{:?}", lost);
        let twice = change(&|items| items.extend(items.clone()));
        prop_assert!(twice.iter().any(|rule| rule.starts_with("duplicated")), "{:?}", twice);
        let made_up = change(&|items| items.push("new".into()));
        prop_assert!(made_up.iter().any(|rule| rule.starts_with("unexpected")), "{:?}", made_up);
    }
}
