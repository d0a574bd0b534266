//! Futures dropped at every await.

use std::time::Duration;

use zk_core::Session;
use zk_lock::{FairLock, RwLock};
use zk_sim::Ensemble;

use crate::{PATH, dropped, left, lock, pass, soon};

/// The other contender, which releases after a while.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Other {
    Nobody,
    /// An exclusive holder.
    Holds(Duration),
    /// A reader of a read/write lock.
    Reads(Duration),
}

async fn dropped_everywhere(held: Option<Duration>, act: impl AsyncFn(FairLock)) {
    let other = held.map_or(Other::Nobody, Other::Holds);
    all_dropped_everywhere(other, async |session| act(lock(&session)).await).await;
}

/// Drops `act` after every number of polls, beside another contender, until it finishes earlier, and checks each time
/// that nothing is left.
pub(crate) async fn all_dropped_everywhere(somebody: Other, act: impl AsyncFn(Session)) {
    let (held, reads) = match somebody {
        Other::Nobody => (None, false),
        Other::Holds(time) => (Some(time), false),
        Other::Reads(time) => (Some(time), true),
    };
    let hold = async |session: Session| {
        if reads {
            let lock = RwLock::new(&session, PATH).unwrap();
            (None, Some(lock.reader().acquire().await.unwrap()))
        } else {
            (Some(lock(&session).acquire().await.unwrap()), None)
        }
    };
    dropped::everywhere(held, hold, act).await;
}

#[tokio::test(start_paused = true)]
async fn an_acquire_dropped_at_any_await_leaves_nothing() {
    dropped_everywhere(None, async |lock| drop(lock.acquire().await.unwrap())).await;
}

#[tokio::test(start_paused = true)]
async fn a_waiter_dropped_at_any_await_leaves_nothing() {
    let held = Some(Duration::from_millis(200));
    dropped_everywhere(held, async |lock| drop(lock.acquire().await.unwrap())).await;
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_had_to_prove_its_session_leaves_nothing_either() {
    // Longer than the proof of an idle session lasts.
    let held = Some(Duration::from_secs(30));
    dropped_everywhere(held, async |lock| drop(lock.acquire().await.unwrap())).await;
}

#[tokio::test(start_paused = true)]
async fn a_try_dropped_at_any_await_leaves_nothing() {
    let held = Some(Duration::from_secs(1));
    dropped_everywhere(held, async |lock| drop(lock.try_acquire().await)).await;
    dropped_everywhere(None, async |lock| drop(lock.try_acquire().await)).await;
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_times_out_at_any_moment_leaves_nothing() {
    let held = Some(Duration::from_secs(1));
    let limit = Duration::from_millis(100);
    dropped_everywhere(held, async |lock| drop(lock.acquire_timeout(limit).await)).await;
    for limit in 0..30 {
        let ensemble = Ensemble::new(3);
        let (one, other) = (ensemble.connect().await, ensemble.connect().await);
        let guard = lock(&one).acquire().await.unwrap();
        let limit = Duration::from_micros(limit * 250);
        lock(&other).acquire_timeout(limit).await.unwrap_err();
        soon("the waiter leaves", other.settled()).await;
        pass(Duration::from_secs(1)).await;
        assert_eq!(left(&ensemble), [guard.path().name().unwrap()], "{limit:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_dropped_at_any_await_continues() {
    let act = async |lock: FairLock| lock.acquire().await.unwrap().release().await.unwrap();
    dropped_everywhere(None, act).await;
}

#[tokio::test(start_paused = true)]
async fn a_run_dropped_at_any_await_releases() {
    let act = async |lock: FairLock| {
        let body = async |_| pass(Duration::from_millis(30)).await;
        lock.run(body).await.unwrap();
    };
    dropped_everywhere(Some(Duration::from_millis(50)), act).await;
    let act = async |lock: FairLock| {
        let body = async |_| pass(Duration::from_millis(30)).await;
        lock.run_timeout(Duration::from_secs(60), body)
            .await
            .unwrap();
    };
    dropped_everywhere(Some(Duration::from_millis(50)), act).await;
}

#[tokio::test(start_paused = true)]
async fn acquire_with_progress_dropped_anywhere_leaves_nothing() {
    let held = Some(Duration::from_millis(200));
    let act = async |lock: FairLock| {
        let tell = |ahead: &zk_lock::Ahead| assert_eq!(ahead.count(), 1);
        drop(lock.acquire_with_progress(tell).await.unwrap());
    };
    dropped_everywhere(held, act).await;
}
