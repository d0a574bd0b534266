//! Pauses of each policy.

use super::*;

fn pauses(policy: RetryPolicy, chance: f64) -> Vec<Option<u128>> {
    let pause = |attempts| policy.pause(attempts, Duration::ZERO, || chance);
    (1..=6)
        .map(|attempts| pause(attempts).map(|pause| pause.as_millis()))
        .collect()
}

const MS: Duration = Duration::from_millis(1);

#[test]
fn each_policy_pauses_as_it_says() {
    let some = |pauses: [u128; 6]| pauses.map(Some).to_vec();
    let exponential = RetryPolicy::exponential(10 * MS);
    assert_eq!(pauses(RetryPolicy::never(), 0.5), [None; 6]);
    assert_eq!(pauses(RetryPolicy::constant(7 * MS), 0.5), some([7; 6]));
    assert_eq!(
        pauses(RetryPolicy::constant(7 * MS).at_most(2), 0.5),
        [Some(7), Some(7), None, None, None, None]
    );
    assert_eq!(
        pauses(exponential.jitter(Jitter::None), 0.5),
        some([10, 20, 40, 80, 160, 320])
    );
    assert_eq!(pauses(exponential, 0.0), some([5, 10, 20, 40, 80, 160]));
    assert_eq!(pauses(exponential, 1.0), some([10, 20, 40, 80, 160, 320]));
    let full = exponential.jitter(Jitter::Full);
    assert_eq!(pauses(full, 0.0), some([0; 6]));
    assert_eq!(pauses(full, 1.0), some([10, 20, 40, 80, 160, 320]));
    assert_eq!(
        pauses(exponential.jitter(Jitter::None).capped(50 * MS), 0.5),
        some([10, 20, 40, 50, 50, 50])
    );
}

#[test]
fn budget_in_time_counts_the_pause_that_is_to_come() {
    let policy = RetryPolicy::constant(10 * MS).within(100 * MS);
    assert_eq!(policy.pause(1, 90 * MS, || 0.0), Some(10 * MS));
    assert_eq!(policy.pause(1, 91 * MS, || 0.0), None);
}

#[test]
fn long_calls_do_not_overflow() {
    let policy = RetryPolicy::exponential(Duration::from_secs(3600));
    assert!(policy.pause(u32::MAX, Duration::MAX, || 1.0).is_some());
    assert_eq!(
        RetryPolicy::default().pause(1_000_000, Duration::ZERO, || 1.0),
        Some(1000 * MS)
    );
}
