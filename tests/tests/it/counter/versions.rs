//! Nodes whose version becomes negative, and is -1, which servers treat as any version.

use tokio::task::JoinSet;
use zk_core::{ErrorKind, IdempotencyTokens};
use zk_counter::{AtomicCounter, CounterOptions, SharedCount, SharedValue, TrySetOutcome};
use zk_harness::Ensemble;
use zk_tests::peers::seed_version;

use crate::counters::connect;

/// Curator's `SharedCount` froze when the version became negative, and writes over anything at version -1.
#[tokio::test(flavor = "multi_thread")]
async fn negative_versions_and_minus_one_are_required_exactly() {
    let ensemble = Ensemble::builder().servers(1).start().await.unwrap();
    let session = connect(&ensemble).await;
    session.create("/long", 0_i64.to_be_bytes()).await.unwrap();
    session.create("/count", 0_i32.to_be_bytes()).await.unwrap();
    session.create("/value", "0").await.unwrap();
    session.create("/plain", "0").await.unwrap();
    session.close().await.unwrap();
    let server = ensemble.server(1).unwrap();
    server.stop().await.unwrap();
    seed_version(&ensemble, "/long", -9).await.unwrap();
    seed_version(&ensemble, "/count", i32::MAX).await.unwrap();
    seed_version(&ensemble, "/value", -1).await.unwrap();
    seed_version(&ensemble, "/plain", -1).await.unwrap();
    server.start().unwrap();
    ensemble.wait_serving().await.unwrap();

    // Counters of several sessions that meet at version -1.
    let mut tasks = JoinSet::new();
    for _ in 0..3 {
        let session = connect(&ensemble).await;
        tasks.spawn(async move {
            let options = CounterOptions::default();
            let counter = AtomicCounter::new(&session, "/long", &options).unwrap();
            for _ in 0..10 {
                counter.increment().await.unwrap();
            }
        });
    }
    tasks.join_all().await;
    let session = connect(&ensemble).await;
    let (data, stat) = session.get("/long").await.unwrap();
    assert_eq!(i64::from_be_bytes((&*data).try_into().unwrap()), 30);
    assert!(stat.version > 0, "{stat:?}");

    // The version of what was seen becomes negative; what was written since is not overwritten.
    let count = SharedCount::start(&session, "/count", 0).unwrap();
    let seen = count.synchronized().await.unwrap();
    assert_eq!(seen.version, i32::MAX);
    assert_eq!(count.try_set(&seen, 1).await.unwrap(), TrySetOutcome::Done);
    assert_eq!(
        count.try_set(&seen, 2).await.unwrap(),
        TrySetOutcome::ChangedMeanwhile
    );
    let mut changes = count.changes();
    loop {
        let now = changes.next().await.unwrap().unwrap();
        if let Some(now) = now.filter(|now| now.value == 1) {
            assert_eq!(now.version, i32::MIN);
            break;
        }
    }

    // So it is for a value that was seen at version -1.
    let value = SharedValue::start(&session, "/value", "").unwrap();
    let seen = value.synchronized().await.unwrap();
    assert_eq!((&*seen.value, seen.version), (&b"0"[..], -1));
    let replaced = value.try_set(&seen, "1").await.unwrap();
    assert_eq!(replaced, TrySetOutcome::Done);
    let replaced = value.try_set(&seen, "2").await.unwrap();
    assert_eq!(replaced, TrySetOutcome::ChangedMeanwhile);
    let updated = value.update(|data| Some([data, b"+"].concat())).await;
    assert_eq!(updated.unwrap().data, "1+");

    // At version -1, a write under another version is refused, and one under -1 is not taken for any version.
    let other = connect(&ensemble).await;
    let plain = |known: &'static str| {
        let update = session.update("/plain", move |data| {
            Some([data, known.as_bytes()].concat())
        });
        update.known("0".into(), -1)
    };
    let updated = plain("a").await.unwrap();
    let version = updated.stat.unwrap().version;
    assert_eq!((&*updated.data, updated.conflicts), (&b"0a"[..], 0));
    assert!(version == 0, "-1 is followed by 0");
    other.set("/plain", "theirs").await.unwrap();
    let updated = plain("b").await.unwrap();
    assert_eq!((&*updated.data, updated.conflicts), (&b"theirsb"[..], 1));
    let tokens = IdempotencyTokens::below_existing(&session, "/plain/token".parse().unwrap());
    // The first update reads in any case, as there is no token yet.
    for (text, expected, conflicts) in [("c", "theirsbc", 0), ("d", "theirsbcd", 1)] {
        let updated = plain(text).exactly_once(&tokens).await.unwrap();
        assert_eq!(updated.data, expected);
        assert_eq!(updated.conflicts, conflicts, "{text}");
    }
    let refused = session.set("/plain", "").version(-1).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    ensemble.down().await.unwrap();
}
