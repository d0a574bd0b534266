//! Owned nodes that are replaced in one transaction.

use std::cell::Cell;
use std::time::Duration;

use futures_util::FutureExt as _;
use zk_core::{Create, Error, ErrorKind, OwnedNode, ReplaceError, Session};
use zk_sim::matching::{lists, transactions};
use zk_sim::{Chaos, Check, DropFault, Ensemble, Proposal, Release};
use zk_testkit::sim::{children, lose};

use crate::{meanwhile, pass, polled, requests, soon};

const NODES: &str = "/dir/*-n-**";

fn create(session: &Session) -> Create {
    session.create("/dir/n-", "").ephemeral().sequential()
}

/// An ensemble, and a session with an owned node.
async fn start() -> (Ensemble, Session, OwnedNode) {
    let sim = Ensemble::new(3);
    let session = sim.connect().await;
    session.create("/dir", "").await.unwrap();
    let node = create(&session).owned().await.unwrap();
    (sim, session, node)
}

/// The children of `/dir` on the leader.
fn left(sim: &Ensemble) -> Vec<String> {
    children(sim, "/dir")
}

fn assert_is_only(sim: &Ensemble, node: &OwnedNode) {
    assert_eq!(left(sim), [node.path().name().unwrap()]);
    let tree = sim.tree();
    let found = tree.node(node.path().as_str()).unwrap();
    assert_eq!(found.owner(), Some(node.session().id()));
}

#[tokio::test(start_paused = true)]
async fn node_is_replaced_with_one_request() {
    for release in [Release::V3_8, Release::V3_9] {
        let sim = Ensemble::builder().servers(3).release(release).build();
        let outer = sim.connect().await;
        outer.create("/ns/dir", "").parents().await.unwrap();
        let session = outer.with_namespace("/ns").unwrap();
        let old = create(&session).owned().await.unwrap();
        let (old_path, czxid) = (old.path().clone(), old.stat().czxid);
        let before = requests(&sim, &session).len();
        let new = old.replace_with(create(&session)).await.unwrap();
        let sent = requests(&sim, &session).split_off(before);
        assert!(sent[0].starts_with(&format!("transaction /ns{old_path} /ns/dir/_c_")));
        // Without the stat of the new node, it is read.
        let reads = usize::from(release == Release::V3_8);
        assert_eq!(sent.len(), 1 + reads, "{sent:?}");
        assert!(new.path().as_str().ends_with("-n-0000000001"), "{new:?}");
        assert!(new.is_unique() && new.stat().czxid > czxid);
        let (names, _) = session.list("/dir").await.unwrap();
        assert_eq!(names, [new.path().name().unwrap()]);
        assert_eq!(session.stat(new.path()).await.unwrap(), *new.stat());
        drop(new);
        soon("the new node is removed", session.settled()).await;
        assert!(session.list("/dir").await.unwrap().0.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn replacement_survives_a_lost_request_or_reply() {
    for fault in [
        "postponed",
        "request",
        "reply",
        "stalled",
        "moved",
        "moved to the leader",
        "survives",
        "vanishes",
    ] {
        let (sim, session, old) = start().await;
        let path = old.path().clone();
        let on = sim.on(transactions(NODES));
        let failure = match fault {
            "postponed" => on.postpone(),
            "request" => on.lose_request(),
            "reply" => on.lose_reply(),
            "stalled" => on.stall(),
            "moved" => on.stall_then_move(2),
            "moved to the leader" => on.stall_then_move(3),
            "survives" => on.kill_leader(Proposal::Survives),
            _ => on.kill_leader(Proposal::Vanishes),
        };
        let new = soon("it is replaced", old.replace_with(create(&session))).await;
        let new = new.unwrap_or_else(|error| panic!("{fault}: {error:?}"));
        assert_eq!(failure.count(), 1, "{fault}");
        failure.release();
        pass(Duration::from_secs(1)).await;
        assert_ne!(*new.path(), path, "{fault}");
        assert_is_only(&sim, &new);
        assert_eq!(session.counters().unsettled, 0, "{fault}");
    }
}

#[tokio::test(start_paused = true)]
async fn refused_replacement_changes_nothing() {
    let (sim, session, node) = start().await;
    // The parent of the new node is missing, and the old node stays.
    let other = session.create("/none/n-", "").ephemeral();
    let error = node.replace_with(other).await.unwrap_err();
    let ReplaceError::NotReplaced { node, source } = error else {
        panic!("{error:?}");
    };
    assert_eq!(source.failed_part(), Some(1));
    assert!(source.is_no_node() && source.path() != Some(node.path()));
    assert_is_only(&sim, &node);
    // Options that no replacement has.
    let error = node.replace_with(create(&session).parents()).await;
    let Err(ReplaceError::NotReplaced { node, source }) = error else {
        panic!("{error:?}");
    };
    assert_eq!(source.kind(), ErrorKind::InvalidArgument);
    // Another client has deleted the node.
    session.delete(node.path()).await.unwrap();
    let error = node.replace_with(create(&session)).await.unwrap_err();
    let ReplaceError::NotReplaced { node, source } = error else {
        panic!("{error:?}");
    };
    assert!(source.is_no_node() && source.path() == Some(node.path()));
    assert_eq!(left(&sim), [""; 0]);
    // A node that another one may replace.
    let claimed = session.create("/dir/claimed", "mine").claimed().await;
    let claimed = claimed.unwrap().unwrap();
    let error = claimed.replace_with(create(&session)).await.unwrap_err();
    let ReplaceError::NotReplaced { source, .. } = error else {
        panic!("{error:?}");
    };
    assert_eq!(source.kind(), ErrorKind::InvalidArgument);
    assert_eq!(left(&sim), ["claimed"]);
}

#[tokio::test(start_paused = true)]
async fn replacement_reports_nodes_that_another_client_deletes() {
    for (is_applied, release) in [
        (false, Release::V3_9),
        (true, Release::V3_9),
        (true, Release::V3_8),
    ] {
        let sim = Ensemble::builder().servers(3).release(release).build();
        let (session, other) = (sim.connect().await, sim.connect().await);
        session.create("/dir", "").await.unwrap();
        let node = create(&session).owned().await.unwrap();
        let old = node.path().clone();
        let on = sim.on(transactions(NODES));
        let lost = lose(on, is_applied);
        let held = sim.on(lists("/dir")).session(session.id()).lose_request();
        let result = meanwhile(lost, node.replace_with(create(&session)), async || {
            for name in left(&sim) {
                other.delete(format!("/dir/{name}")).await.unwrap();
            }
        });
        let error = soon("it is over", result).await.unwrap_err();
        assert_eq!(held.count(), 1);
        let ReplaceError::NotReplaced { node, source } = error else {
            panic!("{error:?}");
        };
        assert_eq!(*node.path(), old);
        assert!(
            source.is_no_node() && source.path() == Some(&old),
            "{source}"
        );
        drop(node);
        soon("nothing is left to clean up", session.settled()).await;
        assert_eq!(left(&sim), [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn replacement_of_unknown_outcome_leaves_nothing() {
    for is_applied in [false, true] {
        let (sim, session, node) = start().await;
        let on = sim.on(transactions(NODES));
        let lost = lose(on, is_applied);
        let link = sim.session(session.id());
        let with = create(&session).timeout(Duration::from_millis(500));
        let result = meanwhile(lost, node.replace_with(with), async || {
            link.partition();
        });
        let error = result.await.unwrap_err();
        link.heal();
        let ReplaceError::Unknown { source } = error else {
            panic!("{error:?}");
        };
        assert!(
            source.is_outcome_unknown() && !source.is_fatal(),
            "{source}"
        );
        soon("both nodes are removed", session.settled()).await;
        assert_eq!(left(&sim), [""; 0], "{is_applied}");
    }
}

#[tokio::test(start_paused = true)]
async fn replacement_dropped_at_any_poll_leaves_nothing() {
    for fault in DropFault::ALL {
        for polls in 0.. {
            let (sim, session, node) = start().await;
            let replaced = polled(polls, node.replace_with(create(&session))).await;
            let is_ready = replaced.is_some();
            fault.inject(&sim, session.id());
            drop(replaced);
            soon("both nodes are removed", session.settled()).await;
            pass(Duration::from_secs(1)).await;
            assert_eq!(left(&sim), [""; 0], "{fault:?} after {polls} polls");
            if is_ready {
                assert!(polls > 1);
                break;
            }
        }
    }
}

#[test]
fn there_is_one_node_after_each_replacement_under_random_faults() {
    let replaced = Cell::new(0);
    let checked = Check::new(0..200).run(async |sim, _seed| {
        let session = sim.connect().await;
        session.create("/dir", "").await?;
        let chaos = tokio::spawn(Chaos::default().run(&sim));
        let mut node = None;
        for _ in 0..40 {
            let owned: OwnedNode = match node.take() {
                Some(node) => node,
                None => match create(&session).owned().await {
                    Ok(node) => node,
                    Err(error) if error.is_fatal() => break,
                    Err(_) => continue,
                },
            };
            match owned.replace_with(create(&session)).await {
                Ok(new) => {
                    replaced.set(replaced.get() + 1);
                    soon("earlier nodes are removed", session.settled()).await;
                    if session.lost().now_or_never().is_some() {
                        break;
                    }
                    assert_is_only(&sim, &new);
                    node = Some(new);
                }
                Err(ReplaceError::NotReplaced { node: old, source }) => {
                    assert!(
                        !source.is_no_node(),
                        "no other client deletes nodes: {source}"
                    );
                    node = Some(old);
                }
                Err(ReplaceError::Unknown { source }) if source.is_fatal() => break,
                Err(_) => {}
            }
            pass(Duration::from_millis(50)).await;
        }
        chaos.await.expect("nothing panics there");
        drop(node);
        sim.assert_nothing_left([session]).await;
        Ok::<(), Error>(())
    });
    println!("{} replacements in {checked}", replaced.get());
    assert!(replaced.get() > 20 * checked.seeds, "hardly any was tried");
}
