//! Shared values and counts.

use std::time::Duration;

use zk_core::Bytes;
use zk_core::transport::Request;
use zk_counter::{CounterError, SharedCount, SharedValue, TrySetOutcome, ValueChanges, Versioned};
use zk_sim::matching::creates;
use zk_sim::{Ensemble, Script, Scripted};

use crate::{pass, polled, soon};

#[tokio::test(start_paused = true)]
async fn value_is_created_read_from_memory_and_followed() {
    let sim = Ensemble::new(3);
    let (session, other) = (sim.connect().await, sim.connect().await);
    let mine = SharedValue::start(&session, "/app/v", "first").unwrap();
    assert_eq!(mine.current(), None);
    let seen = soon("it is read", mine.synchronized()).await.unwrap();
    assert_eq!((&*seen.value, seen.version), (&b"first"[..], 0));
    assert!(mine.is_synchronized());
    // The node exists, so that this is not its value.
    let theirs = SharedValue::start(&other, "/app/v", "second").unwrap();
    assert_eq!(theirs.synchronized().await.unwrap(), seen);
    let mut changes = mine.changes();
    let first = soon("it is there", changes.next()).await.unwrap();
    assert_eq!(first.unwrap(), seen);
    theirs.set("third").await.unwrap();
    let third = soon("it changes", changes.next()).await.unwrap().unwrap();
    assert_eq!((&*third.value, third.version), (&b"third"[..], 1));
    assert!(third.mzxid > seen.mzxid);
    let updated = theirs
        .update(|data| Some([data, b"!"].concat()))
        .await
        .unwrap();
    assert_eq!(updated.data, "third!");
    other.delete("/app/v").recursive().await.unwrap();
    loop {
        let now = soon("it is deleted", changes.next()).await.unwrap();
        if now.is_none() {
            break;
        }
    }
    assert_eq!(mine.current(), None);
    mine.set("again").await.unwrap();
    // The node is created with the initial value.
    loop {
        let now = soon("it is there", changes.next()).await.unwrap().unwrap();
        if now.value == "again" {
            break;
        }
        assert_eq!(now.value, "first");
    }
    drop((mine, theirs, changes));
    session.settled().await;
    other.settled().await;
    pass(Duration::from_secs(1)).await;
    assert_eq!(sim.tree().node("/app/v").unwrap().stat().num_children, 0);
    assert_eq!(sim.watch_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn only_a_value_that_was_not_overwritten_is_replaced() {
    let sim = Ensemble::new(3);
    let (session, other) = (sim.connect().await, sim.connect().await);
    let mine = SharedCount::start(&session, "/n", 1).unwrap();
    let theirs = SharedCount::start(&other, "/n", 1).unwrap();
    let seen = mine.synchronized().await.unwrap();
    theirs.synchronized().await.unwrap();
    assert_eq!(theirs.try_set(&seen, 2).await.unwrap(), TrySetOutcome::Done);
    assert_eq!(
        mine.try_set(&seen, 3).await.unwrap(),
        TrySetOutcome::ChangedMeanwhile
    );
    // The same number again is another write.
    theirs.set(1).await.unwrap();
    assert_eq!(
        mine.try_set(&seen, 3).await.unwrap(),
        TrySetOutcome::ChangedMeanwhile
    );
    assert_eq!(&*session.get("/n").await.unwrap().0, [0, 0, 0, 1]);
}

/// Curator compares versions, which begin again with the node, and ignores version 0.
#[tokio::test(start_paused = true)]
async fn node_made_again_with_the_same_version_is_another_value() {
    let sim = Ensemble::new(3);
    let (session, other) = (sim.connect().await, sim.connect().await);
    let count = SharedCount::start(&session, "/n", 1).unwrap();
    let seen = count.synchronized().await.unwrap();
    assert_eq!(seen.version, 0);
    other.sync("/n").await.unwrap();
    other.delete("/n").await.unwrap();
    assert_eq!(
        count.try_set(&seen, 3).await.unwrap(),
        TrySetOutcome::ChangedMeanwhile
    );
    other.create("/n", [0, 0, 0, 9]).await.unwrap();
    assert_eq!(
        count.try_set(&seen, 3).await.unwrap(),
        TrySetOutcome::ChangedMeanwhile
    );
    let now = count.changes();
    let mut now = now;
    loop {
        let next = soon("it is there", now.next()).await.unwrap().unwrap();
        let Some(next) = next.filter(|next| next.value == 9) else {
            continue;
        };
        assert_eq!((next.version, seen.version), (0, 0));
        assert_eq!(count.try_set(&next, 3).await.unwrap(), TrySetOutcome::Done);
        break;
    }
}

/// Returns the changes up to this value.
async fn followed_to(text: &str, changes: &mut ValueChanges) -> Vec<Versioned<Bytes>> {
    let mut values: Vec<Versioned<Bytes>> = Vec::new();
    while values.last().is_none_or(|last| last.value != text) {
        let next = soon("it changes", changes.next()).await.unwrap();
        values.push(next.expect("the node exists"));
    }
    values
}

/// The value in memory may be old, and nothing is decided on it.
#[tokio::test(start_paused = true)]
async fn session_at_a_lagging_server_overwrites_no_newer_value() {
    let sim = Ensemble::new(3);
    let (slow, fast) = (sim.connect().server(2).await, sim.connect().server(1).await);
    let mine = SharedValue::start(&slow, "/v", "a").unwrap();
    let theirs = SharedValue::start(&fast, "/v", "a").unwrap();
    theirs.synchronized().await.unwrap();
    // The token exists before the server lags, so that its creation does not let it catch up.
    mine.set("b").await.unwrap();
    let mut changes = mine.changes();
    let mut values = followed_to("b", &mut changes).await;
    sim.server(2).lag_by(Duration::from_millis(200));
    let write = async {
        let seen = mine.current().unwrap();
        theirs.set("c").await.unwrap();
        assert_eq!(mine.current().as_ref(), Some(&seen), "its server lags");
        let replaced = mine.try_set(&seen, "x").await.unwrap();
        assert_eq!(replaced, TrySetOutcome::ChangedMeanwhile);
        theirs.set("d").await.unwrap();
        let updated = mine.update(|data| Some([data, b"+"].concat())).await;
        assert_eq!(updated.unwrap().data, "d+");
        // What a process at another server has seen is newer than what this one shows.
        theirs.set("e").await.unwrap();
        let seen = followed_to("e", &mut theirs.changes()).await.pop().unwrap();
        let replaced = mine.try_set(&seen, "f").await.unwrap();
        assert_eq!(replaced, TrySetOutcome::Done);
    };
    let ((), newer) = tokio::join!(write, followed_to("f", &mut changes));
    values.extend(newer);
    assert!(values.is_sorted_by_key(|now| now.mzxid), "{values:?}");
    assert_eq!(&*fast.get("/v").await.unwrap().0, b"f");
}

/// Other clients see the initial value first, and may replace it.
#[tokio::test(start_paused = true)]
async fn set_of_a_missing_node_creates_it_with_the_initial_value() {
    let sim = Ensemble::new(3);
    let (session, other) = (sim.connect().await, sim.connect().await);
    let mine = SharedValue::start(&session, "/v", "idle").unwrap();
    mine.synchronized().await.unwrap();
    session.delete("/v").await.unwrap();
    mine.set("a").await.unwrap();
    assert_eq!(sim.tree().node("/v").unwrap().stat().version, 1);
    session.delete("/v").recursive().await.unwrap();
    let held = sim.on(creates("/v")).session(session.id()).hold();
    let (set, ()) = tokio::join!(mine.set("b"), async {
        soon("it is created", held.happened()).await;
        assert_eq!(sim.tree().node("/v").unwrap().data(), b"idle");
        other.sync("/v").await.unwrap();
        other.set("/v", "running").version(0).await.unwrap();
        held.release();
    });
    set.unwrap();
    let tree = sim.tree();
    let node = tree.node("/v").unwrap();
    assert_eq!((node.data(), node.stat().version), (&b"b"[..], 2));
}

#[tokio::test(start_paused = true)]
async fn node_is_created_by_a_later_session_if_the_first_dies() {
    let sim = Ensemble::builder()
        .reconnect_after(Duration::from_secs(5))
        .build();
    let sessions = sim.open_sessions();
    let lost = sim.on(creates("/v")).lose_request();
    let value = SharedValue::start(&sessions, "/v", "a").unwrap();
    soon("it is lost", lost.happened()).await;
    sim.expire(sessions.session().await.unwrap().id());
    let now = soon("it is created", value.synchronized()).await.unwrap();
    assert_eq!(now.value, "a");
}

#[tokio::test(start_paused = true)]
async fn data_that_is_no_count_is_an_error() {
    let sim = Ensemble::new(3);
    let session = sim.connect().await;
    session.create("/n", "text").await.unwrap();
    session.set("/n", "longer").await.unwrap();
    let count = SharedCount::start(&session, "/n", 1).unwrap();
    let error = count.synchronized().await.unwrap_err();
    assert!(matches!(error, CounterError::NotACounter { .. }), "{error}");
    assert!(count.current().is_err());
    let mut changes = count.changes();
    assert!(soon("it is read", changes.next()).await.unwrap().is_err());
    count.set(2).await.unwrap();
    let next = soon("it changes", changes.next()).await.unwrap().unwrap();
    assert_eq!(next.unwrap().value, 2);
}

type Inject = fn(Script) -> Scripted;

#[tokio::test(start_paused = true)]
async fn value_is_set_once_whichever_request_or_reply_is_lost() {
    let faults: [Inject; 4] = [
        Script::lose_request,
        Script::lose_reply,
        |script| script.stall_then_move(2),
        |script| script.stall_then_move(3),
    ];
    for inject in faults {
        for nth in 1.. {
            let sim = Ensemble::new(3);
            let session = sim.connect().server(1).await;
            let script = sim.on(|_: &Request| true).session(session.id());
            let fault = inject(script.nth(nth));
            let value = SharedValue::start(&session, "/v", "a").unwrap();
            let seen = value.synchronized().await.unwrap();
            assert_eq!(
                value.try_set(&seen, "b").await.unwrap(),
                TrySetOutcome::Done
            );
            let updated = value.update(|data| Some([data, b"c"].concat())).await;
            assert_eq!(updated.unwrap().data, "bc", "{nth}");
            assert_eq!(sim.tree().node("/v").unwrap().stat().version, 2, "{nth}");
            if fault.count() == 0 {
                assert!(nth > 6, "only {nth} requests");
                break;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn dropped_set_leaves_no_node_behind() {
    for times in 0..16 {
        let sim = Ensemble::new(3);
        let session = sim.connect().await;
        let value = SharedValue::start(&session, "/v", "a").unwrap();
        value.synchronized().await.unwrap();
        drop(polled(times, value.set("b")).await);
        drop(value);
        soon("the token is removed", session.settled()).await;
        pass(Duration::from_secs(1)).await;
        assert_eq!(
            sim.tree().node("/v").unwrap().stat().num_children,
            0,
            "{times}"
        );
    }
}
