//! Nodes under unique names, and what becomes of them when their call or their handle is dropped.

use std::time::Duration;

use zk_core::{ErrorKind, IdPlace, Sequence, Session};
use zk_fault_proxy::Match;
use zk_harness::Ensemble;

use crate::{MAX_WAIT, connect, connect_for, is_ready, polled, until, with_ensemble, within};

async fn names(session: &Session, path: &str) -> Vec<String> {
    session.list(path).await.unwrap().0
}

#[tokio::test(flavor = "multi_thread")]
async fn protected_node_has_a_unique_id_before_its_name() {
    with_ensemble(async |ensemble| {
        let outer = connect(ensemble).await;
        let session = outer.with_namespace("/ns").unwrap();
        let create = session.create("/locks/name-", "x").ephemeral();
        let (path, stat) = create.sequential().protected().parents().await.unwrap();
        let name = path.name().unwrap();
        let (stem, sequence) = Sequence::split(name).unwrap();
        assert_eq!(sequence.number(), 0);
        let id = stem
            .strip_prefix("_c_")
            .and_then(|rest| rest.strip_suffix("-name-"));
        assert_eq!(id.map(str::len), Some(36), "{name}");
        assert_eq!(path.parent().unwrap().as_str(), "/locks");
        assert_eq!(stat.ephemeral_owner, Some(session.id()));
        assert_eq!(names(&outer, "/ns/locks").await, [name]);

        let (plain, _) = session.create("/plain", "").protected().await.unwrap();
        assert!(plain.as_str().starts_with("/_c_") && plain.as_str().ends_with("-plain"));
        assert!(outer.exists(format!("/ns{plain}")).await.unwrap().is_some());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_may_have_the_number_of_another_one() {
    with_ensemble(async |ensemble| {
        let session = connect(ensemble).await;
        session.create("/numbered", "").await.unwrap();
        let create = || session.create("/numbered/n-", "").ephemeral();
        let (first, _) = create().sequential().await.unwrap();
        assert_eq!(first.as_str(), "/numbered/n-0000000000");
        let number = Sequence::new(7);
        let (plain, _) = create().numbered(number).await.unwrap();
        assert_eq!(plain.as_str(), "/numbered/n-0000000007");
        let before = create().numbered(number).owned().await.unwrap();
        let name = before.path().name().unwrap();
        assert!(
            name.starts_with("_c_") && name.ends_with("-n-0000000007"),
            "{name}"
        );
        let create = create().numbered(number).id_place(IdPlace::After("_"));
        let after = create.owned().await.unwrap();
        let name = after.path().name().unwrap();
        assert!(
            name.starts_with("n-") && name.ends_with("_0000000007"),
            "{name}"
        );
        assert_eq!(name.len(), "n-".len() + 32 + "_0000000007".len());
        // The counter of the parent goes its own way.
        let create = session.create("/numbered/n-", "").ephemeral();
        let (fifth, _) = create.sequential().await.unwrap();
        assert_eq!(fifth.as_str(), "/numbered/n-0000000004");
        let both = session.create("/numbered/n-", "").sequential();
        let error = both.numbered(number).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn create_that_is_dropped_at_any_poll_leaves_nothing() {
    with_ensemble(async |ensemble| {
        let outer = connect(ensemble).await;
        outer.create("/ns/dir", "").parents().await.unwrap();
        let session = outer.with_namespace("/ns").unwrap();
        for kind in 0..4 {
            for polls in 0.. {
                let mut call = match kind {
                    0 => session
                        .create("/dir/n-", "")
                        .ephemeral()
                        .sequential()
                        .owned(),
                    1 => session.create("/dir/n-", "").sequential().owned(),
                    2 => session.create("/dir/n", "").ephemeral().owned(),
                    // With a parent to make.
                    _ => session
                        .create(format!("/dir/{polls}/n-"), "")
                        .parents()
                        .owned(),
                }
                .into_future();
                let is_ready = polled(&mut call, polls).await;
                drop(call);
                within(MAX_WAIT, "all is settled", session.settled()).await;
                let left = if kind == 3 {
                    match session.list(format!("/dir/{polls}")).await {
                        Ok((names, _)) => names,
                        Err(error) => {
                            assert!(error.is_no_node(), "{error}");
                            Vec::new()
                        }
                    }
                } else {
                    names(&session, "/dir").await
                };
                assert!(left.is_empty(), "kind {kind}, {polls} polls: {left:?}");
                if is_ready {
                    assert!(polls > 0);
                    break;
                }
            }
            session.delete("/dir").recursive().await.unwrap();
            session.create("/dir", "").await.unwrap();
        }
        assert_eq!(session.counters().unsettled, 0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn owned_node_goes_with_its_handle_and_stays_when_it_is_kept() {
    with_ensemble(async |ensemble| {
        let outer = connect(ensemble).await;
        outer.create("/ns/dir", "").parents().await.unwrap();
        let session = outer.with_namespace("/ns").unwrap();
        let make = async || {
            session
                .create("/dir/n-", "")
                .sequential()
                .owned()
                .await
                .unwrap()
        };

        let dropped = make().await;
        assert!(session.exists(dropped.path()).await.unwrap().is_some());
        assert_eq!(
            dropped.stat().czxid,
            session.stat(dropped.path()).await.unwrap().czxid
        );
        assert_eq!(dropped.session().namespace().as_str(), "/ns");
        drop(dropped);
        session.settled().await;
        assert!(names(&session, "/dir").await.is_empty());

        make().await.delete().await.unwrap();
        assert!(names(&session, "/dir").await.is_empty());

        let (path, _) = make().await.keep();
        session.settled().await;
        assert!(session.exists(&path).await.unwrap().is_some());
        session.delete(&path).await.unwrap();

        // Somebody else was faster: that is no error, neither for the call nor for the drop.
        let taken = make().await;
        outer.delete(format!("/ns{}", taken.path())).await.unwrap();
        taken.delete().await.unwrap();
        let taken = make().await;
        outer.delete(format!("/ns{}", taken.path())).await.unwrap();
        drop(taken);
        session.settled().await;
        assert_eq!(session.counters().unsettled, 0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn persistent_owned_node_is_deleted_when_the_session_drops() {
    with_ensemble(async |ensemble| {
        let observer = connect(ensemble).await;
        observer.create("/dir", "").await.unwrap();
        for _ in 0..5 {
            let session = connect(ensemble).await;
            let first = session.create("/dir/a", "").owned().await.unwrap();
            let last = session.create("/dir/b", "").owned().await.unwrap();
            let ephemeral = session.create("/dir/c", "").ephemeral().await.unwrap();
            drop((first, ephemeral));
            drop(session);
            // The handle is the last that holds the session.
            drop(last);
            until("the nodes and the session are gone", async || {
                names(&observer, "/dir").await.is_empty()
            })
            .await;
        }
        until("no other session is left", async || {
            let cons = ensemble.server(1).unwrap().cons().await.unwrap();
            cons.sessions.len() == 1
        })
        .await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn handle_dropped_during_an_outage_is_settled_after_it() {
    with_ensemble(async |ensemble| {
        let session = connect_for(ensemble, MAX_WAIT).await;
        session.create("/dir", "").await.unwrap();
        let owned = session.create("/dir/n", "").owned().await.unwrap();
        let other = session.create("/dir/n", "").owned().await.unwrap();
        let server = ensemble.server(1).unwrap();
        server.kill().await.unwrap();
        drop(owned);
        let session = session.with_operation_timeout(Duration::from_millis(300));
        let error = session.delete(other.path()).await.unwrap_err();
        assert!(!error.is_fatal(), "{error}");
        drop(other);
        assert_eq!(session.counters().unsettled, 2);
        server.start().unwrap();
        within(MAX_WAIT, "all is settled", session.settled()).await;
        let (left, _) = session
            .list("/dir")
            .timeout(Duration::from_secs(10))
            .await
            .unwrap();
        assert!(left.is_empty(), "{left:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn guaranteed_delete_goes_on_in_the_background() {
    with_ensemble(async |ensemble| {
        let session = connect_for(ensemble, MAX_WAIT).await;
        session.create("/a", "").await.unwrap();
        let mut call = session.delete("/a").guaranteed().into_future();
        assert!(!is_ready(&mut call).await);
        // It has looked at the node by now. The request to delete it goes to a server that will never read it.
        session.get("/").await.unwrap();
        let server = ensemble.server(1).unwrap();
        server.pause().await.unwrap();
        assert!(!is_ready(&mut call).await);
        server.kill().await.unwrap();
        drop(call);
        server.start().unwrap();
        within(MAX_WAIT, "all is settled", session.settled()).await;
        let found = session.exists("/a").timeout(MAX_WAIT).await.unwrap();
        assert_eq!(found, None);
        let again = session.delete("/a").guaranteed().await.unwrap_err();
        assert!(again.is_no_node());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn replacement_survives_a_cut_at_its_request_and_reply() {
    let ensemble = Ensemble::builder().servers(3).proxied(true);
    let ensemble = ensemble.start().await.expect("three servers start");
    let proxy = ensemble.proxy().expect("it has a proxy");
    let (session, observer) = (connect(&ensemble).await, connect(&ensemble).await);
    session.create("/dir", "").await.unwrap();
    let create = || session.create("/dir/n-", "").ephemeral().sequential();
    let mut node = create().owned().await.unwrap();
    for round in 0..4 {
        let transactions = Match::multi("/dir/**").session(session.id().as_i64());
        let rule = proxy.on(transactions).once();
        let lost = if round % 2 == 0 {
            rule.drop_then_cut()
        } else {
            rule.cut_on_reply()
        };
        let old = node.path().clone();
        node = within(MAX_WAIT, "it is replaced", node.replace_with(create()))
            .await
            .unwrap();
        lost.happened(Duration::ZERO).await.unwrap();
        assert_ne!(*node.path(), old);
        observer.sync("/dir").with_quorum().await.unwrap();
        assert_eq!(
            names(&observer, "/dir").await,
            [node.path().name().unwrap()]
        );
        let stat = observer.stat(node.path()).await.unwrap();
        assert_eq!(stat, *node.stat());
        assert_eq!(stat.ephemeral_owner, Some(session.id()));
    }
    drop(node);
    within(MAX_WAIT, "it is removed", session.settled()).await;
    observer.sync("/dir").with_quorum().await.unwrap();
    assert!(names(&observer, "/dir").await.is_empty());
    ensemble.down().await.expect("the servers go down");
}
