//! What all kinds of locks have in common, by the trait that they share.

use std::time::Duration;

use zk_core::Session;
use zk_lock::{
    AcquireError, AnyLock, CohortGuard, CohortLock, FairLock, Lock, LockEvent, LockGuard, LockLoss,
    MultiLock, MultiTxnError, RaceLock, ReentrantLock, RwLock, Semaphore,
};
use zk_sim::Ensemble;

use crate::{ephemerals, pass, soon};

/// Calls a generic function with two handles of each kind, of two sessions, that exclude each other.
macro_rules! on_each_kind {
    ($test:ident) => {{
        let path = "/locks/a";
        on_kind!($test, |session| FairLock::new(session, path).unwrap());
        on_kind!($test, |session| RaceLock::new(session, path).unwrap());
        on_kind!($test, |session| CohortLock::new(session, path).unwrap());
        on_kind!($test, |session| ReentrantLock::new(session, path).unwrap());
        on_kind!($test, |session| {
            RwLock::new(session, path).unwrap().writer().clone()
        });
        on_kind!($test, |session| Semaphore::new(session, path, 1).unwrap());
        on_kind!($test, |session| {
            Semaphore::new(session, path, 3).unwrap().with_count(2)
        });
    }};
}

macro_rules! on_kind {
    ($test:ident, $create:expr) => {{
        let ensemble = Ensemble::new(3);
        let (one, other) = (ensemble.connect().await, ensemble.connect().await);
        let create = $create;
        let locks: [_; 2] = [&one, &other].map(|session: &Session| create(session));
        $test(&ensemble, locks).await;
        soon("all nodes are deleted", one.settled()).await;
        soon("all nodes are deleted", other.settled()).await;
        assert_eq!(ephemerals(&ensemble), [""; 0]);
    }};
}

#[tokio::test(start_paused = true)]
async fn every_kind_says_the_same_of_a_timeout() {
    on_each_kind!(times_out);
}

async fn times_out<L: Lock>(_: &Ensemble, [one, other]: [L; 2]) {
    let held = one.acquire().await.unwrap();
    assert!(other.try_acquire().await.unwrap().is_none());
    let limit = Duration::from_secs(1);
    let mut reports = 0;
    let watched = other.acquire_with_progress(|_| reports += 1);
    assert!(tokio::time::timeout(limit, watched).await.is_err());
    let error = other.acquire_timeout(limit).await.map(drop).unwrap_err();
    assert!(error.is_timed_out(), "{error:?}");
    let AcquireError::TimedOut(timed_out) = &error else {
        panic!("{error:?}")
    };
    assert_eq!((timed_out.path(), timed_out.limit()), (other.path(), limit));
    let ahead = timed_out.ahead().expect("the ensemble replied");
    assert!(ahead.count() == 1 || ahead.leases().is_some(), "{error}");
    // A cohort has its own order, and does not know the queue of the ensemble.
    let is_cohort = std::any::type_name::<L>().ends_with("CohortLock");
    assert_eq!(reports == 0, is_cohort, "{error}");
    held.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn every_kind_runs_a_body_and_reports_its_events() {
    on_each_kind!(runs);
}

async fn runs<L: Lock>(_: &Ensemble, [one, other]: [L; 2]) {
    let mut events = one.events();
    let taken = one.run(async |_| other.try_acquire().await.unwrap().is_none());
    assert!(taken.await.unwrap(), "it is held while the body runs");
    drop(other.try_acquire().await.unwrap().expect("it is free"));
    // The limit is for the wait; the body may take longer.
    let limit = Duration::from_secs(10);
    let body = async |_| pass(3 * limit).await;
    soon("the body ends", other.run_timeout(limit, body))
        .await
        .unwrap();
    let next = soon("an event", events.next()).await;
    let Some(LockEvent::Acquired { path, .. }) = next else {
        panic!("{next:?}")
    };
    assert!(path.as_str().starts_with(one.path().as_str()), "{path}");
    let mut released = soon("an event", events.next()).await;
    while matches!(released, Some(LockEvent::Acquired { .. })) {
        released = soon("an event", events.next()).await;
    }
    assert!(
        matches!(released, Some(LockEvent::Released { .. })),
        "{released:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn every_guard_knows_at_once_why_it_is_lost() {
    on_each_kind!(loses);
}

async fn loses<L: Lock>(ensemble: &Ensemble, [one, other]: [L; 2]) {
    let guard = one.acquire().await.unwrap();
    assert_eq!(guard.held().loss(), None);
    pass(Duration::from_secs(1)).await;
    ensemble.session(one.session().id()).partition();
    let lost = guard.held().lost();
    assert_eq!(lost.await, LockLoss::SessionLeaseExpired);
    assert_eq!(guard.held().loss(), Some(LockLoss::SessionLeaseExpired));
    ensemble.session(one.session().id()).heal();
    while !guard.held().is_valid() {
        pass(Duration::from_millis(50)).await;
    }
    assert_eq!(guard.held().loss(), None);
    let node = guard.held().paths().last().expect("it has a node");
    other.session().delete(node).await.unwrap();
    let lost = soon("it is notified", guard.held().lost()).await;
    assert_eq!(
        (lost, guard.held().loss()),
        (LockLoss::NodeDeleted, Some(lost))
    );
    let error = guard.release().await.unwrap_err();
    assert_eq!(error.loss(), Some(LockLoss::NodeDeleted));
}

/// One lock of each kind, below `/any`.
fn one_of_each(session: &Session) -> MultiLock {
    let path = |name: &str| format!("/any/{name}");
    let locks: [AnyLock; 6] = [
        Semaphore::new(session, path("f"), 3)
            .unwrap()
            .with_count(2)
            .into(),
        CohortLock::new(session, path("e")).unwrap().into(),
        ReentrantLock::new(session, path("d")).unwrap().into(),
        RwLock::new(session, path("c"))
            .unwrap()
            .reader()
            .clone()
            .into(),
        RwLock::new(session, path("b"))
            .unwrap()
            .writer()
            .clone()
            .into(),
        FairLock::new(session, path("a")).unwrap().into(),
    ];
    MultiLock::new(locks).unwrap()
}

#[tokio::test(start_paused = true)]
async fn locks_of_all_kinds_are_taken_together_or_not_at_all() {
    let ensemble = Ensemble::new(3);
    let (one, other) = (ensemble.connect().await, ensemble.connect().await);
    let all = one_of_each(&one);
    let paths: Vec<_> = all
        .locks()
        .iter()
        .map(|lock| lock.path().as_str())
        .collect();
    assert_eq!(
        paths,
        ["/any/a", "/any/b", "/any/c", "/any/d", "/any/e", "/any/f"]
    );
    let guard = all.acquire().await.unwrap();
    assert_eq!(guard.paths().count(), 7, "the semaphore has two leases");
    let tokens = guard.fencing_tokens();
    let has_token: Vec<_> = tokens.iter().map(Option::is_some).collect();
    assert_eq!(has_token, [true, true, true, true, false, false]);
    let cohort = guard.guards()[4].downcast_ref::<CohortGuard>().unwrap();
    assert_eq!(cohort.fencing_token().turn(), 0);
    let txn = guard.txn().unwrap().create("/done", "");
    assert_eq!(txn.commit().await.unwrap().len(), 8);
    assert!(one_of_each(&other).try_acquire().await.unwrap().is_none());
    let limit = Duration::from_secs(1);
    let error = one_of_each(&other)
        .acquire_timeout(limit)
        .await
        .unwrap_err();
    assert!(
        error.to_string().starts_with("/any/a not acquired"),
        "{error}"
    );
    guard.release().await.unwrap();
    soon("nothing is left", other.settled()).await;
    assert_eq!(ephemerals(&ensemble), [""; 0]);
    let tokens = one_of_each(&other)
        .run(async |tokens| tokens)
        .await
        .unwrap();
    assert_eq!(tokens.len(), 6);
}

#[tokio::test(start_paused = true)]
async fn a_race_lock_among_others_has_no_transaction() {
    let ensemble = Ensemble::new(1);
    let session = ensemble.connect().await;
    let locks: [AnyLock; 2] = [
        FairLock::new(&session, "/a").unwrap().into(),
        RaceLock::new(&session, "/b").unwrap().into(),
    ];
    let guard = MultiLock::new(locks).unwrap().acquire().await.unwrap();
    let path = guard.paths().last().unwrap().clone();
    assert_eq!(path.as_str(), "/b");
    assert_eq!(guard.txn().unwrap_err(), MultiTxnError::RaceLock { path });
    assert!(guard.fencing_tokens().iter().all(Option::is_some));
    guard.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn several_locks_end_together_for_their_own_holder() {
    let ensemble = Ensemble::new(3);
    let one = ensemble.connect().await;
    let cohort = CohortLock::new(&one, "/any/cohort").unwrap();
    let locks = MultiLock::new([AnyLock::from(cohort.clone())]).unwrap();
    for is_dropped in [false, true] {
        let guard = locks.acquire().await.unwrap();
        let (lost, asked) = (guard.lost(), guard.revocation_requested());
        let mut next = std::pin::pin!(cohort.acquire());
        assert!(futures_util::poll!(&mut next).is_pending());
        if is_dropped {
            drop(guard);
        } else {
            guard.release().await.unwrap();
        }
        // The next task holds the node now.
        let next = soon("the next task has the lock", next).await.unwrap();
        assert_eq!(soon("the loss", lost).await, LockLoss::Released);
        assert!(soon("the end of requests", asked).await.is_err());
        next.release().await.unwrap();
    }
}
