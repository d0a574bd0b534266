//! kazoo's leases and ours, on one path.

use std::time::Duration;

use tokio::time::timeout;
use zk_core::Session;
use zk_lock::OneShotLease;
use zk_lock::OneShotOptions;
use zk_tests::peers::Kazoo;
use zk_tests::peers::KazooLeases;

use super::SOON;
use super::observer;
use super::three_servers;

const PATH: &str = "/leases/a";

/// The servers, kazoo and this process are on one machine, whose clocks agree to some milliseconds; kazoo's end is
/// rounded down to a second.
fn options(holder: &str, seconds: u64) -> OneShotOptions {
    let clock_error = Duration::from_secs(1);
    OneShotOptions::new(holder, Duration::from_secs(seconds)).with_clock_error(clock_error)
}

async fn take(session: &Session, holder: &str, seconds: u64) -> Option<OneShotLease> {
    let options = options(holder, seconds);
    OneShotLease::try_take(session, PATH, &options)
        .await
        .unwrap()
}

// covers: M6
#[tokio::test(flavor = "multi_thread")]
async fn kazoos_leases_and_ours_exclude_each_other() {
    let ensemble = three_servers().await;
    let session = observer(&ensemble).await;
    let kazoo = Kazoo::find().await.unwrap();
    let mut theirs = KazooLeases::start(&kazoo, &ensemble.connect_string())
        .await
        .unwrap();

    // Ours first: kazoo refuses until the end.
    let lease = take(&session, "ours", 4).await.unwrap();
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
    let record = format!("{PATH}/lease_holder");
    let (ours, _) = session.get(&record).await.unwrap();
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

// covers: M6
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
