//! What is removed in the background, and when that ends.

use std::time::Duration;

use zk_core::transport::TransportError;
use zk_core::{ErrorKind, NodePath, RetryPolicy};
use zk_sim::Ensemble;
use zk_sim::matching::{creates, deletes};
use zk_sim::wait::until;

use crate::{meanwhile, pass, server_error, soon};

#[tokio::test(start_paused = true)]
async fn dropped_session_is_closed_although_its_cleanup_fails() {
    let sim = Ensemble::new(3);
    let session = sim.connect().await;
    let owned = session.create("/a", "").owned().await.unwrap();
    let failing = sim.on(deletes("/*-a")).every().refuse(server_error());
    let link = sim.session(session.id());
    drop((owned, session));
    pass(Duration::from_secs(119)).await;
    assert!(link.is_alive(), "it tries for two minutes");
    assert!(failing.count() > 10, "again and again");
    pass(Duration::from_secs(2)).await;
    assert!(!link.is_alive(), "it is closed at last");
}

#[tokio::test(start_paused = true)]
async fn background_removal_ends_with_the_session() {
    let sim = Ensemble::new(3);
    let session = sim.connect().await;
    let owned = session.create("/a", "").owned().await.unwrap();
    let later = TransportError::Later(ErrorKind::Throttled);
    sim.on(deletes("/*-a")).every().refuse(later);
    drop(owned);
    let mut settled = std::pin::pin!(session.settled());
    let early = tokio::time::timeout(Duration::from_secs(60), &mut settled).await;
    assert!(early.is_err(), "no attempt succeeds");
    sim.expire(session.id());
    soon("the session is over", settled).await;
    until("the removal is given up", async || {
        session.counters().unsettled == 0
    })
    .await;
}

/// A failure in the simulation is run again by its seed.
#[tokio::test(start_paused = true)]
async fn the_seed_decides_when_a_removal_is_tried_again() {
    let mut times = Vec::new();
    for _ in 0..2 {
        let sim = Ensemble::builder().servers(3).seed(7).build();
        let session = sim.connect().await;
        let owned = session.create("/a", "").owned().await.unwrap();
        let _failing = sim.on(deletes("/*-a")).every().refuse(server_error());
        drop(owned);
        pass(Duration::from_secs(60)).await;
        let requests = sim.requests().into_iter();
        let deletes = requests.filter(|seen| deletes("/*-a")(&seen.request));
        times.push(deletes.map(|seen| seen.at).collect::<Vec<_>>());
    }
    assert!(times[0].len() > 5, "{times:?}");
    assert_eq!(times[0], times[1]);
}

/// Otherwise two runs of a simulation with several tasks on one session would differ.
#[tokio::test(start_paused = true)]
async fn waits_for_a_removal_end_in_the_order_in_which_they_began() {
    let sim = Ensemble::new(3);
    let session = sim.connect().await;
    let owned = session.create("/a", "").owned().await.unwrap();
    let _failing = sim
        .on(deletes("/*-a"))
        .refuse(TransportError::Later(ErrorKind::Throttled));
    drop(owned);
    let (ended, mut order) = tokio::sync::mpsc::unbounded_channel();
    for number in 0..20 {
        let (session, ended) = (session.clone(), ended.clone());
        tokio::spawn(async move {
            session.settled_at(&NodePath::root()).await;
            ended.send(number).unwrap();
        });
    }
    drop(ended);
    let mut seen = Vec::new();
    let all = async {
        while let Some(number) = order.recv().await {
            seen.push(number);
        }
    };
    soon("all waits end", all).await;
    assert!(seen.iter().copied().eq(0..20), "{seen:?}");
}

/// The create is in flight to the leader when its connection breaks, and its future is dropped then. The session
/// searches for the node at a server that does not show it yet, be it the leader, which has not committed it.
#[tokio::test(start_paused = true)]
async fn dropped_create_that_is_committed_later_is_removed() {
    for kind in ["unique name", "claimed name"] {
        for to in 1..=3 {
            let sim = Ensemble::new(3);
            let session = sim.connect().server(1).await;
            session.create("/l", "").await.unwrap();
            let stalled = sim.on(creates("/l/*")).stall_then_move(to);
            let create = session.create("/l/n", "of ours");
            let creating = async {
                match kind {
                    "unique name" => drop(create.owned().await),
                    _ => drop(create.claimed().await),
                }
            };
            tokio::select! {
                biased;
                () = stalled.happened() => {}
                () = creating => panic!("{kind}, {to}: it is in doubt"),
            }
            soon("the removal is done", session.settled()).await;
            pass(Duration::from_secs(1)).await;
            assert_eq!(sim.tree().paths(), ["/l"], "{kind}, moved to {to}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn guaranteed_delete_minds_the_version_in_the_background() {
    for change in ["none", "written", "replaced"] {
        let sim = Ensemble::new(3);
        let (session, other) = (sim.connect().await, sim.connect().await);
        let session = session.with_retry(RetryPolicy::never());
        session.create("/a", "").await.unwrap();
        let lost = sim.on(deletes("/a")).lose_request();
        let delete = session.delete("/a").version(0).guaranteed();
        let result = meanwhile(lost, delete, async || match change {
            "written" => drop(other.set("/a", "").await.unwrap()),
            "replaced" => {
                other.delete("/a").await.unwrap();
                other.create("/a", "").await.unwrap();
            }
            _ => {}
        });
        let error = result.await.unwrap_err();
        assert!(error.is_outcome_unknown(), "{error}");
        soon("the removal is done", session.settled()).await;
        let is_there = sim.tree().node("/a").is_some();
        assert_eq!(is_there, change != "none", "{change}");
    }
}
