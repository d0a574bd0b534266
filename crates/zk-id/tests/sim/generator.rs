//! The generator without an ensemble: clocks that go back, and time.

use std::time::Duration;

use zk_id::{Generator, Layout, NextError};

use crate::{Seen, TestClock, pass, soon};

/// Four ids in a millisecond.
const SMALL: Layout = Layout::new(50, 2, 2, Duration::ZERO);

fn both(clock: &TestClock, layout: Layout) -> [Generator; 2] {
    let no_wait = Duration::ZERO;
    [
        Generator::new(layout, 1, clock.clone()).with_max_wait(no_wait),
        Generator::spawn(layout, 1, clock.clone()).with_max_wait(no_wait),
    ]
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_goes_back_repeats_no_id_while_running() {
    for back in [1, 5_000, 3_600_000].map(Duration::from_millis) {
        let clock = TestClock::new();
        for generator in both(&clock, Layout::TWITTER) {
            let mut seen = Seen::default();
            seen.add([generator.try_next().unwrap()]);
            clock.back(back);
            // The first waits for as long as the clock is behind, the second does not.
            let patient = generator.clone().with_max_wait(back * 2);
            let hasty = generator.clone().with_max_wait(back / 2);
            seen.add(generator.try_next_many(5000).into_iter().flatten());
            // The rest of an open millisecond may go on; then it is over.
            pass(Duration::from_micros(2500).min(back / 3)).await;
            let refused = generator.try_next();
            if back > Duration::from_secs(1) {
                assert!(
                    matches!(refused, Err(NextError::ClockBehind { by }) if by <= back),
                    "{refused:?}"
                );
                let since = tokio::time::Instant::now();
                assert!(matches!(
                    hasty.next().await,
                    Err(NextError::ClockBehind { .. })
                ));
                assert!(since.elapsed().is_zero(), "it would have waited in vain");
            }
            seen.add(refused);
            for _ in 0..5000 {
                seen.add([soon("the clock catches up", patient.next()).await.unwrap()]);
            }
            seen.add(patient.next_many(10_000).await.unwrap());
            clock.forwards(back);
            pass(Duration::from_millis(5)).await;
            seen.add(patient.next_many(10_000).await.unwrap());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_caller_waits_out_an_exhausted_millisecond_and_skips_no_id() {
    let clock = TestClock::new();
    for generator in both(&clock, SMALL) {
        let first = generator.try_next().unwrap();
        assert_eq!(generator.try_next_many(100).unwrap().len(), 3);
        let Err(NextError::TimeUnitExhausted { wait }) = generator.try_next() else {
            panic!("there are four in a millisecond");
        };
        assert!(wait <= Duration::from_millis(1));
        let patient = generator.with_max_wait(Duration::from_secs(1));
        let since = tokio::time::Instant::now();
        let ids = patient.next_many(4000).await.unwrap();
        assert!(ids.is_sorted() && ids[0] > first);
        let took = since.elapsed();
        // A timer is late by up to a millisecond; what passed meanwhile is made up for.
        assert!(took <= Duration::from_millis(1010), "{took:?}");
        assert!(took >= Duration::from_millis(990), "{took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn ids_have_the_time_at_which_they_were_taken_after_any_pause() {
    let clock = TestClock::new();
    for generator in both(&clock, Layout::WIDE) {
        for rest in [0, 1, 2, 3, 10, 10_000] {
            pass(Duration::from_millis(rest)).await;
            let id = generator.try_next().unwrap();
            let parts = generator.layout().parts(id);
            let now = zk_id::Clock::now(&clock);
            let age = now
                .duration_since(parts.time)
                .expect("no time of the future");
            assert!(age <= Duration::from_millis(2), "{age:?} after {rest} ms");
            assert_eq!(parts.worker, 1);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_layout_without_later_time_fails_at_once() {
    let clock = TestClock::new();
    let short = Layout::new(1, 0, 0, Duration::from_secs(1_800_000_000));
    let generator = Generator::new(short, 0, clock.clone());
    generator.try_next().unwrap();
    pass(Duration::from_millis(1)).await;
    generator.try_next().unwrap();
    let since = tokio::time::Instant::now();
    let error = generator.next().await.unwrap_err();
    assert!(matches!(error, NextError::TimeExhausted { .. }), "{error}");
    assert!(since.elapsed().is_zero());
    clock.back(Duration::from_secs(10));
    let before = Generator::new(short, 0, clock);
    assert!(matches!(
        before.try_next(),
        Err(NextError::ClockBehind { by }) if by >= Duration::from_secs(9)
    ));
}

#[tokio::test(start_paused = true)]
async fn no_task_is_left_by_a_generator() {
    let clock = TestClock::new();
    let before = tokio::runtime::Handle::current()
        .metrics()
        .num_alive_tasks();
    let generator = Generator::spawn(SMALL, 1, clock);
    generator.next().await.unwrap();
    let other = generator.clone();
    drop(generator);
    other.next().await.unwrap();
    let tasks = || {
        tokio::runtime::Handle::current()
            .metrics()
            .num_alive_tasks()
    };
    assert_eq!(tasks(), before + 1);
    drop(other);
    pass(Duration::from_millis(10)).await;
    assert_eq!(tasks(), before);
}

#[tokio::test(start_paused = true)]
async fn none_are_taken_when_none_are_wanted() {
    let generator = Generator::new(SMALL, 3, TestClock::new());
    assert_eq!(generator.try_next_many(0).unwrap().count(), 0);
    assert_eq!(generator.next_many(0).await.unwrap(), []);
    assert!(
        std::panic::catch_unwind(|| Generator::new(SMALL, 4, std::time::SystemTime::now)).is_err()
    );
}
