//! Threads without a runtime.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use zk_id::{Generator, Layout, NextError, Snowflakes, SystemClock, WorkerLoss};
use zk_sim::Ensemble;

use crate::PATH;

/// Four ids in a millisecond.
const SMALL: Layout = Layout::new(50, 2, 2, Duration::ZERO);

#[test]
fn threads_without_a_runtime_wait_for_ids_and_get_distinct_ones() {
    let generator = Generator::new(SMALL, 1, SystemClock::default());
    let since = Instant::now();
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let generator = generator.clone();
            std::thread::spawn(move || {
                let ids: Vec<_> = (0..50)
                    .map(|_| generator.next_blocking().unwrap())
                    .collect();
                assert!(ids.is_sorted());
                ids
            })
        })
        .collect();
    let mut seen = BTreeSet::new();
    for thread in threads {
        for id in thread.join().unwrap() {
            assert!(seen.insert(id), "{id} was issued twice");
        }
    }
    assert_eq!(seen.len(), 200);
    // The first millisecond may be the last moment of one, and those that waited may take the last ten.
    assert!(since.elapsed() >= Duration::from_millis(35), "{since:?}");
}

#[test]
fn a_blocked_thread_gives_up_after_the_maximum_wait() {
    let millis = Arc::new(AtomicU64::new(1_000_000));
    let clock = Arc::clone(&millis);
    let generator = Generator::new(SMALL, 1, move || {
        SystemTime::UNIX_EPOCH + Duration::from_millis(clock.load(Ordering::SeqCst))
    });
    let generator = generator.with_max_wait(Duration::from_millis(20));
    for _ in 0..4 {
        generator.next_blocking().unwrap();
    }
    let since = Instant::now();
    let error = generator.next_blocking().unwrap_err();
    assert!(
        matches!(error, NextError::TimeUnitExhausted { .. }),
        "{error}"
    );
    // It does not wait for a millisecond that begins too late.
    assert!(since.elapsed() >= Duration::from_millis(19));
    millis.store(500_000, Ordering::SeqCst);
    let max_wait = Duration::from_secs(60);
    let since = Instant::now();
    let patient = generator.clone().with_max_wait(max_wait);
    let error = patient.next_blocking().unwrap_err();
    assert!(matches!(error, NextError::ClockBehind { .. }), "{error}");
    assert!(since.elapsed() < max_wait, "it waited in vain");
    millis.store(1_000_001, Ordering::SeqCst);
    generator.next_blocking().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_blocked_thread_is_woken_when_the_generator_stops() {
    let ensemble = Ensemble::new(1);
    let session = ensemble.connect().await;
    let millis = Arc::new(AtomicU64::new(1_800_000_000_000));
    let clock = Arc::clone(&millis);
    let snowflakes = Snowflakes::new(&session, PATH, SMALL).unwrap();
    let ids = snowflakes
        .with_clock(move || {
            SystemTime::UNIX_EPOCH + Duration::from_millis(clock.load(Ordering::SeqCst))
        })
        .with_max_clock_ahead(Duration::MAX)
        .with_max_wait(Duration::from_secs(7200))
        .claim()
        .await
        .unwrap();
    let generator = ids.generator().clone();
    let (started, waits) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        // All ids of the millisecond, which may be taken for as long as it is open.
        for _ in 0..4 {
            generator.next_blocking().unwrap();
        }
        millis.fetch_sub(3_600_000, Ordering::SeqCst);
        started.send(()).unwrap();
        generator.next_blocking()
    });
    tokio::task::spawn_blocking(move || waits.recv_timeout(Duration::from_secs(60)))
        .await
        .unwrap()
        .expect("the thread started within a minute");
    ids.release().await.unwrap();
    let ended = tokio::task::spawn_blocking(move || thread.join().unwrap());
    let ended = tokio::time::timeout(Duration::from_secs(60), ended).await;
    let ended = ended
        .expect("the thread was woken within a minute")
        .unwrap();
    assert_eq!(ended, Err(NextError::Lost(WorkerLoss::Released)));
}

#[tokio::test]
async fn tasks_may_not_block_but_threads_for_blocking_may() {
    let generator = Generator::new(SMALL, 1, SystemClock::default());
    let in_task = std::panic::AssertUnwindSafe(|| generator.next_blocking());
    let panicked = std::panic::catch_unwind(in_task).unwrap_err();
    let message = panicked.downcast_ref::<String>().cloned();
    let message = message.or_else(|| {
        panicked
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
    });
    let message = message.unwrap();
    assert!(
        message.contains("Cannot block the current thread from within a runtime"),
        "{message}"
    );
    let other = generator.clone();
    let taken = tokio::task::spawn_blocking(move || other.next_blocking());
    taken.await.unwrap().unwrap();
}
