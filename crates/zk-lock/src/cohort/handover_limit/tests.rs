//! How long a cohort hands its lock over.

use super::*;

const LIMITS: CohortLimits = CohortLimits {
    handovers: 3,
    time: Duration::from_millis(10),
};

fn turns(count: u64) -> HandoverLimit {
    let mut limit = HandoverLimit::new();
    for turn in 0..count {
        assert_eq!(limit.count_turn(), turn);
    }
    limit
}

fn next(limit: &HandoverLimit, millis: u64) -> HandoverDecision {
    limit.decide(Duration::from_millis(millis), LIMITS, true, true)
}

#[test]
fn while_others_may_wait_the_first_limit_applies() {
    for count in 1..=9 {
        for millis in 0..20 {
            let expected = if count <= 3 && millis < 10 {
                HandoverDecision::HandOver
            } else {
                HandoverDecision::GiveBack
            };
            assert_eq!(
                next(&turns(count), millis),
                expected,
                "{count}, {millis} ms"
            );
        }
    }
}

#[test]
fn limits_do_not_apply_without_other_contenders() {
    let mut limit = turns(1000);
    assert_eq!(next(&limit, 500), HandoverDecision::GiveBack);
    limit.clear_others();
    assert_eq!(next(&limit, 500), HandoverDecision::HandOver);
    // Counted from the first other contender, not from each one.
    limit.note_others(Duration::from_millis(500));
    for turn in 0..3 {
        assert_eq!(next(&limit, 509), HandoverDecision::HandOver, "{turn}");
        limit.count_turn();
        limit.note_others(Duration::from_millis(509));
    }
    assert_eq!(next(&limit, 509), HandoverDecision::GiveBack);
    limit = turns(7);
    limit.clear_others();
    limit.note_others(Duration::from_millis(500));
    assert_eq!(next(&limit, 510), HandoverDecision::GiveBack);
}

#[test]
fn without_a_lease_or_a_waiter_the_lock_is_released() {
    for (is_valid, has_local_waiter) in [(false, true), (true, false), (false, false)] {
        let mut limit = turns(1);
        limit.clear_others();
        let next = limit.decide(Duration::ZERO, LIMITS, is_valid, has_local_waiter);
        assert_eq!(next, HandoverDecision::GiveBack);
    }
}

#[test]
fn limits_of_zero_leave_the_turn_that_the_ensemble_granted() {
    let none = LIMITS.with_handovers(0);
    let at_once = LIMITS.with_time(Duration::ZERO);
    for limits in [none, at_once] {
        for (count, expected) in [
            (0, HandoverDecision::HandOver),
            (1, HandoverDecision::GiveBack),
        ] {
            let next = turns(count).decide(Duration::ZERO, limits, true, true);
            assert_eq!(next, expected);
        }
    }
}
