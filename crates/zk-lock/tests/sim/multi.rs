//! Several locks acquired as one.

use std::time::Duration;

use zk_core::Session;
use zk_lock::{
    AcquireError, FairLock, LockLoss, MultiLock, MultiLockError, MultiTxnError, ReleaseError,
};
use zk_sim::{Ensemble, matching};

use crate::faults::STRIKES;
use crate::{dropped, ephemerals, pass, soon};

mod chaos;

fn fair(session: &Session, path: &str) -> FairLock {
    FairLock::new(session, path).expect("a good path")
}

fn multi(session: &Session, paths: &[&str]) -> MultiLock {
    MultiLock::new(paths.iter().map(|path| fair(session, path))).expect("different paths")
}

fn paths(lock: &MultiLock) -> Vec<&str> {
    lock.locks()
        .iter()
        .map(|lock| lock.path().as_str())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn the_order_is_that_of_the_full_paths_however_they_are_given() {
    let ensemble = Ensemble::new(1);
    let session = ensemble.connect().await;
    for given in [
        ["/a/b", "/c", "/b"],
        ["/c", "/b", "/a/b"],
        ["/b", "/a/b", "/c"],
    ] {
        assert_eq!(paths(&multi(&session, &given)), ["/a/b", "/b", "/c"]);
    }
    let inside = session.with_namespace("/b").unwrap();
    let mixed = MultiLock::new([
        fair(&inside, "/x"),
        fair(&session, "/c"),
        fair(&session, "/a"),
    ]);
    assert_eq!(paths(&mixed.unwrap()), ["/a", "/x", "/c"]);
}

#[tokio::test(start_paused = true)]
async fn a_lock_given_twice_is_refused() {
    let ensemble = Ensemble::new(1);
    let (session, other) = (ensemble.connect().await, ensemble.connect().await);
    let inside = other.with_namespace("/b").unwrap();
    for twin in [
        fair(&session, "/b/x"),
        fair(&other, "/b/x"),
        fair(&inside, "/x"),
    ] {
        let error = MultiLock::new([twin, fair(&session, "/a"), fair(&session, "/b/x")]);
        let error = error.unwrap_err();
        assert!(
            matches!(error, MultiLockError::Duplicate { .. }),
            "{error:?}"
        );
        assert_eq!(
            error.to_string(),
            "two locks of /b/x were given, which would wait for each other; give it once"
        );
    }
    let error = MultiLock::new(Vec::<FairLock>::new()).unwrap_err();
    assert!(matches!(error, MultiLockError::Empty), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn opposite_orders_of_the_same_locks_do_not_deadlock() {
    let ensemble = Ensemble::new(3);
    let mut tasks = Vec::new();
    for given in [["/a", "/b", "/c"], ["/c", "/b", "/a"], ["/b", "/c", "/a"]] {
        let lock = multi(&ensemble.connect().await, &given);
        tasks.push(tokio::spawn(async move {
            for _ in 0..20 {
                let guard = lock.acquire().await.unwrap();
                assert!(guard.is_valid() && guard.valid_until().is_some());
                assert_eq!(guard.guards().len(), 3);
                guard.release().await.unwrap();
            }
        }));
    }
    for task in tasks {
        soon("everyone gets on", task).await.unwrap();
    }
    assert_eq!(ephemerals(&ensemble), [""; 0]);
}

/// Curator's deadline is per lock.
#[tokio::test(start_paused = true)]
async fn one_limit_covers_all_locks_and_the_error_names_the_last() {
    let ensemble = Ensemble::new(3);
    let (one, other) = (ensemble.connect().await, ensemble.connect().await);
    let first = fair(&one, "/a").acquire().await.unwrap();
    let _second = fair(&one, "/b").acquire().await.unwrap();
    let releasing = tokio::spawn(async move {
        pass(Duration::from_millis(700)).await;
        first.release().await.unwrap();
    });
    let started = tokio::time::Instant::now();
    let limit = Duration::from_secs(1);
    let error = multi(&other, &["/b", "/a"]).acquire_timeout(limit).await;
    let error = error.unwrap_err();
    assert_eq!(started.elapsed().as_millis(), 1000);
    assert!(error.is_timed_out());
    let AcquireError::TimedOut(timed_out) = &error else {
        panic!("{error:?}")
    };
    assert_eq!(
        (timed_out.path().as_str(), timed_out.limit()),
        ("/b", limit)
    );
    assert_eq!(timed_out.ahead().unwrap().count(), 1);
    releasing.await.unwrap();
    soon("everything is given back", other.settled()).await;
    assert_eq!(ephemerals(&ensemble).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_first_failure_ends_it_and_nothing_is_kept() {
    let ensemble = Ensemble::new(3);
    let (one, other) = (ensemble.connect().await, ensemble.connect().await);
    // An ephemeral node cannot have children.
    one.create("/b", "").ephemeral().await.unwrap();
    let error = multi(&other, &["/a", "/b", "/c"])
        .acquire()
        .await
        .unwrap_err();
    assert!(matches!(error, AcquireError::Failed(_)), "{error:?}");
    assert_eq!(
        error.to_string(),
        "create /b/lock-: the parent is ephemeral and cannot have children"
    );
    soon("everything is given back", other.settled()).await;
    assert_eq!(ephemerals(&ensemble), ["/b"]);
    assert_eq!(ensemble.arrived(matching::creates("/c/**")), 0);
}

#[tokio::test(start_paused = true)]
async fn a_try_takes_all_or_leaves_no_trace() {
    let ensemble = Ensemble::new(3);
    let (one, other) = (ensemble.connect().await, ensemble.connect().await);
    let held = fair(&one, "/c").acquire().await.unwrap();
    let all = multi(&other, &["/a", "/b", "/c"]);
    assert!(all.try_acquire().await.unwrap().is_none());
    assert_eq!(ephemerals(&ensemble).len(), 1);
    held.release().await.unwrap();
    let guard = all.try_acquire().await.unwrap().unwrap();
    assert_eq!(ephemerals(&ensemble).len(), 3);
    let txn = guard.txn().unwrap().create("/done", "");
    assert_eq!(txn.commit().await.unwrap().len(), 4);
    guard.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_loss_of_one_is_a_loss_of_all_and_release_lists_each() {
    let ensemble = Ensemble::new(3);
    let (one, admin) = (ensemble.connect().await, ensemble.connect().await);
    let guard = multi(&one, &["/a", "/b", "/c"]).acquire().await.unwrap();
    let lost = guard.lost();
    pass(Duration::from_millis(100)).await;
    for gone in &guard.guards()[1..] {
        admin.delete(gone.paths().next().unwrap()).await.unwrap();
    }
    assert_eq!(soon("it is notified", lost).await, LockLoss::NodeDeleted);
    assert!(!guard.is_valid() && guard.valid_until().is_none());
    assert!(guard.guards()[0].is_valid());
    let error = guard.txn().unwrap().create("/no", "").commit().await;
    assert_eq!(error.unwrap_err().failed_part(), Some(1));
    let error = guard.release().await.unwrap_err();
    assert_eq!(error.loss(), Some(LockLoss::NodeDeleted));
    let ReleaseError::Several { errors } = &error else {
        panic!("{error:?}")
    };
    assert_eq!(errors.len(), 2, "{error}");
    soon("the first one is released", one.settled()).await;
    assert_eq!(ephemerals(&ensemble), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_lock_lost_during_the_next_wait_ends_the_wait() {
    let ensemble = Ensemble::new(3);
    let (one, other) = (ensemble.connect().await, ensemble.connect().await);
    let _held = fair(&one, "/b").acquire().await.unwrap();
    let both = multi(&other, &["/a", "/b"]);
    let waiting = tokio::spawn(async move { both.acquire().await });
    pass(Duration::from_secs(1)).await;
    let first = fair(&one, "/a").inspector().contenders().await.unwrap();
    one.delete(format!("/a/{}", first[0].name())).await.unwrap();
    let error = soon("it is notified", waiting).await.unwrap().unwrap_err();
    assert!(
        matches!(
            error,
            AcquireError::Lost {
                loss: LockLoss::NodeDeleted,
                ..
            }
        ),
        "{error:?}"
    );
    soon("nothing is left", other.settled()).await;
    assert_eq!(ephemerals(&ensemble).len(), 1);
}

/// The locks of several sessions: the first one is cut off while the second is waited for, and comes back.
#[tokio::test(start_paused = true)]
async fn locks_of_several_sessions_are_granted_when_all_are_valid() {
    for comes_back in [true, false] {
        let ensemble = Ensemble::new(3);
        let (one, two, other) = (
            ensemble.connect().await,
            ensemble.connect().await,
            ensemble.connect().await,
        );
        let held = fair(&other, "/b").acquire().await.unwrap();
        let both = MultiLock::new([fair(&one, "/a"), fair(&two, "/b")]).unwrap();
        let waiting = tokio::spawn(async move { both.acquire().await });
        pass(Duration::from_secs(1)).await;
        ensemble.session(one.id()).partition();
        if comes_back {
            // Its session lives until the leader expires it, and its lease is over for a moment before.
            pass(one.session_timeout().mul_f64(0.985)).await;
            held.release().await.unwrap();
            pass(Duration::from_millis(20)).await;
            assert!(!waiting.is_finished(), "the first one is not valid");
            ensemble.session(one.id()).heal();
            let guard = soon("both are valid", waiting).await.unwrap().unwrap();
            assert!(guard.is_valid());
            assert_eq!(guard.txn().unwrap_err(), MultiTxnError::MultipleSessions);
            guard.release().await.unwrap();
        } else {
            let error = soon("one is lost", waiting).await.unwrap().unwrap_err();
            assert!(
                matches!(
                    error,
                    AcquireError::Lost {
                        loss: LockLoss::SessionLost,
                        ..
                    }
                ),
                "{error:?}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_acquire_dropped_at_any_await_leaves_nothing() {
    for held in [None, Some(Duration::from_millis(200))] {
        let hold = async |session: Session| fair(&session, "/b").acquire().await.unwrap();
        let all = |session: &Session| multi(session, &["/a", "/b", "/c"]);
        let act = async |session| drop(all(&session).acquire().await.unwrap());
        dropped::everywhere(held, hold, act).await;
        let act = async |session| drop(all(&session).try_acquire().await);
        dropped::everywhere(held, hold, act).await;
        let limit = Duration::from_millis(100);
        let act = async |session| drop(all(&session).acquire_timeout(limit).await);
        dropped::everywhere(held, hold, act).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_fault_at_any_request_strands_no_contender() {
    for (name, strike) in STRIKES {
        for nth in 1.. {
            let ensemble = Ensemble::new(3);
            let session = ensemble.connect().server(1).await;
            let struck = strike(
                ensemble
                    .on(matching::anything())
                    .session(session.id())
                    .nth(nth),
            );
            let what = format!("{name}, request {nth}");
            let all = multi(&session, &["/a", "/b", "/c"]);
            let guard = soon(&what, all.acquire()).await.expect(&what);
            assert!(guard.is_valid(), "{what}");
            soon(&what, guard.release()).await.expect(&what);
            struck.release();
            soon(&what, session.settled()).await;
            assert_eq!(ephemerals(&ensemble), [""; 0], "{what}");
            if struck.count() == 0 {
                assert!(nth > 9, "{what}");
                break;
            }
        }
    }
}
