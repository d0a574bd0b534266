//! The lock without a queue.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use zk_core::Session;
use zk_core::transport::Request;
use zk_lock::{AcquireError, LockLoss, LockOptions, RaceGuard, RaceLock, ReleaseError};
use zk_sim::{Ensemble, matching};

use crate::chaos::Trial;
use crate::faults::STRIKES;
use crate::{dropped, ephemerals, pass, soon};

const PATH: &str = "/races/a";
/// How many wait where the cost is counted.
const WAITERS: usize = 10;

fn race(session: &Session) -> RaceLock {
    RaceLock::new(session, PATH).expect("a good path")
}

#[tokio::test(start_paused = true)]
async fn the_one_node_excludes_all_others() {
    let ensemble = Ensemble::new(3);
    let (one, other) = (ensemble.connect().await, ensemble.connect().await);
    let options = LockOptions::default().with_owner("the first one");
    let lock = RaceLock::with_options(&one, PATH, options).unwrap();
    let guard = lock.acquire().await.unwrap();
    assert!(guard.is_valid());
    assert_eq!(guard.path().as_str(), PATH);
    assert_eq!(ephemerals(&ensemble), [PATH]);
    let tree = ensemble.tree();
    let data = String::from_utf8_lossy(tree.node(PATH).unwrap().data()).into_owned();
    assert!(data.starts_with("the first one #"), "{data}");
    // And by another handle of the same session.
    for session in [&one, &other] {
        assert!(race(session).try_acquire().await.unwrap().is_none());
        let error = race(session).acquire_timeout(Duration::from_secs(1)).await;
        let error = error.unwrap_err();
        assert!(matches!(error, AcquireError::TimedOut(_)), "{error:?}");
    }
    let token = guard.fencing_token();
    guard.release().await.unwrap();
    let guard = race(&other).try_acquire().await.unwrap().unwrap();
    assert!(guard.fencing_token() > token);
    drop(guard);
    soon("it is removed", other.settled()).await;
    assert_eq!(ephemerals(&ensemble), [""; 0]);
}

/// The cost that the documentation states.
#[tokio::test(start_paused = true)]
async fn a_release_wakes_all_waiters_and_each_of_them_tries() {
    let ensemble = Ensemble::new(3);
    let mut guard = race(&ensemble.connect().await).acquire().await.unwrap();
    let grants: Arc<Mutex<Vec<RaceGuard>>> = Arc::default();
    for _ in 0..WAITERS {
        let lock = race(&ensemble.connect().await);
        let grants = Arc::clone(&grants);
        tokio::spawn(async move {
            let guard = lock.acquire().await.unwrap();
            grants.lock().unwrap().push(guard);
        });
    }
    pass(Duration::from_millis(100)).await;
    assert_eq!(ensemble.watch_count(), WAITERS + 1);
    for left in (1..=WAITERS).rev() {
        let before = ensemble.arrived(matching::creates(PATH));
        guard.release().await.unwrap();
        pass(Duration::from_millis(100)).await;
        let tries = ensemble.arrived(matching::creates(PATH)) - before;
        assert_eq!(tries, left);
        let mut granted = std::mem::take(&mut *grants.lock().unwrap());
        assert_eq!(granted.len(), 1, "one of {left}");
        guard = granted.remove(0);
    }
    assert_eq!(ensemble.requests().iter().filter(|seen| matches!(&seen.request, Request::Create2(create) if create.path.as_str() != PATH)).count(), 1);
}

/// Every request of an acquire and release is hit by every fault, while another task of the same session contends: the
/// session alone does not identify the owner of a node.
#[tokio::test(start_paused = true)]
async fn two_tasks_of_one_session_never_both_hold_the_lock() {
    for (name, strike) in STRIKES {
        for nth in 1.. {
            let ensemble = Ensemble::new(3);
            let session = ensemble.connect().server(1).await;
            let what = format!("{name}, request {nth}");
            let struck = strike(
                ensemble
                    .on(matching::anything())
                    .session(session.id())
                    .nth(nth),
            );
            let inside = Arc::new(Mutex::new(None));
            let mut tasks = Vec::new();
            for me in 0..3 {
                let lock = race(&session);
                let inside = Arc::clone(&inside);
                tasks.push(tokio::spawn(async move {
                    for _ in 0..3 {
                        let guard = lock.acquire().await.unwrap();
                        assert_eq!(inside.lock().unwrap().replace(me), None);
                        pass(Duration::from_millis(15)).await;
                        assert!(guard.is_valid());
                        assert_eq!(inside.lock().unwrap().take(), Some(me));
                        guard.release().await.unwrap();
                    }
                }));
            }
            for task in tasks {
                soon(&what, task).await.expect(&what);
            }
            struck.release();
            soon(&what, session.settled()).await;
            assert_eq!(ephemerals(&ensemble), [""; 0], "{what}");
            if struck.count() == 0 {
                assert!(nth > 30, "{what}");
                break;
            }
        }
    }
}

/// Two replies in a row are lost, so that the outcome of the first attempt is unknown; the node is that of the first.
#[tokio::test(start_paused = true)]
async fn an_attempt_with_unknown_outcome_is_not_anothers_grant() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    drop(race(&session).acquire().await.unwrap());
    session.settled().await;
    let short = session.with_operation_timeout(Duration::from_millis(500));
    let lost = ensemble.on(matching::creates(PATH)).lose_reply();
    let failing = race(&short);
    let failing = tokio::spawn(async move { failing.acquire().await });
    lost.happened().await;
    ensemble.session(session.id()).partition();
    let error = soon("it gives up", failing).await.unwrap().unwrap_err();
    assert!(matches!(error, AcquireError::Failed(_)), "{error:?}");
    assert_eq!(ephemerals(&ensemble), [PATH]);
    ensemble.session(session.id()).heal();
    let next = soon("the node is removed", race(&session).acquire()).await;
    let next = next.unwrap();
    soon("nothing else is removed", session.settled()).await;
    assert_eq!(ephemerals(&ensemble), [PATH]);
    next.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_acquire_dropped_at_any_await_leaves_nothing() {
    let hold = async |session: Session| race(&session).acquire().await.unwrap();
    for held in [0, 200, 30_000] {
        let held = (held > 0).then_some(Duration::from_millis(held));
        let act = async |session| drop(race(&session).acquire().await.unwrap());
        dropped::everywhere(held, hold, act).await;
        let act = async |session| drop(race(&session).try_acquire().await);
        dropped::everywhere(held, hold, act).await;
    }
    let act = async |session| {
        race(&session)
            .acquire()
            .await
            .unwrap()
            .release()
            .await
            .unwrap();
    };
    dropped::everywhere(None, hold, act).await;
}

/// The name is not unique: a node that another client created under it is not deleted.
#[tokio::test(start_paused = true)]
async fn a_guard_whose_node_was_replaced_deletes_no_other_node() {
    for by_release in [true, false] {
        let ensemble = Ensemble::new(3);
        let (one, other) = (ensemble.connect().await, ensemble.connect().await);
        let guard = race(&one).acquire().await.unwrap();
        // So quickly that the guard has not been notified.
        other.delete(PATH).await.unwrap();
        let theirs = race(&other).try_acquire().await.unwrap().unwrap();
        if by_release {
            let error = guard.release().await.unwrap_err();
            assert!(
                matches!(
                    error,
                    ReleaseError::Lost {
                        loss: LockLoss::NodeDeleted,
                        ..
                    }
                ),
                "{error:?}"
            );
        } else {
            drop(guard);
        }
        soon("nothing is left to do", one.settled()).await;
        pass(Duration::from_secs(1)).await;
        assert_eq!(ephemerals(&ensemble), [PATH]);
        assert!(theirs.is_valid());
        theirs.release().await.unwrap();
    }
}

/// The name is not unique: an existing node need not be ours.
#[tokio::test(start_paused = true)]
async fn a_guard_whose_node_was_replaced_unseen_is_lost() {
    for cut_off in [false, true] {
        let ensemble = Ensemble::new(3);
        let (one, other) = (ensemble.connect().await, ensemble.connect().await);
        let guard = race(&one).acquire().await.unwrap();
        if cut_off {
            // It has a watch by now, and the server that it reconnects to finds a changed node, not a missing one.
            pass(Duration::from_millis(500)).await;
            ensemble.session(one.id()).partition();
        }
        other.delete(PATH).await.unwrap();
        let theirs = race(&other).try_acquire().await.unwrap().unwrap();
        ensemble.session(one.id()).heal();
        let what = format!("the guard is notified, cut off: {cut_off}");
        let lost = async {
            while guard.lost().await != LockLoss::NodeDeleted {
                pass(Duration::from_millis(10)).await;
            }
        };
        soon(&what, lost).await;
        assert!(!guard.is_valid() && theirs.is_valid());
        drop(guard);
        soon("nothing is left to do", one.settled()).await;
        assert_eq!(ephemerals(&ensemble), [PATH]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_cut_off_holder_lapses_before_the_next_is_granted() {
    let ensemble = Ensemble::new(3);
    let (one, other) = (ensemble.connect().await, ensemble.connect().await);
    let held = race(&one).acquire().await.unwrap();
    let next = race(&other);
    let mut next = tokio::spawn(async move { next.acquire().await });
    pass(Duration::from_secs(3)).await;
    ensemble.session(one.id()).partition();
    tokio::select! {
        biased;
        guard = &mut next => panic!("granted while the first one relies on its lock: {guard:?}"),
        loss = held.lost() => assert_eq!(loss, LockLoss::SessionLeaseExpired),
    }
    let guard = soon("the session expires", next).await.unwrap().unwrap();
    assert!(guard.is_valid() && !held.is_valid());
    ensemble.expire(other.id());
    let error = soon("it is notified", race(&other).acquire())
        .await
        .unwrap_err();
    assert!(
        matches!(error, AcquireError::SessionLost { .. }),
        "{error:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_cut_off_waiter_continues_when_it_is_back() {
    let ensemble = Ensemble::new(3);
    let (one, other) = (ensemble.connect().await, ensemble.connect().await);
    let other = other.with_operation_timeout(Duration::from_millis(200));
    let held = race(&one).acquire().await.unwrap();
    let next = race(&other);
    let next = tokio::spawn(async move { next.acquire().await });
    pass(Duration::from_secs(1)).await;
    let cut = ensemble
        .on(matching::creates(PATH))
        .session(other.id())
        .lose_request();
    held.release().await.unwrap();
    soon("it tries", cut.happened()).await;
    ensemble.session(other.id()).partition();
    pass(Duration::from_secs(2)).await;
    ensemble.session(other.id()).heal();
    let guard = soon("it continues", next).await.unwrap().unwrap();
    assert!(guard.is_valid());
    guard.release().await.unwrap();
}

/// Two tasks share each session.
#[test]
fn under_random_faults_no_two_guards_are_valid_and_no_node_stays() {
    let trial = Trial {
        seeds: 200,
        sessions: 3,
        ..Trial::default()
    };
    trial.run(|session| [race(session), race(session)], &[("grants", 15)]);
}
