//! Layouts that count time in other units than milliseconds.

use std::time::Duration;

use zk_id::{Generator, Layout, NextError, Snowflakes};
use zk_sim::Ensemble;

use crate::{PATH, Seen, TestClock, pass, soon};

/// Four ids in a second.
const SECONDS: Layout =
    Layout::new(40, 4, 2, Duration::ZERO).with_time_unit(Duration::from_secs(1));

#[tokio::test(start_paused = true)]
async fn a_caller_waits_for_the_next_second() {
    for is_last in [false, true] {
        let layout = if is_last {
            SECONDS.with_worker_last()
        } else {
            SECONDS
        };
        let clock = TestClock::new();
        for generator in [
            Generator::new(layout, 1, clock.clone()),
            Generator::spawn(layout, 1, clock.clone()),
        ] {
            let since = tokio::time::Instant::now();
            let ids = generator.next_many(40).await.unwrap();
            assert!(ids.is_sorted());
            let mut seen = Seen::default();
            seen.add(ids.iter().copied());
            let took = since.elapsed();
            let seconds = Duration::from_secs;
            assert!(took > seconds(8) && took < seconds(10), "{took:?}");
            let parts = layout.parts(ids[39]);
            let age = zk_id::Clock::now(&clock).duration_since(parts.time);
            assert!(age.unwrap() < seconds(1));
            assert_eq!((parts.worker, parts.sequence), (1, 3));
            // The next second is too late for a caller that waits for less.
            let Err(NextError::TimeUnitExhausted { wait }) = generator.try_next() else {
                panic!("there are four in a second");
            };
            let hasty = generator.clone().with_max_wait(wait / 2);
            let since = tokio::time::Instant::now();
            let error = hasty.next().await.unwrap_err();
            assert!(
                matches!(error, NextError::TimeUnitExhausted { .. }),
                "{error}"
            );
            assert!(since.elapsed().is_zero(), "it would have waited in vain");
            // A clock that goes back by less than a unit, or by more.
            for back in [400, 1_500, 5_000].map(Duration::from_millis) {
                clock.back(back);
                seen.add(generator.next_many(6).await.unwrap());
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_next_holder_of_a_number_starts_in_the_next_unit() {
    let ensemble = Ensemble::new(1);
    let mut seen = Seen::default();
    let clock = TestClock::new();
    for (reserve, is_released) in [(0, true), (0, false), (1_700, false), (20_000, true)] {
        for _ in 0..3 {
            let session = ensemble.connect().await;
            let snowflakes = Snowflakes::new(&session, PATH, SECONDS).unwrap();
            let ids = snowflakes
                .with_clock(clock.clone())
                .with_reserve(Duration::from_millis(reserve))
                .with_preferred(3)
                .claim()
                .await
                .unwrap();
            assert_eq!(ids.worker(), 3);
            let first = ids.try_next();
            assert_ne!(first, Err(NextError::Unreserved), "{reserve}");
            seen.add(first);
            // More than a reservation, so that it has to be extended.
            let ids_of_40_seconds = ids.clone().with_max_wait(Duration::from_secs(60));
            for _ in 0..150 {
                seen.add([soon("there is an id", ids_of_40_seconds.next())
                    .await
                    .unwrap()]);
            }
            pass(Duration::from_millis(130)).await;
            seen.add(ids.try_next());
            if is_released {
                ids.release().await.unwrap();
            } else {
                drop(ids);
            }
            session.close().await.unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn paths_with_another_time_unit_are_refused() {
    let ensemble = Ensemble::new(1);
    let session = ensemble.connect().await;
    let claim = async |layout: Layout| {
        let snowflakes = Snowflakes::new(&session, PATH, layout).unwrap();
        snowflakes.with_clock(TestClock::new()).claim().await
    };
    let ids = claim(SECONDS).await.unwrap();
    for layout in [
        Layout::new(40, 4, 2, Duration::ZERO),
        SECONDS.with_worker_last(),
        SECONDS.with_time_unit(Duration::from_millis(10)),
    ] {
        let error = claim(layout).await.unwrap_err();
        assert!(
            matches!(error, zk_id::ClaimError::SchemaMismatch { .. }),
            "{error}"
        );
    }
    claim(SECONDS).await.unwrap().release().await.unwrap();
    ids.release().await.unwrap();
}
