//! Many waiters.

use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use zk_core::Session;
use zk_harness::Ensemble;
use zk_lock::FairLock;

use super::{LONG, observer, three_servers, until, until_empty, watches};

const SESSIONS: u64 = 10;

#[tokio::test(flavor = "multi_thread")]
async fn waiters_are_woken_one_by_one_with_a_list_or_two_each() {
    wake_one_by_one(300).await;
}

mod deep {
    #[tokio::test(flavor = "multi_thread")]
    async fn a_thousand_waiters_are_woken_one_by_one_with_a_list_or_two_each() {
        super::wake_one_by_one(1000).await;
    }
}

/// Each of the waiters is granted the lock once, and nothing of it is left.
async fn wake_one_by_one(waiters: u64) {
    let ensemble = three_servers().await;
    let observer = observer(&ensemble).await;
    observer.create("/lock", "").await.unwrap();
    let held = FairLock::new(&observer, "/lock")
        .unwrap()
        .acquire()
        .await
        .unwrap();
    let mut sessions = Vec::new();
    for _ in 0..SESSIONS {
        sessions.push(connect(&ensemble).await);
    }

    let mut waiting = JoinSet::new();
    for at in 0..waiters {
        let session = &sessions[usize::try_from(at % SESSIONS).unwrap()];
        let lock = FairLock::new(session, "/lock").unwrap();
        waiting.spawn(async move {
            let guard = lock.acquire().await.unwrap();
            let (granted, token) = (Instant::now(), guard.fencing_token());
            assert!(guard.is_valid());
            guard.release().await.unwrap();
            (granted, token)
        });
    }
    // Each waiter watches the two nodes before it, the first one the holder's and its own, and the holder its own.
    // A server counts a node once that two waiters of one session watch.
    until("all waiters watch", LONG, async || {
        counts(&sessions).watches == 2 * waiters
    })
    .await;
    let on_servers = watches(&ensemble).await;
    assert!(on_servers <= 2 * waiters + 1, "{on_servers} watches");
    let before = counts(&sessions);

    let mut last = held.fencing_token();
    let began = Instant::now();
    held.release().await.unwrap();
    let granted = tokio::time::timeout(LONG, waiting.join_all()).await;
    let mut granted = granted.expect("all are granted the lock");
    println!("{waiters} hand-overs took {:?}", began.elapsed());
    granted.sort_by_key(|(at, _)| *at);
    for (_, token) in granted {
        assert!(last < token, "they were granted in the order of arrival");
        last = token;
    }

    let after = counts(&sessions);
    let (calls, watched) = (after.calls - before.calls, after.watches - before.watches);
    // Of the calls, one is the release, and those that set a watch read one node: what is left are lists of children.
    let lists = calls - waiters - watched;
    println!("{lists} lists and {watched} reads of a node for {waiters} hand-overs");
    // The first one has looked already, and all others look once, when the node before their predecessor goes. On a
    // busy machine the predecessor may be gone, too, before they have looked, and then they look once more.
    assert!(
        (waiters - 1..=2 * waiters).contains(&lists),
        "{lists} lists"
    );
    assert!(watched <= waiters, "{watched} reads of a node");
    assert_eq!(after.retries, 0);

    until_empty(&observer, "/lock").await;
    until("no watch is left", LONG, async || {
        watches(&ensemble).await == 0
    })
    .await;
    ensemble.down().await.unwrap();
}

/// A session whose proof of being alive lasts for the whole test.
async fn connect(ensemble: &Ensemble) -> Session {
    Session::builder(ensemble.connect_string())
        .session_timeout(Duration::from_secs(60))
        .operation_timeout(LONG)
        .connect()
        .await
        .expect("the ensemble grants a session")
}

#[derive(Default)]
struct Sum {
    calls: u64,
    watches: u64,
    retries: u64,
}

fn counts(sessions: &[Session]) -> Sum {
    let mut sum = Sum::default();
    for session in sessions {
        let counts = session.counters();
        sum.calls += counts.calls;
        sum.watches += counts.watches;
        sum.retries += counts.retries;
    }
    sum
}
