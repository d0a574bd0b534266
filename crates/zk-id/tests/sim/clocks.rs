//! Clocks that go back across a restart, and worker numbers that others had before.

use std::time::Duration;

use zk_core::Session;
use zk_id::{ClaimError, Layout, NextError, Snowflakes, WorkerIds};
use zk_sim::Ensemble;

use crate::{PATH, Seen, TestClock, children, pass, soon, taken};

/// One worker, so that the next one has the number of the last.
const ONE: Layout = Layout::new(41, 0, 8, Duration::from_secs(1_700_000_000));

fn snowflakes(session: &Session, clock: &TestClock) -> Snowflakes {
    let snowflakes = Snowflakes::new(session, PATH, ONE).unwrap();
    snowflakes.with_clock(clock.clone())
}

const TEN_YEARS: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

#[tokio::test(start_paused = true)]
async fn clock_ten_years_ahead_costs_no_worker_number() {
    const FOUR: Layout = Layout::new(41, 2, 8, Duration::from_secs(1_700_000_000));
    let ensemble = Ensemble::new(3);
    let clock = TestClock::new();
    clock.forwards(TEN_YEARS);
    for _ in 0..20 {
        let session = ensemble.connect().await;
        let ids = Snowflakes::new(&session, PATH, FOUR).unwrap();
        let claimed = ids.with_clock(clock.clone()).claim().await;
        let error = claimed.expect_err("the number would be lost for ten years");
        assert_eq!(error.class(), zk_core::ErrorClass::Recoverable);
        let error = error.to_string();
        assert!(error.contains("clock is 3153"), "{error}");
        assert!(error.contains("ahead of the servers' clock"), "{error}");
        session.close().await.unwrap();
        assert_eq!(children(&ensemble, PATH), [""; 0]);
    }
    clock.back(TEN_YEARS);
    let mut workers = Vec::new();
    for _ in 0..4 {
        let session = ensemble.connect().await;
        let ids = Snowflakes::new(&session, PATH, FOUR).unwrap();
        let ids = ids.with_clock(clock.clone()).claim().await.unwrap();
        ids.try_next().unwrap();
        workers.push(ids);
    }
}

#[tokio::test(start_paused = true)]
async fn number_whose_mark_is_far_in_the_future_is_taken_last() {
    const FOUR: Layout = Layout::new(41, 2, 8, Duration::from_secs(1_700_000_000));
    let ensemble = Ensemble::new(3);
    let clock = TestClock::new();
    let session = ensemble.connect().await;
    let operator = ensemble.connect().await;
    for (number, reserved) in [
        (0, "2200000000000"),
        (1, "1900000000000"),
        (3, "2200000000000"),
    ] {
        let mark = format!("{PATH}/mark-{number:05}");
        operator.create(mark, reserved).parents().await.unwrap();
    }
    let ids = Snowflakes::new(&session, PATH, FOUR).unwrap();
    let ids = ids.with_clock(clock.clone()).with_preferred(0);
    for _ in 0..2 {
        let good = ids.claim().await.unwrap();
        assert_eq!(good.worker(), 2);
        good.try_next().unwrap();
        assert_eq!(taken(&ensemble), ["worker-00002"]);
        good.release().await.unwrap();
    }
    let good = ids.claim().await.unwrap();
    // There is no other one.
    let bad = ids.claim().await.unwrap();
    assert_eq!(bad.worker(), 0);
    assert!(matches!(bad.try_next(), Err(NextError::ClockBehind { .. })));
    assert!(good.try_next().is_ok());
}

#[tokio::test(start_paused = true)]
async fn clock_that_jumps_ten_years_ahead_reserves_no_time() {
    let ensemble = Ensemble::new(3);
    let clock = TestClock::new();
    let session = ensemble.connect().await;
    let ids = snowflakes(&session, &clock).claim().await.unwrap();
    let mut seen = Seen::default();
    seen.add(ids.next().await);
    clock.forwards(TEN_YEARS);
    for _ in 0..20 {
        pass(Duration::from_secs(3)).await;
        assert_eq!(ids.try_next(), Err(NextError::Unreserved));
    }
    let mark = ensemble
        .tree()
        .node("/ids/a/mark-00000")
        .unwrap()
        .data()
        .to_vec();
    let mark = String::from_utf8(mark).unwrap();
    assert!(mark.starts_with("18000000"), "{mark}");
    clock.back(TEN_YEARS);
    seen.add([soon("it is extended", ids.next()).await.unwrap()]);
}

#[tokio::test(start_paused = true)]
async fn any_clock_is_allowed_if_it_may_be_ahead_for_ever() {
    let ensemble = Ensemble::new(1);
    let clock = TestClock::new();
    clock.forwards(TEN_YEARS);
    let session = ensemble.connect().await;
    let snowflakes = snowflakes(&session, &clock).with_max_clock_ahead(Duration::MAX);
    let ids = snowflakes.claim().await.unwrap();
    assert!(ids.next().await.is_ok());
}

/// How a process ends.
#[derive(Debug, Clone, Copy)]
enum End {
    Release,
    Drop,
    Crash,
}

#[tokio::test(start_paused = true)]
async fn restart_with_a_clock_that_went_back_repeats_no_id() {
    for end in [End::Release, End::Drop, End::Crash] {
        for back in [0, 1, 5_000, 3_600_000].map(Duration::from_millis) {
            let ensemble = Ensemble::new(3);
            let clock = TestClock::new();
            let mut seen = Seen::default();
            for life in 0..3 {
                let session = ensemble.connect().await;
                let ids = snowflakes(&session, &clock).claim().await.unwrap();
                let refused = ids.try_next();
                if life > 0 && back > Duration::from_secs(60) {
                    assert!(
                        matches!(refused, Err(NextError::ClockBehind { by }) if by > back / 2),
                        "{refused:?}"
                    );
                }
                seen.add(refused);
                let patient = ids
                    .generator()
                    .clone()
                    .with_max_wait(back * 2 + Duration::from_secs(60));
                let many = soon("the clock catches up", patient.next_many(1000)).await;
                seen.add(many.unwrap());
                pass(Duration::from_millis(300)).await;
                seen.add(patient.next_many(1000).await.unwrap());
                match end {
                    End::Release => ids.release().await.unwrap(),
                    End::Drop => {
                        drop(ids);
                        session.settled().await;
                    }
                    End::Crash => {
                        ensemble.session(session.id()).expire();
                        pass(Duration::from_secs(1)).await;
                    }
                }
                assert_eq!(taken(&ensemble), [""; 0], "{end:?}");
                clock.back(back);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn next_process_need_not_wait_after_a_release() {
    let ensemble = Ensemble::new(1);
    let clock = TestClock::new();
    let session = ensemble.connect().await;
    let mut seen = Seen::default();
    for _ in 0..3 {
        let ids = snowflakes(&session, &clock).claim().await.unwrap();
        seen.add([ids.try_next().unwrap()]);
        ids.release().await.unwrap();
    }
    // After a drop it waits for the rest of the reservation, and no longer.
    drop(snowflakes(&session, &clock).claim().await.unwrap());
    session.settled().await;
    let ids = snowflakes(&session, &clock).claim().await.unwrap();
    assert!(matches!(ids.try_next(), Err(NextError::ClockBehind { .. })));
    let since = tokio::time::Instant::now();
    let patient = ids
        .generator()
        .clone()
        .with_max_wait(Duration::from_secs(600));
    seen.add([patient.next().await.unwrap()]);
    assert!(
        since.elapsed() <= session.session_timeout(),
        "{:?}",
        since.elapsed()
    );
}

/// The old process does not know yet that its session is over; its clock is ahead, and that of the next one is behind.
#[tokio::test(start_paused = true)]
async fn process_that_is_cut_off_and_the_next_one_share_no_id() {
    for behind in [0, 5_000, 3_600_000].map(Duration::from_millis) {
        let ensemble = Ensemble::new(3);
        let clock = TestClock::new();
        let mut seen = Seen::default();
        let old = ensemble.connect().await;
        let ids = snowflakes(&old, &clock).claim().await.unwrap();
        seen.add(ids.next_many(1000).await.unwrap());
        ensemble.session(old.id()).partition();
        let other = TestClock::new();
        other.back(behind);
        let session = ensemble.connect().await;
        let next = loop {
            seen.add(ids.try_next());
            match snowflakes(&session, &other).claim().await {
                Ok(next) => break next,
                Err(ClaimError::AllTaken { .. }) => pass(Duration::from_millis(50)).await,
                Err(error) => panic!("{error}"),
            }
        };
        assert!(ids.try_next().is_err(), "another process holds the number");
        let patient = next
            .generator()
            .clone()
            .with_max_wait(behind + Duration::from_secs(60));
        let many = soon("the clock catches up", patient.next_many(1000)).await;
        seen.add(many.unwrap());
        assert!(ids.try_next().is_err());
    }
}

#[tokio::test(start_paused = true)]
async fn path_of_another_layout_is_refused() {
    let ensemble = Ensemble::new(1);
    let session = ensemble.connect().await;
    let clock = TestClock::new();
    let ids = Snowflakes::new(&session, PATH, Layout::TWITTER).unwrap();
    let ids = ids.with_clock(clock.clone());
    ids.claim().await.unwrap().release().await.unwrap();
    let other = Snowflakes::new(&session, PATH, Layout::WIDE).unwrap();
    let error = other.claim().await.unwrap_err();
    assert!(
        matches!(error, ClaimError::SchemaMismatch { .. }),
        "{error}"
    );
    assert_eq!(
        error.to_string(),
        "/ids/a is used for \"zk-id snowflakes of 41/10/12 bits since 1288834974657 ms\", not for \
         \"zk-id snowflakes of 41/6/16 bits since 1704067200000 ms\"; use another path, or the same settings everywhere"
    );
    let workers = WorkerIds::new(&session, PATH, 1024).unwrap();
    assert!(matches!(
        workers.claim().await,
        Err(ClaimError::SchemaMismatch { .. })
    ));
    // A node without data is adopted.
    session.create("/mine", "").await.unwrap();
    let mine = Snowflakes::new(&session, "/mine", Layout::WIDE).unwrap();
    let mine = mine.with_clock(clock);
    mine.claim().await.unwrap().release().await.unwrap();
    let bytes = ensemble.tree().node("/mine").unwrap().data().to_vec();
    assert!(bytes.starts_with(b"zk-id snowflakes of 41/6/16"));
}

#[tokio::test(start_paused = true)]
async fn mark_that_cannot_be_read_is_refused_and_can_be_repaired() {
    let ensemble = Ensemble::new(1);
    let clock = TestClock::new();
    let session = ensemble.connect().await;
    let ids = snowflakes(&session, &clock).claim().await.unwrap();
    ids.release().await.unwrap();
    session.set("/ids/a/mark-00000", "garbage").await.unwrap();
    let error = snowflakes(&session, &clock).claim().await.unwrap_err();
    assert!(matches!(error, ClaimError::BadMark { .. }), "{error}");
    session.settled().await;
    assert_eq!(taken(&ensemble), [""; 0]);
    session
        .set("/ids/a/mark-00000", "1800000030000")
        .await
        .unwrap();
    let ids = snowflakes(&session, &clock).claim().await.unwrap();
    assert!(matches!(
        ids.try_next(),
        Err(NextError::ClockBehind { by }) if by > Duration::from_secs(20)
    ));
}
