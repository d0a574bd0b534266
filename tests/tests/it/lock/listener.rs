//! Listeners that block for as long as they like, beside others and a lock on the same sessions.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::watch;
use zk_core::Update;
use zk_lock::FairLock;

use super::{SOON, observer, three_servers, until};

const ROUNDS: usize = 100;
const CHANGES: i32 = 100;

/// The blocking ones block until the end of the test: code that waited for one would never finish.
#[tokio::test(flavor = "multi_thread")]
async fn listeners_that_block_hold_up_no_listener_and_no_lock() {
    let ensemble = three_servers().await;
    let (one, two) = (observer(&ensemble).await, observer(&ensemble).await);
    one.create("/told", "").await.unwrap();
    one.create("/lock", "").await.unwrap();
    let alone = hand_overs(&one, &two).await;

    // Both sessions have one that waits in its task, one that blocks its thread, and one that reads its events.
    let (open, gate) = watch::channel(false);
    let (blocked, let_go) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut listeners = Vec::new();
    let mut seen = Vec::new();
    for session in [&one, &two] {
        for is_blocking in [false, true] {
            let updates = session.subscribe("/told").await.unwrap();
            let (gate, blocked, let_go) = (gate.clone(), Arc::clone(&blocked), Arc::clone(&let_go));
            let function = move |update| {
                let (mut gate, blocked, let_go) =
                    (gate.clone(), Arc::clone(&blocked), Arc::clone(&let_go));
                async move {
                    if matches!(update, Update::Changed { .. }) {
                        blocked.fetch_add(1, Ordering::SeqCst);
                        drop(gate.wait_for(|is_open| *is_open).await);
                        let_go.fetch_add(1, Ordering::SeqCst);
                    }
                }
            };
            let runtime = Handle::current();
            listeners.push(if is_blocking {
                updates.for_each_blocking(move |update| runtime.block_on(function(update)))
            } else {
                updates.for_each(function)
            });
        }
        let (version, versions) = watch::channel(-1);
        seen.push(versions);
        let (updates, reader) = (session.subscribe("/told").await.unwrap(), session.clone());
        listeners.push(updates.for_each(move |_| {
            let (reader, version) = (reader.clone(), version.clone());
            async move {
                let stat = reader.stat("/told").await.unwrap();
                version.send_replace(stat.version);
            }
        }));
    }
    for change in 1..=CHANGES {
        one.set("/told", "now").await.unwrap();
        for versions in &mut seen {
            let told = versions.wait_for(|version| *version >= change);
            let told = tokio::time::timeout(SOON, told).await;
            drop(told.expect("told while the others block").unwrap());
        }
    }
    until("four listeners block", SOON, async || {
        blocked.load(Ordering::SeqCst) == 4
    })
    .await;
    let beside = hand_overs(&one, &two).await;
    println!(
        "{ROUNDS} hand-overs, median and longest: alone {alone:?}, beside four that block {beside:?}"
    );
    assert_eq!(
        blocked.load(Ordering::SeqCst),
        4,
        "each in its first change"
    );
    assert_eq!(
        let_go.load(Ordering::SeqCst),
        0,
        "they blocked all the time"
    );
    // What happened meanwhile was kept for them.
    open.send_replace(true);
    until("those that blocked go on", SOON, async || {
        let_go.load(Ordering::SeqCst) > 4
    })
    .await;
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
