//! Persistent nodes: they come back, whatever happens to them.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use zk_core::transport::{Request, TransportError};
use zk_core::{
    Acl, ErrorKind, PersistentNode, PersistentNodeError, PersistentNodeOptions,
    PersistentNodeProblem, PersistentNodeState, Session, Sessions,
};
use zk_sim::wait::{pass, polled, soon, until};
use zk_sim::{Chaos, Check, Ensemble, Kind, Proposal, Release, Script, Scripted, matching};

const PATH: &str = "/a/b/node";
const TTL: Duration = Duration::from_secs(9);

fn start(
    sessions: impl Into<zk_core::SessionSource>,
    data: &str,
    options: PersistentNodeOptions,
) -> PersistentNode {
    PersistentNode::start(sessions, PATH, data, options).expect("a good path")
}

async fn ready(node: &PersistentNode) -> zk_core::PresentNode {
    soon("the node exists", node.ready())
        .await
        .expect("nothing refuses it")
}

fn options() -> Vec<PersistentNodeOptions> {
    vec![
        PersistentNodeOptions::ephemeral(),
        PersistentNodeOptions::ephemeral().with_protection(),
        PersistentNodeOptions::ephemeral_sequential(),
        PersistentNodeOptions::persistent(),
        PersistentNodeOptions::persistent().with_protection(),
        PersistentNodeOptions::persistent_sequential(),
        PersistentNodeOptions::container(),
        PersistentNodeOptions::ttl(TTL),
        PersistentNodeOptions::ttl_sequential(TTL),
    ]
}

/// The nodes below `/a/b`: path, data, and whether they have an owner. Without the children that are touched.
fn nodes(sim: &Ensemble) -> Vec<(String, String, bool)> {
    let tree = sim.tree();
    let nodes = tree.nodes().filter(|(path, _)| {
        path.as_str().starts_with("/a/b/") && !path.as_str().ends_with("/touch")
    });
    nodes
        .map(|(path, node)| {
            let data = String::from_utf8_lossy(node.data()).into_owned();
            (path.to_string(), data, node.owner().is_some())
        })
        .collect()
}

fn one(path: &str, data: &str, is_owned: bool) -> Vec<(String, String, bool)> {
    vec![(path.to_owned(), data.to_owned(), is_owned)]
}

async fn current(sessions: &Sessions) -> Session {
    let session = soon("there is a session", sessions.session()).await;
    session.expect("there will be one")
}

/// Waits until the nodes are as expected, and stay so.
async fn assert_nodes(sim: &Ensemble, expected: &[(String, String, bool)]) {
    until("the nodes are as expected", async || nodes(sim) == expected).await;
    pass(Duration::from_secs(2)).await;
    assert_eq!(nodes(sim), expected);
}

/// CURATOR-97, -154, -241: a watch or data lost over a reconnect; CURATOR-190: a growing name.
#[tokio::test(start_paused = true)]
async fn node_of_each_kind_comes_back_under_its_name() {
    for options in options() {
        let sim = Ensemble::new(3);
        let sessions = sim.open_sessions();
        let node = start(&sessions, "data", options.clone());
        let path = ready(&node).await.path;
        let is_owned = nodes(&sim)[0].2;
        let expected = one(path.as_str(), "data", is_owned);
        assert_nodes(&sim, &expected).await;
        let other = sim.connect().await;
        // Deleted by another client, once and again; with its parents; with a connection loss in between.
        for round in 0..3 {
            let recreated = node.current().map(|node| node.stat.czxid);
            other.delete("/a").recursive().await.unwrap();
            if round == 1 {
                sim.session(current(&sessions).await.id()).cut();
            }
            until("it was created again", async || {
                node.current()
                    .is_some_and(|node| Some(node.stat.czxid) > recreated)
            })
            .await;
            assert_nodes(&sim, &expected).await;
            assert_eq!(ready(&node).await.path, path);
        }
        // And after each loss of the session.
        for _ in 0..2 {
            let session = current(&sessions).await;
            sim.expire(session.id());
            soon("it is lost", session.lost()).await;
            assert_eq!(ready(&node).await.path, path);
            assert_nodes(&sim, &expected).await;
        }
        assert!(node.problem().is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn kinds_of_the_nodes_are_as_asked() {
    let kinds = [
        "ephemeral",
        "ephemeral",
        "ephemeral",
        "persistent",
        "persistent",
        "persistent",
        "container",
        "ttl",
        "ttl",
    ];
    for (options, expected) in options().into_iter().zip(kinds) {
        let sim = Ensemble::new(3);
        let session = sim.connect().await;
        let node = start(&session, "", options);
        let path = ready(&node).await.path;
        let tree = sim.tree();
        let kind = match tree.node(path.as_str()).unwrap().kind() {
            Kind::Ephemeral(owner) => {
                assert_eq!(owner, session.id());
                "ephemeral"
            }
            Kind::Persistent => "persistent",
            Kind::Container => "container",
            Kind::Ttl(ttl) => {
                assert_eq!(ttl, TTL);
                "ttl"
            }
            kind => panic!("{kind:?}"),
        };
        assert_eq!(kind, expected, "{path}");
        let parent = tree.node("/a/b").unwrap().kind();
        assert!(matches!(parent, Kind::Container));
    }
}

/// A refusal ends Curator's node without a word.
#[tokio::test(start_paused = true)]
async fn refused_create_is_reported_and_tried_again() {
    for (kind, options) in [
        (ErrorKind::NoAuth, PersistentNodeOptions::ephemeral()),
        (
            ErrorKind::NoAuth,
            PersistentNodeOptions::persistent_sequential(),
        ),
        (ErrorKind::Unsupported, PersistentNodeOptions::ttl(TTL)),
    ] {
        let sim = Ensemble::new(3);
        let session = sim.connect().await;
        session.create("/a/b", "").parents().await.unwrap();
        let refused = sim
            .on(matching::creates("/a/b/*"))
            .from(1)
            .refuse(TransportError::Refused(kind, None));
        let node = start(&session, "data", options);
        let error = soon("it is reported", node.ready()).await.unwrap_err();
        let PersistentNodeError::Refused(source) = &error else {
            panic!("{error}")
        };
        assert_eq!((source.kind(), error.class()), (kind, source.class()));
        assert!(node.current().is_none());
        let problem = node.problem().unwrap();
        assert!(matches!(&problem, PersistentNodeProblem::Failed(error) if error.kind() == kind));
        pass(Duration::from_secs(300)).await;
        let attempts = refused.count();
        assert!((8..40).contains(&attempts), "{attempts}");
        refused.withdraw();
        until("it is created", async || node.current().is_some()).await;
        assert!(node.problem().is_none());
        assert_eq!(nodes(&sim).len(), 1);
    }
}

/// Another owner's node is not overwritten.
#[tokio::test(start_paused = true)]
async fn node_of_another_owner_is_waited_for() {
    for theirs_is_ephemeral in [true, false] {
        let sim = Ensemble::new(3);
        let (session, other) = (sim.connect().await, sim.connect().await);
        let create = other.create(PATH, "theirs").parents();
        let create = if theirs_is_ephemeral {
            create.ephemeral()
        } else {
            create
        };
        create.await.unwrap();
        let node = start(&session, "ours", PersistentNodeOptions::ephemeral());
        until("it is reported", async || node.problem().is_some()).await;
        let problem = node.problem().unwrap();
        let expected = theirs_is_ephemeral.then(|| other.id());
        assert!(
            matches!(&problem, PersistentNodeProblem::Taken { owner, .. } if *owner == expected),
            "{problem}"
        );
        assert_eq!(
            problem.to_string().contains("belongs to session"),
            theirs_is_ephemeral
        );
        assert_nodes(&sim, &one(PATH, "theirs", theirs_is_ephemeral)).await;
        assert!(polled(1, node.ready()).await.is_none());
        other.delete(PATH).await.unwrap();
        assert_eq!(ready(&node).await.session, session.id());
        assert_nodes(&sim, &one(PATH, "ours", true)).await;
        assert!(node.problem().is_none());
    }
}

/// Two handles of one session: the second waits for the first.
#[tokio::test(start_paused = true)]
async fn second_handle_of_a_session_waits_for_the_first() {
    let sim = Ensemble::new(3);
    let session = sim.connect().await;
    let first = start(&session, "1", PersistentNodeOptions::ephemeral());
    ready(&first).await;
    let second = start(&session, "2", PersistentNodeOptions::ephemeral());
    pass(Duration::from_secs(60)).await;
    assert!(second.current().is_none() && first.current().is_some());
    drop(first);
    ready(&second).await;
    assert_nodes(&sim, &one(PATH, "2", true)).await;
    drop(second);
    sim.assert_nothing_left([session]).await;
}

/// What was there before the call is not taken for what a create without a reply has made.
#[tokio::test(start_paused = true)]
async fn second_handle_with_equal_data_leaves_the_first_alone() {
    let sim = Ensemble::new(3);
    let session = sim.connect().await;
    let first = start(&session, "", PersistentNodeOptions::ephemeral());
    let czxid = ready(&first).await.stat.czxid;
    let lost = sim.on(matching::creates(PATH)).lose_request();
    let second = start(&session, "", PersistentNodeOptions::ephemeral());
    soon("the request is lost", lost.happened()).await;
    until("it waits", async || second.problem().is_some()).await;
    assert!(second.current().is_none());
    drop(second);
    // Dropped while its create is in flight.
    for moment in 0..20 {
        let second = start(&session, "", PersistentNodeOptions::ephemeral());
        pass(Duration::from_micros(200 * moment)).await;
        drop(second);
        pass(Duration::from_secs(5)).await;
    }
    assert_eq!(first.current().map(|node| node.stat.czxid), Some(czxid));
    assert_nodes(&sim, &one(PATH, "", true)).await;
}

/// Data that is set while another session's node takes the place.
#[tokio::test(start_paused = true)]
async fn pending_data_is_not_written_to_the_node_of_another() {
    let sim = Ensemble::new(3);
    let (session, other) = (sim.connect().await, sim.connect().await);
    let node = start(&session, "1", PersistentNodeOptions::ephemeral());
    ready(&node).await;
    soon("it is written", node.set_data("2")).await.unwrap();
    sim.session(session.id()).cut_for(Duration::from_secs(2));
    other.delete(PATH).await.unwrap();
    let theirs = other.create(PATH, "theirs").ephemeral().container_parents();
    let (_, stat) = theirs.await.unwrap();
    assert!(polled(1, node.set_data("3")).await.is_none());
    until("it waits", async || node.problem().is_some()).await;
    let found = other.get(PATH).await.unwrap();
    assert_eq!((&*found.0, found.1.mzxid), (&b"theirs"[..], stat.mzxid));
    other.delete(PATH).await.unwrap();
    ready(&node).await;
    assert_nodes(&sim, &one(PATH, "3", true)).await;
}

#[tokio::test(start_paused = true)]
async fn refused_data_does_not_refuse_the_data_before() {
    let sim = Ensemble::new(3);
    let session = sim.connect().await;
    let node = start(&session, "1", PersistentNodeOptions::ephemeral());
    ready(&node).await;
    let write = |request: &Request| matches!(request, Request::SetData { .. });
    let (good, bad) = tokio::join!(soon("it is written", node.set_data("2")), async {
        until("it is in flight", async || sim.arrived(write) == 1).await;
        node.set_data(vec![0; 2 << 20]).await
    });
    good.unwrap();
    assert!(bad.is_err());
    assert_nodes(&sim, &one(PATH, "2", true)).await;
}

/// The deletion is seen when the server has applied it, and not before the session has read that it is.
#[tokio::test(start_paused = true)]
async fn deletion_behind_a_lagging_server_is_mended_when_it_catches_up() {
    const LAG: Duration = Duration::from_secs(6);
    for options in options() {
        for is_written in [false, true] {
            let sim = Ensemble::new(3);
            let (session, other) = (sim.connect().server(1).await, sim.connect().server(1).await);
            let node = start(&session, "1", options.clone());
            let first = ready(&node).await;
            let path = first.path.as_str();
            let is_owned = nodes(&sim)[0].2;
            // All its server has to show for the session to come, but not the deletion.
            let caught_up = sim.connect().server(2).await;
            caught_up.sync(path).await.unwrap();
            sim.server(2).lag_for(LAG);
            let lagging_until = sim.now() + LAG;
            sim.session(session.id()).move_to(2);
            other.delete("/a").recursive().await.unwrap();
            until("it is at the server that lags", async || {
                sim.session(session.id()).server() == Some(2)
            })
            .await;
            let before = sim.arrived(matching::creates("/a/b/*"));
            if is_written {
                // The write waits for the server.
                let limit = Duration::from_secs(3);
                let early = tokio::time::timeout(limit, node.set_data("2")).await;
                assert!(early.is_err(), "{path}: {early:?}");
            }
            pass(Duration::from_secs(1)).await;
            assert!(sim.now() < lagging_until);
            assert!(sim.server(2).tree().node(path).is_some());
            assert_eq!(
                node.current().map(|node| node.stat.czxid),
                Some(first.stat.czxid)
            );
            assert_eq!(sim.arrived(matching::creates("/a/b/*")), before);

            pass((lagging_until + Duration::from_secs(1)).saturating_sub(sim.now())).await;
            let second = node.current().expect("it is created again within a second");
            assert_eq!(second.path, first.path);
            assert!(second.stat.czxid > first.stat.czxid);
            let data = if is_written { "2" } else { "1" };
            assert_nodes(&sim, &one(path, data, is_owned)).await;
            soon("it is removed", node.remove()).await.unwrap();
            assert_eq!(nodes(&sim), []);
        }
    }
}

/// What the server shows is the node of the handle, and behind it is that of another client, at the same version.
#[tokio::test(start_paused = true)]
async fn node_that_a_lagging_server_hides_is_neither_written_nor_removed() {
    for is_removed in [false, true] {
        let sim = Ensemble::new(3);
        let (session, other) = (sim.connect().server(1).await, sim.connect().server(1).await);
        let node = start(&session, "1", PersistentNodeOptions::ephemeral());
        ready(&node).await;
        sim.connect().server(2).await.sync(PATH).await.unwrap();
        sim.server(2).lag_for(Duration::from_secs(4));
        sim.session(session.id()).move_to(2);
        let replace = other.transaction().delete(PATH);
        let replace = replace.create_ephemeral(PATH, "theirs");
        replace.commit().await.unwrap();
        until("it is at the server that lags", async || {
            sim.session(session.id()).server() == Some(2)
        })
        .await;
        assert_eq!(sim.server(2).tree().node(PATH).unwrap().data(), b"1");
        if is_removed {
            soon("it has ended", node.remove()).await.unwrap();
        } else {
            assert!(polled(1, node.set_data("2")).await.is_none());
            until("it waits", async || node.problem().is_some()).await;
        }
        assert_nodes(&sim, &one(PATH, "theirs", true)).await;
    }
}

/// The servers keep a session for longer than its client, because an election gave it its full time again.
#[tokio::test(start_paused = true)]
async fn node_of_an_earlier_session_is_replaced_at_once() {
    let sim = Ensemble::new(3);
    let sessions = sim.open_sessions();
    let node = start(&sessions, "data", PersistentNodeOptions::ephemeral());
    let first = ready(&node).await;
    let session = current(&sessions).await;
    let timeout = session.session_timeout();
    sim.session(session.id()).partition();
    for _ in 0..3 {
        pass(timeout / 2).await;
        let leader = sim.leader().unwrap();
        sim.server(leader).stop();
        pass(Duration::from_millis(600)).await;
        sim.server(leader).start();
    }
    soon("its client gives it up", session.lost()).await;
    assert!(sim.session(session.id()).is_alive());
    pass(Duration::from_secs(1)).await;
    let second = ready(&node).await;
    assert!(sim.session(session.id()).is_alive());
    assert_ne!(second.session, first.session);
    assert_eq!(nodes(&sim), one(PATH, "data", true));
}

/// A persistent node of others, or of an earlier process.
#[tokio::test(start_paused = true)]
async fn node_that_is_not_ephemeral_is_adopted() {
    let kinds = [
        PersistentNodeOptions::persistent(),
        PersistentNodeOptions::container(),
        PersistentNodeOptions::ttl(TTL),
    ];
    for options in kinds {
        let sim = Ensemble::new(3);
        let other = sim.connect().await;
        let (_, stat) = other.create(PATH, "before").parents().await.unwrap();
        let sessions = sim.open_sessions();
        let node = start(&sessions, "ours", options.clone());
        assert_eq!(ready(&node).await.stat.czxid, stat.czxid);
        assert_nodes(&sim, &one(PATH, "ours", false)).await;
        // What others write stays, also over a loss of the session; the node is not written again.
        other.set(PATH, "theirs").await.unwrap();
        sim.expire(current(&sessions).await.id());
        pass(Duration::from_secs(5)).await;
        ready(&node).await;
        assert_nodes(&sim, &one(PATH, "theirs", false)).await;
        // A node that was created again is another one.
        other.delete("/a").recursive().await.unwrap();
        until("it is there", async || nodes(&sim).len() == 1).await;
        assert_nodes(&sim, &one(PATH, "ours", false)).await;
    }
}

/// Data lost over a reconnect.
#[tokio::test(start_paused = true)]
async fn data_is_what_was_set_last_whenever_it_is_created() {
    for options in options() {
        let sim = Ensemble::new(3);
        let sessions = sim.open_sessions();
        let node = start(&sessions, "1", options);
        // Before it exists.
        soon("it is written", node.set_data("2")).await.unwrap();
        let path = ready(&node).await.path.to_string();
        let data = |sim: &Ensemble| nodes(sim).first().map(|node| node.1.clone());
        assert_eq!(data(&sim).as_deref(), Some("2"));
        soon("it is written", node.set_data("3")).await.unwrap();
        assert_eq!(data(&sim).as_deref(), Some("3"));
        // While there is no session.
        let session = current(&sessions).await;
        sim.expire(session.id());
        let (written, ()) = tokio::join!(soon("it is written", node.set_data("4")), async {
            soon("it is lost", session.lost()).await;
        });
        written.unwrap();
        until("it is created with it", async || {
            data(&sim).as_deref() == Some("4")
        })
        .await;
        // A call that is dropped.
        assert!(polled(1, node.set_data("5")).await.is_none());
        until("it is written", async || data(&sim).as_deref() == Some("5")).await;
        sim.connect().await.delete("/a").recursive().await.unwrap();
        until("it is created with it", async || {
            data(&sim).as_deref() == Some("5")
        })
        .await;
        assert_eq!(nodes(&sim).len(), 1);
        assert_eq!(nodes(&sim)[0].0, path);
    }
}

#[tokio::test(start_paused = true)]
async fn refused_data_leaves_the_data_before() {
    let sim = Ensemble::new(3);
    let sessions = sim.open_sessions();
    let node = start(&sessions, "good", PersistentNodeOptions::ephemeral());
    ready(&node).await;
    let error = node.set_data(vec![0; 2 << 20]).await.unwrap_err();
    assert!(
        matches!(&error, PersistentNodeError::Refused(error) if error.kind() == ErrorKind::TooLarge)
    );
    // Nor does it stop the node from coming back.
    sim.expire(current(&sessions).await.id());
    pass(Duration::from_secs(5)).await;
    ready(&node).await;
    assert_nodes(&sim, &one(PATH, "good", true)).await;
    // While the node does not exist.
    let refused = sim
        .on(matching::creates(PATH))
        .refuse(TransportError::Refused(ErrorKind::NoAuth, None));
    let create_is_refused = async {
        sim.connect().await.delete(PATH).await.unwrap();
        until("it is refused", async || refused.count() == 1).await;
        node.set_data(vec![0; 2 << 20]).await.unwrap_err()
    };
    let error = soon("it is refused", create_is_refused).await;
    assert!(
        matches!(&error, PersistentNodeError::Refused(error) if error.kind() == ErrorKind::TooLarge)
    );
    until("it is created", async || node.current().is_some()).await;
    assert_nodes(&sim, &one(PATH, "good", true)).await;
}

type Fault = (&'static str, fn(Script) -> Scripted);

const FAULTS: [Fault; 6] = [
    ("postpone", Script::postpone),
    ("lose request", Script::lose_request),
    ("lose reply", Script::lose_reply),
    ("stall then move", |script| script.stall_then_move(2)),
    ("kill leader, survives", |script| {
        script.kill_leader(Proposal::Survives)
    }),
    ("kill leader, vanishes", |script| {
        script.kill_leader(Proposal::Vanishes)
    }),
];

/// Each request of a life of the node is hit by each fault, and once more by the loss of the session as well.
#[tokio::test(start_paused = true)]
async fn no_fault_of_any_request_leaves_a_second_node() {
    let kinds = [
        PersistentNodeOptions::ephemeral(),
        PersistentNodeOptions::ephemeral_sequential(),
        PersistentNodeOptions::persistent_sequential(),
        PersistentNodeOptions::ttl(TTL),
    ];
    for options in kinds {
        for (name, fault) in FAULTS {
            for loses_session in [false, true] {
                for number in 1.. {
                    let sim = Ensemble::new(3);
                    let sessions = sim.open_sessions();
                    let session = current(&sessions).await;
                    let script = sim
                        .on(matching::anything())
                        .session(session.id())
                        .nth(number);
                    let hit = fault(script);
                    let node = start(&sessions, "1", options.clone());
                    let living = async {
                        ready(&node).await;
                        soon("it is written", node.set_data("2")).await.unwrap();
                    };
                    let losing = async {
                        // The last one hits nothing.
                        while hit.count() == 0 {
                            pass(Duration::from_millis(1)).await;
                        }
                        if loses_session {
                            session.pause(Duration::from_millis(1)).await;
                            sim.expire(session.id());
                        }
                    };
                    tokio::select! {
                        biased;
                        ((), ()) = async { tokio::join!(living, losing) } => {}
                        () = pass(Duration::from_secs(20)) => {}
                    }
                    let is_over = hit.count() == 0;
                    hit.withdraw();
                    sim.heal();
                    for server in 1..=3 {
                        sim.server(server).start();
                    }
                    let path = ready(&node).await.path;
                    until("there is one node, with the new data", async || {
                        let found = nodes(&sim);
                        found.len() == 1 && found[0].0 == path.as_str() && found[0].1 == "2"
                    })
                    .await;
                    pass(Duration::from_secs(5)).await;
                    let found = nodes(&sim);
                    assert_eq!(found.len(), 1, "{name} {number} {loses_session} {found:?}");
                    soon("it is removed", node.remove()).await.unwrap();
                    assert_eq!(nodes(&sim), [], "{name} {number} {loses_session}");
                    if is_over {
                        break;
                    }
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn dropped_handle_leaves_no_ephemeral_node() {
    for options in options().into_iter().take(3) {
        for moment in 0..40 {
            let sim = Ensemble::new(3);
            let session = sim.connect().await;
            let node = start(&session, "data", options.clone());
            pass(Duration::from_micros(500 * moment)).await;
            assert!(moment < 30 || nodes(&sim).len() == 1);
            drop(node);
            // The task ends first.
            tokio::task::yield_now().await;
            sim.assert_nothing_left([session.clone()]).await;
            assert_eq!(nodes(&sim), []);
            assert!(!session.state().is_lost());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn removal_deletes_the_node_of_each_kind() {
    for options in options() {
        for moment in 0..40 {
            let sim = Ensemble::new(3);
            let sessions = sim.open_sessions();
            let node = start(&sessions, "data", options.clone());
            pass(Duration::from_micros(500 * moment)).await;
            if moment % 2 == 0 {
                soon("it is removed", node.remove()).await.unwrap();
            } else {
                // It goes on in the background.
                assert!(polled(1, node.remove()).await.is_none());
                drop(node);
                pass(Duration::from_secs(5)).await;
            }
            assert_eq!(nodes(&sim), [], "{moment}");
            pass(Duration::from_secs(60)).await;
            assert_eq!(nodes(&sim), []);
            assert_eq!(sim.watch_count(), 0);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn removal_leaves_a_node_of_another_owner() {
    let sim = Ensemble::new(3);
    let (session, other) = (sim.connect().await, sim.connect().await);
    other
        .create(PATH, "theirs")
        .ephemeral()
        .container_parents()
        .await
        .unwrap();
    let node = start(&session, "ours", PersistentNodeOptions::ephemeral());
    until("it waits", async || node.problem().is_some()).await;
    soon("it is removed", node.remove()).await.unwrap();
    assert_nodes(&sim, &one(PATH, "theirs", true)).await;
    // A refused removal is reported.
    let node =
        PersistentNode::start(&session, "/c", "", PersistentNodeOptions::persistent()).unwrap();
    soon("it is there", node.ready()).await.unwrap();
    other.create("/c/child", "").await.unwrap();
    let error = soon("it is refused", node.remove()).await.unwrap_err();
    assert!(
        matches!(&error, PersistentNodeError::Refused(error) if error.kind() == ErrorKind::NotEmpty)
    );
    // The node is still kept, and a later removal is another one.
    soon("it is written", node.set_data("2")).await.unwrap();
    other.delete("/c/child").await.unwrap();
    soon("it is removed", node.remove()).await.unwrap();
    assert!(sim.tree().node("/c").is_none());
}

/// The clean-up after a create without a reply must not delete the node of the next create, which has the same data.
#[tokio::test(start_paused = true)]
async fn create_without_a_reply_does_not_undo_the_next_one() {
    let sim = Ensemble::new(3);
    let session = sim.connect().await;
    session.create("/a/b", "").parents().await.unwrap();
    let impatient = session.with_operation_timeout(Duration::from_secs(1));
    let lost = sim.on(matching::creates(PATH)).lose_request();
    let node = start(&impatient, "data", PersistentNodeOptions::ephemeral());
    soon("the request is lost", lost.happened()).await;
    sim.session(session.id()).cut_for(Duration::from_secs(3));
    ready(&node).await;
    pass(Duration::from_secs(30)).await;
    assert_eq!(sim.arrived(matching::deletes(PATH)), 0);
}

/// Those that see the loss before the task of the node does.
#[tokio::test(start_paused = true)]
async fn node_of_a_lost_session_is_never_current() {
    let sim = Ensemble::new(3);
    let session = sim.connect().await;
    let state = Arc::new(OnceLock::<PersistentNodeState>::new());
    let watchers: Vec<_> = (0..50)
        .map(|_| {
            let (session, state) = (session.clone(), Arc::clone(&state));
            tokio::spawn(async move {
                session.lost().await;
                state.get().expect("it was set").current()
            })
        })
        .collect();
    tokio::task::yield_now().await;
    let node = start(&session, "data", PersistentNodeOptions::ephemeral());
    ready(&node).await;
    assert!(state.set(node.state()).is_ok());
    sim.expire(session.id());
    for watcher in watchers {
        let current = soon("the session is lost", watcher).await.unwrap();
        assert_eq!(current, None);
    }
}

#[tokio::test(start_paused = true)]
async fn end_of_the_sessions_is_reported() {
    let sim = Ensemble::new(3);
    let session = sim.connect().await;
    let node = start(&session, "data", PersistentNodeOptions::ephemeral());
    ready(&node).await;
    let mut state = node.state();
    assert!(state.changed().await);
    sim.expire(session.id());
    soon("the session is lost", session.lost()).await;
    // At once, even if the task has not seen it.
    assert!(node.current().is_none());
    assert!(state.current().is_none() && state.has_lost(session.id()));
    soon("it has ended", async { while state.changed().await {} }).await;
    assert!(state.has_lost(session.id()));
    let ended = |error: PersistentNodeError| {
        assert!(matches!(error, PersistentNodeError::Ended), "{error}");
    };
    ended(node.ready().await.unwrap_err());
    ended(node.set_data("2").await.unwrap_err());
    // It is gone with its session.
    node.remove().await.unwrap();
    let node = start(&session, "data", PersistentNodeOptions::persistent());
    ended(soon("it ends", node.ready()).await.unwrap_err());
    ended(node.remove().await.unwrap_err());
}

/// GH-1258 of Curator: the node of a process that died before it had touched the child.
#[tokio::test(start_paused = true)]
async fn ttl_node_lives_as_long_as_it_is_touched() {
    let builder = Ensemble::builder().servers(3);
    let sim = builder.reap_every(Duration::from_secs(1)).build();
    let session = sim.connect().await;
    let node = start(&session, "data", PersistentNodeOptions::ttl(TTL));
    let created = ready(&node).await;
    let versions = || sim.tree().node(PATH).map(|node| node.stat().version);
    for _ in 0..20 {
        pass(TTL).await;
        assert_eq!(
            node.current().map(|node| node.stat.czxid),
            Some(created.stat.czxid)
        );
        assert_eq!(
            versions(),
            Some(0),
            "the touches do not disturb those that watch the node"
        );
    }
    // The node goes when no process touches it any more.
    drop(node);
    pass(3 * TTL).await;
    assert_eq!(nodes(&sim), []);
    // The process dies after the create, before the child is there.
    let hit = sim.on(matching::creates("/a/b/node/touch")).lose_request();
    let node = start(&session, "data", PersistentNodeOptions::ttl(TTL));
    soon("it dies", hit.happened()).await;
    assert_eq!(nodes(&sim).len(), 1);
    drop(node);
    pass(3 * TTL).await;
    assert_eq!(nodes(&sim), []);
}

#[tokio::test(start_paused = true)]
async fn ttl_node_that_cannot_be_touched_is_reported() {
    let builder = Ensemble::builder().servers(3);
    let sim = builder.reap_every(Duration::from_secs(1)).build();
    let session = sim.connect().await;
    let refused = sim
        .on(matching::creates("/a/b/node/touch"))
        .from(1)
        .refuse(TransportError::Refused(ErrorKind::NoAuth, None));
    let node = start(&session, "data", PersistentNodeOptions::ttl(TTL));
    ready(&node).await;
    until("it is reported", async || node.problem().is_some()).await;
    assert!(node.current().is_some());
    refused.withdraw();
    until("it is touched", async || node.problem().is_none()).await;
    pass(3 * TTL).await;
    assert_eq!(node.current().map(|node| node.stat.version), Some(0));
}

#[tokio::test(start_paused = true)]
async fn access_rules_are_those_that_were_given() {
    let sim = Ensemble::new(1);
    let session = sim.connect().await;
    let acl = Acl::read_only();
    session.create("/a/b", "").parents().await.unwrap();
    for (options, name) in [
        (PersistentNodeOptions::ephemeral(), "/a/b/e"),
        (PersistentNodeOptions::persistent(), "/a/b/p"),
    ] {
        let options = options.with_acl(acl.clone());
        let node = PersistentNode::start(&session, name, "data", options).unwrap();
        ready(&node).await;
        assert_eq!(sim.tree().node(name).unwrap().acl(), &acl);
    }
}

/// Random faults, sessions that are lost, and clients that delete the node.
#[test]
fn after_any_faults_there_is_the_one_node() {
    Check::new(0..60)
        .seeds_from_env()
        .run(async |sim: Ensemble, seed| {
            let mut random = fastrand::Rng::with_seed(seed);
            let all = options();
            let options = all[usize::try_from(seed).unwrap() % all.len()].clone();
            let sessions = sim.open_sessions();
            let node = start(&sessions, "0", options);
            let chaos = Chaos::default()
                .lasting(Duration::from_secs(20))
                .every(Duration::from_millis(300));
            let chaos = tokio::spawn(chaos.run(&sim));
            let mut last = 0;
            for round in 1..40 {
                pass(Duration::from_millis(random.u64(0..1000))).await;
                if random.u8(0..3) == 0 {
                    let other = sim.connect().await;
                    let timeout = Duration::from_secs(5);
                    drop(other.delete("/a").recursive().timeout(timeout).await);
                } else {
                    last = round;
                    let limit = Duration::from_millis(random.u64(0..1000));
                    let setting = node.set_data(round.to_string());
                    drop(tokio::time::timeout(limit, setting).await);
                }
            }
            chaos.await.expect("nothing panics there");
            let path = ready(&node).await.path;
            until("there is one node, with the last data", async || {
                let found = nodes(&sim);
                found.len() == 1 && found[0].0 == path.as_str() && found[0].1 == last.to_string()
            })
            .await;
            pass(Duration::from_secs(60)).await;
            assert_eq!(nodes(&sim).len(), 1);
            soon("it is removed", node.remove()).await.unwrap();
            assert_eq!(nodes(&sim), []);
        });
}

/// What a node costs.
#[tokio::test(start_paused = true)]
async fn node_costs_a_create_a_watch_and_a_read_each_timeout() {
    let sim = Ensemble::new(3);
    let session = sim.connect().await;
    session.create("/a/b", "").parents().await.unwrap();
    let before = sim.request_count();
    let node = start(&session, "data", PersistentNodeOptions::ephemeral());
    ready(&node).await;
    pass(session.session_timeout() * 5 + Duration::from_secs(1)).await;
    assert_eq!(sim.request_count() - before, 2 + 5);
    let watching = |request: &Request| matches!(request, Request::Exists { watch: true, .. });
    assert_eq!(sim.arrived(watching), 1);
}

#[tokio::test(start_paused = true)]
async fn node_comes_back_after_an_obstacle_that_it_may_not_read() {
    for release in [Release::V3_8, Release::V3_9] {
        let sim = Ensemble::builder().release(release).build();
        let bob = sim.connect().digest("bob", "secret").await;
        let alice = sim.connect().await;
        bob.create("/a/b", "").parents().await.unwrap();
        let private = bob.create(PATH, "").ephemeral();
        private.acl(Acl::creator_only()).await.unwrap();
        let node = start(&alice, "data", PersistentNodeOptions::ephemeral());
        until("it is in the way", async || node.problem().is_some()).await;
        pass(Duration::from_secs(60)).await;
        bob.delete(PATH).await.unwrap();
        until("it is created", async || node.current().is_some()).await;
        assert_nodes(&sim, &one(PATH, "data", true)).await;
    }
}
