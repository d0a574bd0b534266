//! Curator's and kazoo's counters and shared values and ours, on one path.

use std::time::Duration;

use zk_core::Session;
use zk_counter::{AtomicCounter, CounterOptions, Format, SharedCount, SharedValue, TrySetOutcome};
use zk_tests::peers::{Curator, CuratorProcess, Kazoo};

use crate::lock::{observer, three_servers};

fn counter(session: &Session, path: &str, format: Format) -> AtomicCounter {
    let options = CounterOptions::default().with_format(format);
    AtomicCounter::new(session, path, &options).unwrap()
}

/// Asks until the answer is as expected: the other client's server may lag behind ours.
async fn answers(peer: &mut CuratorProcess, command: &str, expected: &str) {
    let mut last = String::new();
    let asking = async {
        while last != expected {
            last = peer.does(command, "is").await.unwrap();
        }
    };
    let answered = tokio::time::timeout(Duration::from_secs(30), asking).await;
    assert!(
        answered.is_ok(),
        "waited 30 s for {command} {expected}: {last}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn curators_counters_and_values_and_ours_share_their_nodes() {
    let ensemble = three_servers().await;
    let curator = Curator::find().await.unwrap();
    let session = observer(&ensemble).await;
    let connect = ensemble.connect_string();
    // A value that we create, and a count that Curator does.
    let value = SharedValue::start(&session, "/peer/value", "ours").unwrap();
    value.synchronized().await.unwrap();
    let mut peer = CuratorProcess::start(&curator, "CounterPeer", &[&connect, "/peer"])
        .await
        .unwrap();

    let long = counter(&session, "/peer/long", Format::Long);
    let integer = counter(&session, "/peer/integer", Format::Integer);
    assert_eq!(long.add(1 << 40).await.unwrap(), 1 << 40);
    assert_eq!(peer.does("long 2", "is").await.unwrap(), "1099511627778");
    assert_eq!(long.increment().await.unwrap(), (1 << 40) + 3);
    assert_eq!(peer.does("integer -5", "is").await.unwrap(), "-5");
    assert_eq!(integer.add(7).await.unwrap(), 2);
    assert_eq!(peer.does("integer 1", "is").await.unwrap(), "3");

    let count = SharedCount::start(&session, "/peer/count", 1).unwrap();
    let seen = count.synchronized().await.unwrap();
    assert_eq!((seen.value, seen.version), (7, 0));
    assert_eq!(count.try_set(&seen, 8).await.unwrap(), TrySetOutcome::Done);
    answers(&mut peer, "count", "8 1").await;
    assert_eq!(peer.does("try-count 9", "is").await.unwrap(), "true");
    let mut changes = count.changes();
    let nine = async {
        loop {
            let now = changes.next().await.unwrap().unwrap();
            if let Some(now) = now.filter(|now| now.value == 9) {
                break now;
            }
        }
    };
    let nine = tokio::time::timeout(Duration::from_secs(30), nine).await;
    let nine = nine.expect("the change is seen");
    assert_eq!(nine.version, 2);
    assert_eq!(
        count.try_set(&seen, 0).await.unwrap(),
        TrySetOutcome::ChangedMeanwhile
    );
    count.set(10).await.unwrap();
    assert_eq!(peer.does("try-count 11", "is").await.unwrap(), "false");

    answers(&mut peer, "value", "ours").await;
    peer.does("set-value theirs", "is").await.unwrap();
    let updated = value.update(|data| Some([data, b"+ours"].concat())).await;
    assert_eq!(updated.unwrap().data, "theirs+ours");
    answers(&mut peer, "value", "theirs+ours").await;
    let before = peer.does("atomic last", "is").await.unwrap();
    assert_eq!(before, "theirs+ours");
    session.sync("/peer/value").with_quorum().await.unwrap();
    assert_eq!(&*session.get("/peer/value").await.unwrap().0, b"last");
    ensemble.down().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn curators_and_kazoos_counters_and_ours_count_together() {
    let ensemble = three_servers().await;
    let (curator, kazoo) = (Curator::find().await.unwrap(), Kazoo::find().await.unwrap());
    let session = observer(&ensemble).await;
    let connect = ensemble.connect_string();

    // Each continues what the other one has begun.
    let text = counter(&session, "/text", Format::Text);
    let theirs = kazoo.count(&connect, "/text", "text", 3, 2).await.unwrap();
    assert_eq!(theirs, [3, 6]);
    assert_eq!(text.add(-10).await.unwrap(), -4);
    let theirs = kazoo.count(&connect, "/text", "text", 1, 1).await.unwrap();
    assert_eq!(theirs, [-3]);
    let integer = counter(&session, "/integer", Format::Integer);
    assert_eq!(integer.add(100).await.unwrap(), 100);
    let theirs = kazoo.count(&connect, "/integer", "curator", 5, 1).await;
    assert_eq!(theirs.unwrap(), [105]);
    assert_eq!(integer.increment().await.unwrap(), 106);

    // At the same time.
    let long = counter(&session, "/long", Format::Long);
    let ours = async {
        for _ in 0..200 {
            long.increment().await.unwrap();
        }
    };
    let ((), theirs) = tokio::join!(ours, curator.increments(&connect, "/long", 200));
    assert_eq!(theirs.unwrap().len(), 200);
    let ours = async {
        for _ in 0..200 {
            text.increment().await.unwrap();
        }
    };
    let kazoos = kazoo.count(&connect, "/text", "text", 1, 200);
    let ((), theirs) = tokio::join!(ours, kazoos);
    assert_eq!(theirs.unwrap().len(), 200);
    assert_eq!(long.get().await.unwrap(), 400);
    assert_eq!(text.get().await.unwrap(), 397);
    ensemble.down().await.unwrap();
}
