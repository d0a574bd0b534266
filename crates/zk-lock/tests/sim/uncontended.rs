//! Locks that one session takes again and again: it needs no list to know that it is alone.

use std::time::Duration;

use zk_core::Session;
use zk_core::transport::Request;
use zk_lock::FairLock;
use zk_sim::{Ensemble, matching};

use crate::{PATH, left, lock, pass, soon};

/// Three turns of a handle, after which it takes the lock without a list.
async fn used_alone(session: &Session) -> FairLock {
    let lock = lock(session);
    for _ in 0..3 {
        lock.acquire().await.unwrap().release().await.unwrap();
    }
    lock
}

/// What a function has asked the servers for.
async fn requests(ensemble: &Ensemble, asks: impl Future<Output = ()>) -> Vec<Request> {
    let before = ensemble.requests().len();
    asks.await;
    let seen = ensemble.requests().into_iter().skip(before);
    seen.map(|seen| seen.request).collect()
}

async fn turn(lock: &FairLock) {
    let guard = lock.acquire().await.unwrap();
    assert!(guard.is_valid());
    guard.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_fourth_turn_of_a_handle_lists_nothing() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let lock = used_alone(&session).await;
    for _ in 0..5 {
        let asked = requests(&ensemble, turn(&lock)).await;
        let is_lean = matches!(asked[..], [Request::Create2(_), Request::Delete { .. }]);
        assert!(is_lean, "{asked:#?}");
        assert_eq!(ensemble.watch_count(), 1, "that on the path");
    }
    drop(lock);
    pass(Duration::from_secs(3)).await;
    assert_eq!(ensemble.watch_count(), 0);
    assert_eq!(left(&ensemble), [""; 0]);
}

/// The session of another contender that holds the lock, and what the first one does then: it waits.
async fn waits_for_the_other(ensemble: &Ensemble, lock: FairLock, held: zk_lock::Guard) {
    let waiting = tokio::spawn(async move { lock.acquire().await });
    pass(Duration::from_secs(1)).await;
    assert!(!waiting.is_finished(), "two hold the lock");
    held.release().await.unwrap();
    let guard = soon("the waiter is granted the lock", waiting).await;
    guard.unwrap().unwrap().release().await.unwrap();
    pass(Duration::from_secs(3)).await;
    assert_eq!(left(ensemble), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_contender_in_between_is_noticed() {
    let ensemble = Ensemble::new(3);
    let (one, other) = (ensemble.connect().await, ensemble.connect().await);
    let used = used_alone(&one).await;
    turn(&used).await;
    let held = lock(&other).acquire().await.unwrap();
    waits_for_the_other(&ensemble, used, held).await;
}

/// The counter of a new path begins with 0, so that another contender may have the number of our last one.
async fn holds_in_a_new_path(other: &Session, last: usize) -> zk_lock::Guard {
    other.delete(PATH).await.unwrap();
    let lock = lock(other);
    for _ in 0..last {
        turn(&lock).await;
    }
    lock.acquire().await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_new_path_with_the_same_numbers_is_noticed() {
    let ensemble = Ensemble::new(3);
    let one = ensemble.connect().server(2).await;
    let other = ensemble.connect().server(3).await;
    let used = used_alone(&one).await;
    // Our last number is 2, and theirs is, too.
    let held = holds_in_a_new_path(&other, 2).await;
    assert!(held.path().as_str().ends_with("0000000002"));
    waits_for_the_other(&ensemble, used, held).await;
}

#[tokio::test(start_paused = true)]
async fn a_new_path_is_noticed_after_a_lost_connection() {
    let ensemble = Ensemble::new(3);
    let one = ensemble.connect().server(2).await;
    let other = ensemble.connect().server(3).await;
    let used = used_alone(&one).await;
    ensemble
        .session(one.id())
        .cut_for(Duration::from_millis(500));
    let held = holds_in_a_new_path(&other, 2).await;
    waits_for_the_other(&ensemble, used, held).await;
}

#[tokio::test(start_paused = true)]
async fn a_turn_whose_release_was_not_answered_proves_nothing() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let used = used_alone(&session).await;
    drop(used.acquire().await.unwrap());
    let asked = requests(&ensemble, turn(&used)).await;
    let lists = asked.iter().filter(|one| matching::lists(PATH)(one));
    assert_eq!(lists.count(), 1, "{asked:#?}");
}

/// A list that follows the create costs a round trip more, so it is sent along unless the session is alone for a while.
#[tokio::test(start_paused = true)]
async fn sessions_that_alternate_take_one_round_trip_each() {
    let ensemble = Ensemble::builder()
        .servers(3)
        .latency(Duration::from_millis(10))
        .build();
    let (one, other) = (ensemble.connect().await, ensemble.connect().await);
    let locks = [lock(&one), lock(&other)];
    turn(&locks[0]).await;
    for _ in 0..5 {
        for lock in &locks {
            let begun = tokio::time::Instant::now();
            let guard = lock.acquire().await.unwrap();
            assert!(begun.elapsed() < Duration::from_millis(45));
            guard.release().await.unwrap();
        }
    }
}
