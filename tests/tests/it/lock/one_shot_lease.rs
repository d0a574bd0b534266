//! Leases on real servers: kazoo's and ours on one path, and ours over lost requests and replies.

use std::time::Duration;

use tokio::time::timeout;
use zk_core::Session;
use zk_fault_proxy::{Clients, FaultProxy, Match, Route, Rule, RuleBuilder};
use zk_harness::Ensemble;
use zk_lock::{OneShotLease, OneShotLeaseOptions};
use zk_tests::peers::{Kazoo, KazooLeases};

use super::{LONG, SOON, names, observer, three_servers};

const PATH: &str = "/leases/a";
const RECORD: &str = "/leases/a/lease_holder";

type Strike = (&'static str, fn(RuleBuilder) -> Rule);

/// What happens to the transaction that writes the record; the session then comes back at another server.
const STRIKES: [Strike; 3] = [
    ("the request is lost", RuleBuilder::drop_then_cut),
    ("its outcome is unknown", RuleBuilder::forward_then_cut),
    ("the reply is lost", RuleBuilder::cut_on_reply),
];

/// The servers, kazoo and this process are on one machine, whose clocks agree to some milliseconds; kazoo's end is
/// rounded down to a second.
fn options(holder: &str, seconds: u64) -> OneShotLeaseOptions {
    let clock_error = Duration::from_secs(1);
    OneShotLeaseOptions::new(holder, Duration::from_secs(seconds)).with_clock_error(clock_error)
}

async fn take(session: &Session, holder: &str, seconds: u64) -> Option<OneShotLease> {
    let options = options(holder, seconds);
    OneShotLease::try_take(session, PATH, &options)
        .await
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn kazoos_leases_and_ours_exclude_each_other() {
    let ensemble = three_servers().await;
    let session = observer(&ensemble).await;
    let kazoo = Kazoo::find().await.unwrap();
    let mut theirs = KazooLeases::start(&kazoo, &ensemble.connect_string())
        .await
        .unwrap();

    // Ours first: kazoo refuses until the end.
    let lease = take(&session, "ours", 10).await.unwrap();
    assert!(!theirs.take("lease /leases/a theirs 600").await.unwrap());
    timeout(SOON, lease.ended()).await.expect("it ends");
    let granted = async {
        while !theirs.take("lease /leases/a theirs 600").await.unwrap() {
            assert!(!lease.is_valid());
        }
    };
    timeout(SOON, granted).await.expect("kazoo takes it");
    // Then kazoo's: we refuse, unless we have its name.
    assert!(take(&session, "ours", 600).await.is_none());
    let renewed = take(&session, "theirs", 600).await.unwrap();
    assert_eq!(renewed.holder(), "theirs");
    assert!(theirs.take("lease /leases/a theirs 2").await.unwrap());
    let granted = async {
        loop {
            if let Some(lease) = take(&session, "ours", 600).await {
                return lease;
            }
        }
    };
    let lease = timeout(SOON, granted).await.expect("kazoo's lease ends");
    assert!(lease.is_valid());

    // The format is the same.
    let (ours, _) = session.get(RECORD).await.unwrap();
    assert!(theirs.take("lease /leases/b ours 600").await.unwrap());
    session.sync("/leases").with_quorum().await.unwrap();
    let (kazoos, _) = session.get("/leases/b/lease_holder").await.unwrap();
    let without_end = |data: &[u8]| {
        let text = String::from_utf8(data.to_vec()).unwrap();
        let (before, end) = text.split_once(r#""end": ""#).unwrap();
        (before.to_owned(), end.len())
    };
    assert_eq!(without_end(&ours), without_end(&kazoos));
    ensemble.down().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn kazoo_and_we_share_a_number_of_leases() {
    let ensemble = three_servers().await;
    let session = observer(&ensemble).await;
    let kazoo = Kazoo::find().await.unwrap();
    let mut theirs = KazooLeases::start(&kazoo, &ensemble.connect_string())
        .await
        .unwrap();
    let mut taken = Vec::new();
    for holder in ["a", "c"] {
        let options = options(holder, 600);
        let ours = OneShotLease::try_take_one_of(&session, PATH, 3, &options);
        taken.push(ours.await.unwrap().is_some());
        let command = format!("multi {PATH} 3 k{holder} 600");
        taken.push(theirs.take(&command).await.unwrap());
    }
    assert_eq!(taken, [true, true, true, false]);
    ensemble.down().await.unwrap();
}

async fn behind_proxies() -> Ensemble {
    Ensemble::builder()
        .servers(3)
        .tick_time(Duration::from_millis(200))
        .proxied(true)
        .start_timeout(LONG)
        .start()
        .await
        .expect("the servers start")
}

/// Opens a session at server 1 that comes back at server 2.
async fn movable(ensemble: &Ensemble, proxy: &FaultProxy) -> Session {
    proxy.route(Clients::All, Route::To(1)).unwrap();
    let session = observer(ensemble).await;
    let id = session.id().as_i64();
    proxy.route(Clients::Session(id), Route::To(2)).unwrap();
    session
}

/// Waits until the session has nothing to clean up, and returns how often the record was written again.
async fn rewrites(session: &Session) -> i32 {
    timeout(SOON, session.settled()).await.expect("it settles");
    assert!(names(session, PATH).await.iter().eq(["lease_holder"]));
    let (_, stat) = session.get(RECORD).await.unwrap();
    stat.version
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_is_written_once_over_a_move_to_another_server() {
    let ensemble = behind_proxies().await;
    let proxy = ensemble.proxy().unwrap();
    let other = observer(&ensemble).await;
    let mut written = 0;
    for (what, strike) in STRIKES {
        // At first it is created, and then renewed by the next sessions.
        for _ in 0..2 {
            let session = movable(&ensemble, &proxy).await;
            let transactions = Match::multi(RECORD).session(session.id().as_i64());
            let rule = strike(proxy.on(transactions).nth(1));
            let lease = take(&session, "ours", 600).await.expect(what);
            assert_eq!(rule.count(), 1, "{what}");
            assert!(lease.is_valid(), "{what}");
            assert_eq!(rewrites(&session).await, written, "{what}");
            written += 1;
            assert!(take(&other, "theirs", 600).await.is_none(), "{what}");
            session.close().await.unwrap();
        }
    }
    ensemble.down().await.unwrap();
}

/// The reply and then the session are lost: the lease is there for the whole time, and its name renews it.
#[tokio::test(flavor = "multi_thread")]
async fn a_name_finds_its_lease_after_the_session_was_lost() {
    let ensemble = behind_proxies().await;
    let proxy = ensemble.proxy().unwrap();
    let session = Session::builder(ensemble.connect_string())
        .session_timeout(Duration::from_secs(10))
        .operation_timeout(SOON)
        .connect()
        .await
        .unwrap();
    let id = session.id().as_i64();
    let transactions = Match::multi(RECORD).session(id);
    let rule = proxy.on(transactions).nth(1).cut_on_reply();
    proxy.route(Clients::Session(id), Route::Refuse).unwrap();
    let options = options("ours", 600);
    let taking = OneShotLease::try_take(&session, PATH, &options);
    let error = timeout(LONG, taking).await.expect("it ends").unwrap_err();
    assert_eq!(rule.count(), 1);
    assert!(error.is_outcome_unknown(), "{error:?}");

    // This waits until the servers have expired the session, and have deleted the lock's node with it.
    let other = observer(&ensemble).await;
    assert!(take(&other, "theirs", 600).await.is_none());
    assert!(names(&other, PATH).await.iter().eq(["lease_holder"]));
    assert!(take(&other, "ours", 600).await.is_some());
    assert_eq!(rewrites(&other).await, 1);
    ensemble.down().await.unwrap();
}
