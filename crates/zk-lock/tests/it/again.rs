//! Dropped guards and waiters do not affect later attempts, and ended waiters are not granted the lock.

use std::time::Duration;

use tokio::runtime::Builder;
use zk_core::Session;
use zk_fault_proxy::{Clients, Close, FaultProxy, Match, Route, Rule};
use zk_harness::Ensemble;
use zk_lock::{
    AcquireError, CohortLimits, CohortLock, FairLock, Guard, LockLoss, LockOptions, MultiLock,
};

use crate::shared_again::{after_a_cancelled_acquire, after_a_drop, after_a_timeout};
use crate::{LONG, connect, eventually, names, soon, until_enlisted, with_servers};

/// How often timing-dependent steps are repeated.
const TIMES: u32 = 8;

#[tokio::test(flavor = "multi_thread")]
async fn what_has_ended_is_out_of_the_way_and_granted_nothing() {
    with_servers(3, async |ensemble| {
        let (one, other) = (connect(ensemble).await, connect(ensemble).await);
        after_a_drop(&one, 10).await;
        after_a_timeout(&one, &other, Duration::from_millis(100)).await;
        after_a_cancelled_acquire(&one, || {}).await;
        a_second_runtime_may_end(&one, &other).await;
        for turn in 0..TIMES {
            a_removed_waiter_is_not_granted_the_lock(ensemble, &one, turn).await;
        }
        for turn in 0..TIMES {
            a_waiter_of_an_ended_session_is_not_granted_the_lock(ensemble, turn).await;
        }
    })
    .await;
}

/// Uses a cohort and a fair lock first on a runtime that ends.
async fn a_second_runtime_may_end(session: &Session, other: &Session) {
    let limits = CohortLimits::default().with_handovers(0);
    let options = LockOptions::default();
    let cohort = CohortLock::with_options(session, "/runtimes/cohort", options, limits).unwrap();
    let fair = FairLock::new(session, "/runtimes/fair").unwrap();
    let first = cohort.clone();
    let using = tokio::task::spawn_blocking(move || {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let held = runtime.block_on(async {
            (
                first.acquire().await.unwrap(),
                fair.acquire().await.unwrap(),
            )
        });
        runtime.shutdown_background();
        held
    });
    let (ours, guard) = soon("both are acquired", using).await.unwrap();
    let waiting = tokio::spawn(async move { cohort.acquire().await });
    drop(ours);
    let granted = soon("the second task gets the lock", waiting).await;
    drop(granted.unwrap().expect("the session lives"));
    other.sync("/").with_quorum().await.unwrap();
    other.delete(guard.path()).await.unwrap();
    let loss = soon("the guard is notified", guard.lost()).await;
    assert_eq!(loss, LockLoss::NodeDeleted);
}

/// The holder removes the next one and releases the lock at once.
async fn a_removed_waiter_is_not_granted_the_lock(ensemble: &Ensemble, one: &Session, turn: u32) {
    let path = format!("/removed/{turn}");
    let lock = |session: &Session| FairLock::new(session, path.as_str()).unwrap();
    let (second, third) = (connect(ensemble).await, connect(ensemble).await);
    let held = lock(one).acquire().await.unwrap();
    let removed = tokio::spawn({
        let lock = lock(&second);
        async move { lock.acquire().await }
    });
    until_enlisted(one, &path, 2).await;
    let last = tokio::spawn({
        let lock = lock(&third);
        async move { lock.acquire().await }
    });
    let contenders = lock(one).inspector().contenders().await.unwrap();
    lock(one).inspector().remove(&contenders[1]).await.unwrap();
    held.release().await.unwrap();
    let error = soon("the removed contender is notified", removed)
        .await
        .unwrap();
    let error = error.expect_err("it is not in the queue");
    assert!(matches!(error, AcquireError::NodeDeleted { .. }), "{error}");
    let guard = soon("the last one is granted", last)
        .await
        .unwrap()
        .unwrap();
    assert!(guard.is_valid());
    guard.release().await.unwrap();
    second.close().await.unwrap();
    third.close().await.unwrap();
}

/// A session is ended from outside that holds a lock and waits for it twice, once together with another lock.
async fn a_waiter_of_an_ended_session_is_not_granted_the_lock(ensemble: &Ensemble, turn: u32) {
    let path = format!("/ended/{turn}");
    let session = connect(ensemble).await;
    let lock = || FairLock::new(&session, path.as_str()).unwrap();
    let held = lock().acquire().await.unwrap();
    let waiting = tokio::spawn({
        let lock = lock();
        async move { lock.acquire().await }
    });
    until_enlisted(&session, &path, 2).await;
    let first = FairLock::new(&session, format!("/ended/{turn}-0")).unwrap();
    let several = MultiLock::new([first, lock()]).unwrap();
    let several = tokio::spawn(async move { several.acquire().await });
    until_enlisted(&session, &path, 3).await;
    ensemble.expire(session.id().as_i64()).await.unwrap();
    let granted = soon("the waiter is notified", waiting).await.unwrap();
    let error = granted.map(|guard| guard.path().clone()).unwrap_err();
    assert!(
        matches!(error, AcquireError::SessionLost { .. }),
        "turn {turn}: {error:?}"
    );
    let error = soon("the waiter for several is notified", several)
        .await
        .unwrap();
    let error = error.map(|_| "granted").unwrap_err();
    let is_told = match &error {
        AcquireError::SessionLost { .. } => true,
        AcquireError::Lost { loss, .. } => *loss == LockLoss::SessionLost,
        _ => false,
    };
    assert!(is_told, "turn {turn}: {error:?}");
    drop(held);
}

/// The server reports the deletion of a waiter's node and that of its predecessor, the former late.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_that_learns_late_of_its_deletion_is_granted_nothing() {
    let ensemble = Ensemble::builder().servers(3).proxied(true).sync_limit(50);
    let ensemble = ensemble.start().await.expect("the servers start");
    let proxy = ensemble.proxy().expect("it has a proxy");
    for turn in 0..TIMES {
        waiter_is_cut_off(&ensemble, &proxy, &format!("/late/{turn}/cut")).await;
        waiter_predecessor_is_new(&ensemble, &proxy, &format!("/late/{turn}/new")).await;
    }
    ensemble.down().await.expect("the servers go down");
}

/// The waiter is removed, and the lock released, while the waiter has no connection.
async fn waiter_is_cut_off(ensemble: &Ensemble, proxy: &FaultProxy, path: &str) {
    let (one, other) = (connect(ensemble).await, connect(ensemble).await);
    let held = FairLock::new(&one, path).unwrap().acquire().await.unwrap();
    let lock = FairLock::new(&other, path).unwrap();
    let waiting = tokio::spawn(async move { lock.acquire().await });
    let late = reported_late(proxy, &other, &held).await;
    let clients = Clients::Session(other.id().as_i64());
    proxy.route(clients, Route::Refuse).unwrap();
    assert_eq!(proxy.cut(clients, Close::Rst).await, 1);
    let inspector = FairLock::new(&one, path).unwrap().inspector();
    let contenders = inspector.contenders().await.unwrap();
    inspector.remove(&contenders[1]).await.unwrap();
    held.release().await.unwrap();
    proxy.route(clients, Route::SameServer).unwrap();
    let granted = soon("the waiter is notified", waiting).await.unwrap();
    let error = granted.map(|guard| guard.path().clone()).unwrap_err();
    assert!(
        matches!(error, AcquireError::NodeDeleted { .. }),
        "{error:?}"
    );
    late.happened(LONG).await.unwrap();
    late.remove();
    one.close().await.unwrap();
    other.close().await.unwrap();
}

/// Two contenders leave at once, so that a third one is the next behind a holder that it does not watch yet. The nodes of
/// both are deleted before the server receives its request to watch the holder.
async fn waiter_predecessor_is_new(ensemble: &Ensemble, proxy: &FaultProxy, path: &str) {
    let (mut sessions, mut waiting, mut paths) = (Vec::new(), Vec::new(), Vec::new());
    for at in 0..4 {
        let session = connect(ensemble).await;
        let lock = FairLock::new(&session, path).unwrap();
        waiting.push(tokio::spawn(async move { lock.acquire().await }));
        until_enlisted(&session, path, at + 1).await;
        let queue = names(&session, path).await;
        let new = queue.iter().map(|name| format!("{path}/{name}"));
        paths.extend(new.filter(|path| !paths.contains(path)).collect::<Vec<_>>());
        sessions.push(session);
    }
    let last = sessions[3].id().as_i64();
    let [third, second] = [&paths[2], &paths[1]].map(|path| Match::get(path).session(last).reply());
    eventually("it watches both ahead of it", async || {
        let log = proxy.log();
        log.count_forwarded(&third) > 0 && log.count_forwarded(&second) > 0
    })
    .await;
    let late = proxy.on(Match::get(&paths[0]).session(last)).hold();
    let remove = async |paths: [&String; 2]| {
        let transaction = sessions[1].transaction();
        let transaction = transaction.delete(paths[0]).delete(paths[1]);
        transaction.commit().await.unwrap();
    };
    remove([&paths[1], &paths[2]]).await;
    late.happened(LONG).await.unwrap();
    remove([&paths[3], &paths[0]]).await;
    late.remove();
    let removed = waiting.pop().expect("there are four");
    let granted = soon("the waiter is notified", removed).await.unwrap();
    let error = granted.map(|guard| guard.path().clone()).unwrap_err();
    assert!(
        matches!(error, AcquireError::NodeDeleted { .. }),
        "{error:?}"
    );
    for session in sessions {
        session.close().await.unwrap();
    }
}

/// Waits until a contender behind the holder watches its own node, and delays the report of its deletion.
async fn reported_late(proxy: &FaultProxy, session: &Session, held: &Guard) -> Rule {
    let path = held.path().parent().expect("it is in a queue");
    until_enlisted(session, path.as_str(), 2).await;
    let queue = names(session, path.as_str()).await;
    let own = queue.iter().find(|name| held.path().name() != Some(name));
    let own = format!("{path}/{}", own.expect("there are two"));
    let watched = Match::exists(&own).reply();
    eventually("it watches its node", async || {
        proxy.log().count_forwarded(&watched) > 0
    })
    .await;
    let late = Match::notification(&own).session(session.id().as_i64());
    proxy.on(late).delay(Duration::from_millis(200))
}
