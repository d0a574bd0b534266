use proptest::prelude::*;

use super::super::history_builder::{HistoryBuilder, unjudged, valid, violated};
use super::*;

fn check(builder: &HistoryBuilder) -> Verdict {
    FencedRegister::default().check(&builder.history())
}

fn write(token: u64) -> Op {
    Op::write_fenced("/r", "v", token)
}

#[test]
fn tokens_that_rise_or_stay_are_fine_and_refusals_too() {
    let mut s = HistoryBuilder::new();
    s.ok("a", &write(7), 0..10, ());
    s.ok("a", &write(7), 11..20, ());
    s.ok("b", &write(9), 21..30, ());
    s.failed("a", &write(7), 31..40);
    s.unknown("a", &write(1), 41..50);
    let verdict = check(&s);
    valid(&verdict);
    assert_eq!(verdict.counted("writes accepted"), 3);
    assert_eq!(verdict.counted("writes refused"), 1);
}

#[test]
fn a_lower_token_that_was_accepted_later_is_found() {
    let mut s = HistoryBuilder::new();
    s.ok("a", &write(7), 0..5, ());
    s.ok("b", &write(9), 6..20, ());
    s.ok("c", &write(8), 7..21, ());
    s.ok("a", &write(7), 22..40, ());
    let verdict = check(&s);
    violated(&verdict, &["lower token accepted: 2 4"]);
    assert_eq!(
        verdict.violations[0].sentence,
        "/r accepted token 7 of a after token 9 of b"
    );
}

#[test]
fn of_two_at_a_time_either_may_be_first() {
    let mut s = HistoryBuilder::new();
    s.ok("b", &write(9), 0..20, ());
    s.ok("a", &write(7), 20..40, ());
    valid(&check(&s));
}

#[test]
fn each_resource_has_its_own_highest_token() {
    let mut s = HistoryBuilder::new();
    s.ok("b", &write(9), 0..20, ());
    s.ok("a", &Op::write_fenced("/other", "v", 7), 30..40, ());
    valid(&check(&s));
}

#[test]
fn without_an_accepted_write_nothing_is_judged() {
    let mut s = HistoryBuilder::new();
    s.ok("a", &Op::write("/r", "v"), 0..1, ());
    s.failed("a", &write(7), 2..3);
    unjudged(&check(&s), "no write with a token");
}

proptest! {
    #[test]
    fn only_a_register_that_compares_tokens_passes(
        writes in prop::collection::vec((1..50_u64, 1..9_u64), 2..30),
    ) {
        let (mut minding, mut careless) = (HistoryBuilder::new(), HistoryBuilder::new());
        let (mut at, mut highest, mut sank) = (0, 0, false);
        for (token, lasts) in writes {
            let time = at..at + lasts;
            at += lasts + 1;
            careless.ok("a", &write(token), time.clone(), ());
            if token < highest {
                sank = true;
                minding.failed("a", &write(token), time);
            } else {
                highest = token;
                minding.ok("a", &write(token), time, ());
            }
        }
        prop_assert!(check(&minding).is_valid());
        prop_assert_eq!(check(&careless).found > 0, sank);
    }
}
