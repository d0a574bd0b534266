use proptest::prelude::*;

use super::super::history_builder::{
    HistoryBuilder, broken, counted, number, unjudged, valid, violated,
};
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

// covers: H9
#[test]
fn items_that_are_offered_and_taken_are_valid() {
    let mut s = HistoryBuilder::new();
    offer(&mut s, "p", "a", 0..10);
    take(&mut s, "c", &["a"], 5..12);
    offer(&mut s, "p", "b", 11..20);
    let rest = ReturnValue::items(["b"]);
    s.ok("c", &Op::drain("/q"), 20..30, rest);
    let verdict = check(&s);
    valid(&verdict);
    assert_eq!(counted(&verdict, "delivered"), 2);
}

// covers: H9
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
    assert_eq!(counted(&verdict, "missing"), 2);
    assert_eq!(counted(&verdict, "lost"), 0);
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
    assert_eq!(counted(&verdict, "duplicated"), 1);
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
    assert_eq!(counted(&verdict, "recovered"), 1);
    assert_eq!(counted(&verdict, "offers unknown"), 2);
    take(&mut s, "d", &["b"], 25..26);
    violated(&check(&s), &["duplicated: 2 3 5"]);
}

#[test]
fn an_unknown_take_excuses_one_lost_item_where_that_is_promised() {
    let at_most_once = TotalQueue::default().with_delivery(Delivery::AtMostOnce);
    let mut s = HistoryBuilder::new();
    offer(&mut s, "p", "a", 0..10);
    s.unknown("c", &Op::take("/q"), 11..12);
    take(&mut s, "c", &[], 23..24);
    valid(&at_most_once.check(&s.history()));
    violated(&check(&s), &["lost: 1"]);
    offer(&mut s, "p", "b", 0..10);
    violated(&at_most_once.check(&s.history()), &["lost: 1", "lost: 4"]);
}

#[test]
fn a_later_item_before_an_earlier_one_of_its_producer_is_found() {
    let fifo = TotalQueue::default().with_fifo();
    let mut s = HistoryBuilder::new();
    offer(&mut s, "p", "a", 0..10);
    offer(&mut s, "p", "b", 11..20);
    offer(&mut s, "o", "z", 11..20);
    take(&mut s, "c", &["z"], 21..22);
    take(&mut s, "c", &["b"], 23..24);
    take(&mut s, "d", &["a"], 25..26);
    take(&mut s, "c", &[], 33..34);
    violated(&fifo.check(&s.history()), &["out of order: 1 2 5 6"]);
    valid(&check(&s));
    // A take with an unknown outcome may have had it first.
    s.unknown("d", &Op::take("/q"), 21..22);
    valid(&fifo.check(&s.history()));
}

#[test]
fn overlaps_and_other_priorities_have_no_order() {
    let fifo = TotalQueue::default().with_fifo();
    for (second, deliveries) in [(10..20, (23..24, 25..26)), (11..20, (23..26, 25..27))] {
        let mut s = HistoryBuilder::new();
        offer(&mut s, "p", "a", 0..10);
        offer(&mut s, "p", "b", second);
        take(&mut s, "c", &["b"], deliveries.0);
        take(&mut s, "d", &["a"], deliveries.1);
        take(&mut s, "c", &[], 33..34);
        valid(&fifo.check(&s.history()));
    }
    let mut s = HistoryBuilder::new();
    offer(&mut s, "p", "a", 0..10);
    s.ok("p", &Op::offer_with_priority("/q", "b", 1), 11..20, ());
    take(&mut s, "c", &["b"], 23..24);
    take(&mut s, "d", &["a"], 25..26);
    take(&mut s, "c", &[], 33..34);
    valid(&fifo.check(&s.history()));
}

#[test]
fn one_delivery_of_several_items_has_one_time() {
    let fifo = TotalQueue::default().with_fifo();
    let mut s = HistoryBuilder::new();
    offer(&mut s, "p", "a", 0..10);
    offer(&mut s, "p", "b", 11..20);
    take(&mut s, "c", &["b", "a"], 23..24);
    take(&mut s, "c", &[], 33..34);
    valid(&fifo.check(&s.history()));
}

#[test]
fn without_an_offer_nothing_is_judged() {
    let mut s = HistoryBuilder::new();
    s.ok("c", &Op::read("/q"), 0..1, ());
    unjudged(&check(&s), "no offer");
}

/// A correct queue: producers offer, consumers take the oldest item, and a drain takes the rest.
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
            let item = number(next);
            next += 1;
            s.ok(
                &client,
                &Op::offer("/q", item.clone().to_string()),
                time,
                (),
            );
            waiting.push_back(item.to_string());
        } else {
            let item = waiting.pop_front();
            s.ok(&client, &Op::take("/q"), time, ReturnValue::items(item));
        }
        at += lasts;
    }
    s.ok(
        "end",
        &Op::drain("/q"),
        at..at + 9,
        ReturnValue::items(waiting),
    );
    s
}

proptest! {
    #[test]
    fn a_queue_that_works_passes_and_each_change_is_found(
        steps in prop::collection::vec((0..3_u8, any::<bool>(), 1..9_u64), 3..40),
        at in any::<prop::sample::Index>(),
    ) {
        let fifo = TotalQueue::default().with_fifo();
        let history = working(&steps).history();
        prop_assume!(steps.iter().any(|(_, offers, _)| *offers));
        prop_assert!(fifo.check(&history).is_valid());

        let deliveries: Vec<usize> = (0..history.calls.len())
            .filter(|at| history.calls[*at].outcome.return_value().is_some_and(|value| !value.items.is_empty()))
            .collect();
        let victim = deliveries[at.index(deliveries.len())];
        let change = |change: &dyn Fn(&mut Vec<Value>)| {
            let mut other = history.clone();
            if let Outcome::Ok(answer) = &mut other.calls[victim].outcome {
                change(&mut answer.items);
            }
            broken(&fifo.check(&other))
        };
        let lost = change(&|items| drop(items.pop()));
        prop_assert!(lost.iter().any(|rule| rule.starts_with("lost")), "{:?}", lost);
        let twice = change(&|items| items.extend(items.clone()));
        prop_assert!(twice.iter().any(|rule| rule.starts_with("duplicated")), "{:?}", twice);
        let made_up = change(&|items| items.push("new".into()));
        prop_assert!(made_up.iter().any(|rule| rule.starts_with("unexpected")), "{:?}", made_up);
    }

    /// The sweep agrees with a comparison of all pairs.
    #[test]
    fn an_inversion_is_found_exactly_if_there_is_one(
        items in prop::collection::vec((0..30_u64, 1..9_u64, 100..130_u64, 1..9_u64), 2..8),
    ) {
        let mut s = HistoryBuilder::new();
        for (at, (offered, lasts, taken, takes)) in items.iter().enumerate() {
            let name = at.to_string();
            offer(&mut s, "p", &name, *offered..offered + lasts);
            take(&mut s, "c", &[&name], *taken..taken + takes);
        }
        take(&mut s, "c", &[], 500..501);
        let late = items.iter().filter(|first| items.iter().any(|second| {
            first.0 + first.1 < second.0 && second.2 + second.3 < first.2
        })).count();
        let verdict = TotalQueue::default().with_fifo().check(&s.history());
        prop_assert_eq!(counted(&verdict, "out of order"), late as u64);
    }
}
