//! A listener that takes its time, and a lock on the same session.

use std::sync::mpsc;
use std::time::Duration;
use std::time::Instant;

use zk_core::Update;
use zk_lock::FairLock;

use super::LONG;
use super::SOON;
use super::observer;
use super::three_servers;
use super::until;

const ROUNDS: usize = 100;
const NAP: Duration = Duration::from_secs(10);

// covers: C8
#[tokio::test(flavor = "multi_thread")]
async fn listeners_that_sleep_for_ten_seconds_delay_no_hand_over_of_a_lock() {
    let ensemble = three_servers().await;
    let (one, two) = (observer(&ensemble).await, observer(&ensemble).await);
    one.create("/told", "").await.unwrap();
    one.create("/lock", "").await.unwrap();
    let alone = hand_overs(&one, &two).await;

    // Both sessions have one that sleeps, one that blocks its thread, and one that is told at once.
    let mut listeners = Vec::new();
    let (slept, mut naps) = tokio::sync::mpsc::unbounded_channel();
    let (quick, mut told) = tokio::sync::mpsc::unbounded_channel();
    for session in [&one, &two] {
        for is_blocking in [false, true] {
            let updates = session.subscribe("/told").await.unwrap();
            let slept = slept.clone();
            listeners.push(if is_blocking {
                let (never, nothing) = mpsc::channel::<()>();
                updates.call_blocking(move |update| {
                    if matches!(update, Update::Changed { .. }) {
                        let began = Instant::now();
                        assert!(
                            nothing.recv_timeout(NAP).is_err(),
                            "{never:?} sends nothing"
                        );
                        slept.send((began, Instant::now())).unwrap();
                    }
                })
            } else {
                updates.call(move |update| {
                    let slept = slept.clone();
                    async move {
                        if matches!(update, Update::Changed { .. }) {
                            let began = Instant::now();
                            drop(tokio::time::timeout(NAP, std::future::pending::<()>()).await);
                            slept.send((began, Instant::now())).unwrap();
                        }
                    }
                })
            });
        }
        let quick = quick.clone();
        let updates = session.subscribe("/told").await.unwrap();
        listeners.push(updates.call(move |update| {
            if matches!(update, Update::Changed { .. }) {
                quick.send(()).unwrap();
            }
            async {}
        }));
    }
    one.set("/told", "now").await.unwrap();
    for _ in 0..2 {
        let quick = tokio::time::timeout(SOON, told.recv()).await;
        quick.expect("told while the others sleep").unwrap();
    }
    let began = Instant::now();
    let beside = hand_overs(&one, &two).await;
    let took = began.elapsed();
    let mut ended = Vec::new();
    for _ in 0..4 {
        let nap = tokio::time::timeout(LONG, naps.recv()).await;
        ended.push(nap.expect("all have slept").unwrap());
    }
    println!(
        "{ROUNDS} hand-overs, median and longest: alone {alone:?}, beside four that sleep {beside:?}"
    );
    for (from, to) in ended {
        assert!(to - from >= NAP, "{:?} is no nap", to - from);
    }
    assert!(
        took < NAP * 3,
        "with one hand-over held up for each nap it would take {:?}: {took:?}",
        NAP * u32::try_from(ROUNDS).unwrap()
    );
    drop(listeners);
    ensemble.down().await.unwrap();
}

/// The median and the longest time from a release to the grant of the one who waited.
async fn hand_overs(one: &zk_core::Session, two: &zk_core::Session) -> (Duration, Duration) {
    let mut times = Vec::new();
    let (mut holder, mut waiter) = (one.clone(), two.clone());
    let mut held = FairLock::new(&holder, "/lock")
        .unwrap()
        .acquire()
        .await
        .unwrap();
    for _ in 0..ROUNDS {
        let before = waiter.counters().watches;
        let lock = FairLock::new(&waiter, "/lock").unwrap();
        let waiting = tokio::spawn(async move {
            let guard = lock.acquire().await.unwrap();
            (guard, Instant::now())
        });
        until("the waiter watches", SOON, async || {
            waiter.counters().watches > before
        })
        .await;
        let released = Instant::now();
        held.release().await.unwrap();
        let (guard, granted) = tokio::time::timeout(SOON, waiting)
            .await
            .expect("a hand-over")
            .unwrap();
        times.push(granted - released);
        held = guard;
        std::mem::swap(&mut holder, &mut waiter);
    }
    held.release().await.unwrap();
    times.sort_unstable();
    (times[times.len() / 2], times[times.len() - 1])
}
