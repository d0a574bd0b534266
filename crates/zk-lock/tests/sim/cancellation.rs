//! Futures dropped at every await.

use std::time::Duration;

use zk_core::Session;
use zk_lock::FairLock;
use zk_sim::Ensemble;

use crate::left;
use crate::lock;
use crate::pass;
use crate::polled;
use crate::soon;

/// What else happens at the moment of the drop.
#[derive(Debug, Clone, Copy)]
enum Besides {
    Nothing,
    Cut,
    CutFor(Duration),
    MoveToLagging,
}

const BESIDES: [Besides; 4] = [
    Besides::Nothing,
    Besides::Cut,
    Besides::CutFor(Duration::from_secs(2)),
    Besides::MoveToLagging,
];

/// Lets `act` be dropped after every number of polls, with a lock that another one holds for `held`, until it is done
/// before that; and looks each time that nothing is left.
async fn dropped_everywhere(held: Option<Duration>, act: impl AsyncFn(FairLock)) {
    for besides in BESIDES {
        for polls in 0.. {
            let what = format!("{besides:?} after {polls} polls");
            let ensemble = Ensemble::new(3);
            let session: Session = ensemble.connect().server(1).await;
            let other = ensemble.connect().server(3).await;
            let guard = match held {
                Some(_) => Some(lock(&other).acquire().await.unwrap()),
                None => None,
            };
            let releasing = tokio::spawn(async move {
                if let Some(guard) = guard {
                    pass(held.unwrap_or_default()).await;
                    guard.release().await.unwrap();
                }
            });
            let done = soon(&what, polled(polls, act(lock(&session))))
                .await
                .is_some();
            let link = ensemble.session(session.id());
            match besides {
                Besides::Nothing => {}
                Besides::Cut => link.cut(),
                Besides::CutFor(pause) => link.cut_for(pause),
                Besides::MoveToLagging => {
                    ensemble.server(2).lag_for(Duration::from_millis(500));
                    link.move_to(2);
                }
            }
            soon(&what, releasing).await.unwrap();
            soon(&what, session.settled()).await;
            // Whatever were still on its way would be there by now.
            pass(Duration::from_secs(3)).await;
            assert_eq!(left(&ensemble), [""; 0], "{what}");
            assert_eq!(ensemble.watch_count(), 0, "{what}");
            // The handle is as good as before.
            let guard = soon(&what, lock(&session).acquire()).await.expect(&what);
            guard.release().await.unwrap();
            if done {
                assert!(polls > 1, "{what}");
                break;
            }
        }
    }
}

// covers: L3
#[tokio::test(start_paused = true)]
async fn an_acquire_dropped_at_any_await_leaves_nothing() {
    dropped_everywhere(None, async |lock| drop(lock.acquire().await.unwrap())).await;
}

// covers: L3
#[tokio::test(start_paused = true)]
async fn a_waiter_dropped_at_any_await_leaves_nothing() {
    let held = Some(Duration::from_millis(200));
    dropped_everywhere(held, async |lock| drop(lock.acquire().await.unwrap())).await;
}

// covers: L3
#[tokio::test(start_paused = true)]
async fn a_waiter_that_had_to_prove_its_session_leaves_nothing_either() {
    // Longer than the proof of an idle session lasts.
    let held = Some(Duration::from_secs(30));
    dropped_everywhere(held, async |lock| drop(lock.acquire().await.unwrap())).await;
}

// covers: L3
#[tokio::test(start_paused = true)]
async fn a_try_dropped_at_any_await_leaves_nothing() {
    let held = Some(Duration::from_secs(1));
    dropped_everywhere(held, async |lock| drop(lock.try_acquire().await)).await;
    dropped_everywhere(None, async |lock| drop(lock.try_acquire().await)).await;
}

// covers: L3
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

// covers: L3
#[tokio::test(start_paused = true)]
async fn a_release_dropped_at_any_await_goes_on() {
    let act = async |lock: FairLock| lock.acquire().await.unwrap().release().await.unwrap();
    dropped_everywhere(None, act).await;
}

// covers: L3
#[tokio::test(start_paused = true)]
async fn a_run_dropped_at_any_await_releases() {
    let act = async |lock: FairLock| {
        let body = async |_| pass(Duration::from_millis(30)).await;
        lock.run(body).await.unwrap();
    };
    dropped_everywhere(Some(Duration::from_millis(50)), act).await;
}
