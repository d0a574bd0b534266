//! The requests of the lock.

use std::time::Duration;

use zk_core::Session;
use zk_core::transport::Request;
use zk_lock::{LockLoss, RwLock};
use zk_sim::{Ensemble, matching};

use crate::{OURS, PATH, held_and_waited_for, lock, pass, soon};

const READERS: &str = "/locks/a/*-__READ__**";

#[tokio::test(start_paused = true)]
async fn a_free_lock_costs_one_round_trip_and_its_release_another() {
    let ensemble = Ensemble::builder()
        .servers(3)
        .latency(Duration::from_millis(1))
        .build();
    let session = ensemble.connect().await;
    // The first acquire creates the parents.
    lock(&session)
        .acquire()
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
    let before = ensemble.requests().len();
    let started = tokio::time::Instant::now();
    for _ in 0..5 {
        let guard = lock(&session).acquire().await.unwrap();
        guard.release().await.unwrap();
    }
    let taken = started.elapsed() / 5;
    assert!(taken < Duration::from_millis(7), "{taken:?}");
    let requests: Vec<Request> = ensemble
        .requests()
        .drain(before..)
        .map(|seen| seen.request)
        .collect();
    for life in requests.chunks(3) {
        assert!(
            matches!(
                life,
                [
                    Request::Create2(_),
                    Request::GetChildren2 { .. },
                    Request::Delete { .. }
                ]
            ),
            "{life:#?}"
        );
    }
    assert_eq!(requests.len(), 15);
}

/// The time to acquire a free lock, which is released again.
async fn taken(session: &Session) -> Duration {
    let started = tokio::time::Instant::now();
    let guard = lock(session).acquire().await.unwrap();
    let taken = started.elapsed();
    assert!(guard.is_valid());
    guard.release().await.unwrap();
    taken
}

/// A client that locks once a minute does not wait for the proof that its session is alive; after a longer rest, the
/// proof takes two fifths of the session timeout.
#[tokio::test(start_paused = true)]
async fn a_free_lock_is_granted_at_once_within_a_minute() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().server(2).await;
    let timeout = session.session_timeout();
    let at_once = Duration::from_millis(20);
    assert!(taken(&session).await < at_once, "the session is new");
    for rest in [120, 3600] {
        pass(Duration::from_secs(rest)).await;
        let first = taken(&session).await;
        assert!(first < timeout * 9 / 20, "{first:?}");
        assert!(first > timeout * 6 / 20, "{first:?}");
        for rest in [0, 10, 30, 55] {
            pass(Duration::from_secs(rest)).await;
            let next = taken(&session).await;
            assert!(next < at_once, "{next:?} after {rest} s");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_free_lock_is_granted_at_once_on_standby() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().server(2).await;
    let _standby = session.stand_by();
    for _ in 0..3 {
        pass(Duration::from_secs(3600)).await;
        let taken = taken(&session).await;
        assert!(taken < Duration::from_millis(20), "{taken:?}");
    }
}

/// A lock that was waited for for hours is granted as soon as it is free.
#[tokio::test(start_paused = true)]
async fn a_waiter_is_granted_the_lock_at_once_however_long_it_waited() {
    let ensemble = Ensemble::new(3);
    let (one, other) = (ensemble.connect().await, ensemble.connect().await);
    let (guard, waiting) = held_and_waited_for(&one, &other).await;
    pass(Duration::from_secs(3600)).await;
    guard.release().await.unwrap();
    let started = tokio::time::Instant::now();
    let next = soon("it is granted", waiting).await.unwrap().unwrap();
    assert!(started.elapsed() < Duration::from_millis(20));
    assert!(next.is_valid());
}

#[tokio::test(start_paused = true)]
async fn a_release_wakes_two_waiters_of_which_one_lists_once() {
    let ensemble = Ensemble::new(3);
    let held = lock(&ensemble.connect().await).acquire().await.unwrap();
    let mut waiting = Vec::new();
    for _ in 0..20 {
        let lock = lock(&ensemble.connect().await);
        waiting.push(tokio::spawn(async move { lock.acquire().await.unwrap() }));
        pass(Duration::from_millis(20)).await;
    }
    let lists = || ensemble.arrived(matching::lists(PATH));
    let gets = || ensemble.arrived(matching::gets(OURS));
    // The very first one also listed the parent once it existed.
    let before = (lists(), gets());
    assert!(before.0 <= 22, "{before:?}");
    // Each watches two contenders ahead, and the first of them one.
    assert_eq!(before.1, 39);
    let mut guard = held;
    for (at, waiter) in waiting.into_iter().enumerate() {
        guard.release().await.unwrap();
        guard = soon("the next one is granted", waiter).await.unwrap();
        pass(Duration::from_millis(100)).await;
        // The last one has no contender behind it.
        let listed = (at + 1).min(19);
        assert_eq!((lists(), gets()), (before.0 + listed, before.1));
    }
}

/// It watches its own node along with the list that shows that it is next.
#[tokio::test(start_paused = true)]
async fn the_new_next_in_line_needs_one_round_trip_to_be_ready() {
    let ensemble = Ensemble::builder()
        .servers(3)
        .latency(Duration::from_millis(10))
        .build();
    let [one, other, third] = [
        ensemble.connect().await,
        ensemble.connect().await,
        ensemble.connect().await,
    ];
    let (guard, waiting) = held_and_waited_for(&one, &other).await;
    let behind = lock(&third);
    let behind = tokio::spawn(async move { behind.acquire().await.unwrap() });
    pass(Duration::from_millis(200)).await;
    let before = ensemble.requests().len();
    guard.release().await.unwrap();
    let guard = soon("the next one is granted", waiting).await;
    pass(Duration::from_millis(200)).await;
    let mut sent = ensemble.requests().split_off(before);
    sent.retain(|sent| sent.session == third.id());
    let is_both = matches!(
        [&sent[0].request, &sent[1].request],
        [Request::Exists { .. }, Request::GetChildren2 { .. }]
    );
    assert!(is_both && sent.len() == 2, "{sent:#?}");
    assert_eq!(sent[0].at, sent[1].at);
    guard.unwrap().unwrap().release().await.unwrap();
    let guard = soon("the last one is granted", behind).await.unwrap();
    let sent = ensemble.requests();
    assert!(matches!(
        sent.last().unwrap().request,
        Request::Delete { .. }
    ));
    assert!(guard.is_valid());
}

#[tokio::test(start_paused = true)]
async fn a_try_for_a_taken_lock_writes_nothing_and_wakes_no_waiter() {
    let ensemble = Ensemble::new(3);
    let (one, other) = (ensemble.connect().await, ensemble.connect().await);
    let third = ensemble.connect().server(3).await;
    let (guard, waiting) = held_and_waited_for(&one, &other).await;
    let tries = lock(&third);
    let before = ensemble.requests().len();
    assert!(tries.try_acquire().await.unwrap().is_none());
    let asked: Vec<Request> = ensemble
        .requests()
        .drain(before..)
        .map(|seen| seen.request)
        .collect();
    let is_lean = matches!(
        asked[..],
        [Request::Sync { .. }, Request::GetChildren2 { .. }]
    );
    assert!(is_lean, "{asked:#?}");
    guard.release().await.unwrap();
    let next = soon("the waiter is granted the lock", waiting).await;
    next.unwrap().unwrap().release().await.unwrap();
    let taken = tries.try_acquire().await.unwrap();
    assert!(taken.is_some_and(|guard| guard.is_valid()));
}

/// Also at a server that does not show yet that the lock is free.
#[tokio::test(start_paused = true)]
async fn a_try_after_a_release_finds_the_lock_free_whatever_its_server_shows() {
    let ensemble = Ensemble::new(3);
    let leader = ensemble.leader().expect("there is one");
    let behind = leader % 3 + 1;
    let one = ensemble.connect().server(leader).await;
    let other = ensemble.connect().server(behind).await;
    let guard = lock(&one).acquire().await.unwrap();
    other.sync(PATH).await.unwrap();
    ensemble.server(behind).lag_for(Duration::from_millis(500));
    guard.release().await.unwrap();
    assert!(lock(&other).try_acquire().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn the_node_is_watched_only_when_the_lock_is_held_for_a_while() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    for (hold, looks) in [(5, 0), (50, 1), (500, 1)] {
        let before = ensemble.arrived(matching::exists(OURS));
        let guard = lock(&session).acquire().await.unwrap();
        pass(Duration::from_millis(hold)).await;
        assert_eq!(
            ensemble.arrived(matching::exists(OURS)) - before,
            looks,
            "{hold} ms"
        );
        assert_eq!(ensemble.watch_count(), looks);
        guard.release().await.unwrap();
        pass(Duration::from_millis(50)).await;
        assert_eq!(ensemble.watch_count(), 0);
        let more = ensemble.arrived(matching::exists(OURS)) - before;
        assert_eq!(more, looks, "{hold} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn each_guard_of_a_handle_is_watched_once_it_is_held_for_a_while() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let lock = RwLock::new(&session, PATH).unwrap();
    let mut guards = Vec::new();
    for _ in 0..3 {
        guards.push(lock.reader().acquire().await.unwrap());
        pass(Duration::from_millis(3)).await;
    }
    guards.remove(1).release().await.unwrap();
    pass(Duration::from_millis(50)).await;
    assert_eq!(ensemble.arrived(matching::exists(READERS)), 2);
    for guard in guards {
        session.delete(guard.paths().next().unwrap()).await.unwrap();
        let lost = soon("its deletion is noticed", guard.lost()).await;
        assert_eq!(lost, LockLoss::NodeDeleted);
    }
    // The task that waits for recent guards has ended; the next guard starts another one.
    let guard = lock.reader().acquire().await.unwrap();
    pass(Duration::from_millis(50)).await;
    assert_eq!(ensemble.arrived(matching::exists(READERS)), 3);
    guard.release().await.unwrap();
}
