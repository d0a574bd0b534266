//! What locks report to the facade `metrics`, under paused time.

use std::time::Duration;

use zk_core::Session;
use zk_lock::{
    AnyLock, CohortLock, FairLock, Lock, LockGuard as _, MultiLock, RaceLock, ReentrantLock,
    RwLock, Semaphore, UpgradeError, describe_metrics,
};
use zk_sim::Ensemble;
use zk_testkit::metrics::{Names, Recorder, assert_described};

use crate::{pass, soon};

const NAMES: Names = &[
    ("zk_lock_wait_duration_seconds", "wait"),
    ("zk_lock_hold_duration_seconds", "hold"),
];

/// What locks reported since the last call: the metric, the kind, the outcome, and the whole seconds of each value in
/// ascending order.
fn reported(recorder: &Recorder) -> Vec<String> {
    recorder.reported("zk_lock", NAMES)
}

/// One holds for ten seconds, while the other tries, gives up after three and waits for the other six; it then holds
/// for twenty.
async fn waits_and_holds<L: Lock>([one, other]: [L; 2]) {
    let held = one.acquire().await.unwrap();
    assert!(other.try_acquire().await.unwrap().is_none());
    pass(Duration::from_secs(1)).await;
    let limit = Duration::from_secs(3);
    let waited = other.acquire_timeout(limit).await;
    assert!(waited.is_err_and(|error| error.is_timed_out()));
    let (next, ()) = tokio::join!(other.acquire(), async {
        pass(Duration::from_millis(6500)).await;
        drop(held);
    });
    let next = next.unwrap();
    pass(Duration::from_millis(20_500)).await;
    next.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn each_kind_reports_how_long_it_was_waited_for_and_held() {
    let recorder = Recorder::install();
    let ensemble = Ensemble::new(3);
    let (one, other) = (ensemble.connect().await, ensemble.connect().await);
    let path = "/locks/a";
    macro_rules! reports {
        ($kind:literal, $create:expr) => {{
            let create = $create;
            waits_and_holds([&one, &other].map(|session: &Session| create(session))).await;
            assert_eq!(
                reported(&recorder),
                [
                    concat!("hold kind=", $kind, " outcome=released [10.0, 20.0]"),
                    concat!("wait kind=", $kind, " outcome=acquired [0.0, 6.0]"),
                    concat!("wait kind=", $kind, " outcome=given_up [3.0]"),
                    concat!("wait kind=", $kind, " outcome=taken [0.0]"),
                ]
            );
        }};
    }
    reports!("fair", |session| FairLock::new(session, path).unwrap());
    reports!("cohort", |session| CohortLock::new(session, path).unwrap());
    reports!("reentrant", |session| {
        ReentrantLock::new(session, path).unwrap()
    });
    reports!("write", |session| {
        RwLock::new(session, path).unwrap().writer().clone()
    });
    reports!("race", |session| RaceLock::new(session, "/race").unwrap());
    reports!("semaphore", |session| {
        Semaphore::new(session, "/leases", 1).unwrap()
    });
}

#[tokio::test(start_paused = true)]
async fn a_hold_ends_with_its_last_guard_and_each_hold_counts_once() {
    let recorder = Recorder::install();
    let ensemble = Ensemble::new(3);
    let (one, other) = (ensemble.connect().await, ensemble.connect().await);

    let lock = ReentrantLock::new(&one, "/own").unwrap();
    let first = lock.acquire().await.unwrap();
    let second = lock.acquire().await.unwrap();
    first.release().await.unwrap();
    pass(Duration::from_millis(5500)).await;
    second.release().await.unwrap();
    assert_eq!(
        reported(&recorder),
        [
            "hold kind=reentrant outcome=released [5.0]",
            "wait kind=reentrant outcome=acquired [0.0, 0.0]"
        ]
    );

    // A writer that becomes a reader.
    let lock = RwLock::new(&one, "/rw").unwrap();
    let writer = lock.writer().acquire().await.unwrap();
    pass(Duration::from_millis(3500)).await;
    let reader = writer.downgrade().await.unwrap();
    pass(Duration::from_millis(4500)).await;
    reader.release().await.unwrap();
    assert_eq!(
        reported(&recorder),
        [
            "hold kind=read outcome=released [4.0]",
            "hold kind=write outcome=released [3.0]",
            "wait kind=write outcome=acquired [0.0]"
        ]
    );

    // A reader that becomes a writer: once it finds another one, once it waits in vain for the other reader, and then
    // for the rest of its time.
    let lock = RwLock::new(&one, "/rw").unwrap();
    let others = RwLock::new(&other, "/rw").unwrap();
    let reader = lock.reader().acquire().await.unwrap();
    let beside = others.reader().acquire().await.unwrap();
    let writer = others.writer().acquire();
    tokio::pin!(writer);
    let waits = tokio::time::timeout(Duration::from_secs(1), &mut writer).await;
    assert!(waits.is_err());
    let Err(UpgradeError::Contended { guard, .. }) = reader.upgrade().await else {
        panic!("another writer waits")
    };
    writer.set(others.writer().acquire());
    other.settled().await;
    let limit = Duration::from_millis(2500);
    let Err(UpgradeError::TimedOut { guard, .. }) = guard.upgrade_timeout(limit).await else {
        panic!("another reader reads")
    };
    let (writer, ()) = tokio::join!(guard.upgrade(), async {
        pass(Duration::from_millis(3500)).await;
        beside.release().await.unwrap();
    });
    writer.unwrap().release().await.unwrap();
    assert_eq!(
        reported(&recorder),
        [
            // The other session has been idle for so long that a proof of life comes first.
            "hold kind=read outcome=released [7.0, 10.0]",
            "hold kind=write outcome=released [0.0]",
            "wait kind=read outcome=acquired [0.0, 3.0]",
            "wait kind=write outcome=acquired [3.0]",
            "wait kind=write outcome=given_up [1.0, 2.0]",
            "wait kind=write outcome=taken [0.0]"
        ]
    );

    // Leases that are split are two holdings from then on, of which each began with the acquire.
    let leases = Semaphore::new(&one, "/leases", 3).unwrap().with_count(3);
    let mut lease = leases.acquire().await.unwrap();
    pass(Duration::from_millis(2500)).await;
    let split = lease.split(1).unwrap();
    split.release().await.unwrap();
    pass(Duration::from_secs(2)).await;
    lease.release().await.unwrap();
    assert_eq!(
        reported(&recorder),
        [
            "hold kind=semaphore outcome=released [2.0, 4.0]",
            "wait kind=semaphore outcome=acquired [0.0]"
        ]
    );

    // Several locks report each by its kind; a task of a cohort holds for its own turn.
    let cohort = CohortLock::new(&one, "/cohort").unwrap();
    let locks: [AnyLock; 2] = [
        cohort.clone().into(),
        FairLock::new(&one, "/fair").unwrap().into(),
    ];
    let locks = MultiLock::new(locks).unwrap();
    let guard = locks.acquire().await.unwrap();
    let (next, ()) = tokio::join!(cohort.acquire(), async {
        pass(Duration::from_millis(1500)).await;
        drop(guard);
    });
    pass(Duration::from_millis(2500)).await;
    drop(next.unwrap());
    assert_eq!(
        reported(&recorder),
        [
            "hold kind=cohort outcome=released [1.0, 2.0]",
            "hold kind=fair outcome=released [1.0]",
            "wait kind=cohort outcome=acquired [0.0, 1.0]",
            "wait kind=fair outcome=acquired [0.0]"
        ]
    );

    // A lock that is lost.
    let guard = FairLock::new(&one, "/lost").unwrap();
    let guard = guard.acquire().await.unwrap();
    pass(Duration::from_millis(1500)).await;
    other.delete(guard.path()).await.unwrap();
    soon("the loss is noticed", guard.lost()).await;
    drop(guard);
    assert_eq!(
        reported(&recorder),
        [
            "hold kind=fair outcome=lost [1.0]",
            "wait kind=fair outcome=acquired [0.0]"
        ]
    );
    // An acquire that fails.
    one.close().await.unwrap();
    let closed = FairLock::new(&one, "/lost").unwrap();
    drop(closed.acquire().await.unwrap_err());
    assert_eq!(reported(&recorder), ["wait kind=fair outcome=failed [0.0]"]);
}

#[test]
fn descriptions_name_the_metrics_and_their_unit() {
    assert_described(describe_metrics, NAMES);
}
