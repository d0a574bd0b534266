//! Reads of many nodes: how many requests they take, and what happens when a multi-read fails.

use zk_core::transport::TransportError;
use zk_core::{ErrorKind, Session};
use zk_sim::Ensemble;
use zk_sim::matching::{gets, lists, multi_reads};

use crate::{requests, server_error};

/// Creates the nodes `/n0`, `/n1` and so on, whose data is their number, and returns their paths.
async fn create(session: &Session, nodes: usize) -> Vec<String> {
    let mut paths = Vec::new();
    for node in 0..nodes {
        let path = format!("/n{node}");
        session.create(&path, node.to_string()).await.unwrap();
        paths.push(path);
    }
    paths
}

/// Reads all nodes that [`create`] has created, and checks their data.
async fn read(session: &Session, paths: &[String]) {
    let nodes = session.get_many(paths).await.unwrap();
    let data = nodes.into_iter().map(|node| node.unwrap().0);
    let expected: Vec<_> = (0..paths.len()).map(|node| node.to_string()).collect();
    assert_eq!(data.collect::<Vec<_>>(), expected);
}

/// Returns how many multi-reads and single reads have arrived.
fn arrived(sim: &Ensemble) -> [usize; 2] {
    [sim.arrived(multi_reads("**")), sim.arrived(gets("**"))]
}

#[tokio::test(start_paused = true)]
async fn eight_nodes_are_read_with_one_request() {
    let sim = Ensemble::new(1);
    let session = sim.connect().await;
    let paths = create(&session, 25).await;
    for (nodes, expected) in [
        (0, [0, 0]),
        (1, [0, 1]),
        (2, [1, 1]),
        (8, [2, 1]),
        // A node that is left alone is read alone.
        (9, [3, 2]),
        (24, [6, 2]),
        (25, [9, 3]),
    ] {
        read(&session, &paths[..nodes]).await;
        assert_eq!(arrived(&sim), expected, "{nodes} nodes");
    }
    assert_eq!(session.counters().calls, 25 + 7);
}

#[tokio::test(start_paused = true)]
async fn servers_without_multi_reads_are_never_asked_for_one() {
    let sim = Ensemble::builder().without_persistent_watches().build();
    let session = sim.connect().await;
    let paths = create(&session, 40).await;
    read(&session, &paths).await;
    assert_eq!(arrived(&sim), [0, 40], "{:?}", requests(&sim, &session));
    assert_eq!(session.list_many(&paths).await.unwrap().len(), 40);
    assert_eq!(sim.arrived(lists("**")), 40);
    let at_once = session.get_many(&paths).in_one_request().await;
    assert_eq!(at_once.unwrap_err().kind(), ErrorKind::Unsupported);
    assert_eq!(session.counters().connection_losses, 0);
}

#[tokio::test(start_paused = true)]
async fn in_one_request_means_one_request_or_an_error() {
    let sim = Ensemble::new(3);
    let session = sim.connect().await;
    let mut paths = create(&session, 100).await;
    paths.insert(50, "/missing".to_owned());
    paths.push("no path".to_owned());
    let read = || session.get_many(&paths).in_one_request();
    let nodes = read().await.unwrap();
    assert_eq!(arrived(&sim), [1, 0]);
    assert_eq!(nodes.len(), 102);
    for (at, node) in nodes.iter().enumerate() {
        let kind = node.as_ref().map_err(zk_core::Error::kind);
        match at {
            50 => assert_eq!(kind.unwrap_err(), ErrorKind::NoNode),
            101 => assert_eq!(kind.unwrap_err(), ErrorKind::InvalidPath),
            _ => assert_eq!(kind.unwrap().0, (at - usize::from(at > 50)).to_string()),
        }
    }
    let alone = session.get_many(&paths[..1]).in_one_request();
    assert_eq!(alone.await.unwrap().len(), 1);
    sim.on(multi_reads("**")).nth(1).lose_reply();
    assert_eq!(read().await.unwrap_err().kind(), ErrorKind::ConnectionLost);
    assert_eq!(arrived(&sim), [2, 1]);
    sim.on(multi_reads("**")).nth(1).refuse(server_error());
    assert_eq!(read().await.unwrap_err().kind(), ErrorKind::ServerError);
    assert_eq!(arrived(&sim), [3, 1]);
    let long = ["a", "b", "c"].map(|name| format!("/{}", name.repeat(400_000)));
    let error = session.get_many(long).in_one_request().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    assert_eq!(arrived(&sim), [3, 1]);
}

#[tokio::test(start_paused = true)]
async fn nodes_of_a_lost_multi_read_are_read_one_by_one() {
    let sim = Ensemble::new(3);
    let session = sim.connect().await;
    let paths = create(&session, 16).await;
    read(&session, &paths).await;
    assert_eq!(arrived(&sim), [2, 0]);
    sim.on(multi_reads("/n8")).nth(1).lose_reply();
    sim.on(gets("/n9")).nth(1).lose_reply();
    read(&session, &paths).await;
    assert_eq!(sim.arrived(multi_reads("**")), 4);
    let single = sim.arrived(gets("**"));
    assert!(single > 8, "{single}");
    read(&session, &paths).await;
    assert_eq!(arrived(&sim), [6, single], "they are not given up");
}

#[tokio::test(start_paused = true)]
async fn replies_that_are_too_long_break_the_connection_once() {
    let sim = Ensemble::new(3);
    let session = sim.connect().await;
    let paths = create(&session, 64).await;
    read(&session, &paths[..8]).await;
    assert_eq!(arrived(&sim), [1, 0]);
    sim.on(multi_reads("**")).every().lose_reply();
    read(&session, &paths).await;
    assert_eq!(arrived(&sim), [2, 64]);
    assert_eq!(session.counters().connection_losses, 1);
}

#[tokio::test(start_paused = true)]
async fn a_multi_read_that_a_busy_server_refuses_is_repeated() {
    let sim = Ensemble::new(3);
    let session = sim.connect().await;
    let paths = create(&session, 8).await;
    let later = TransportError::Later(ErrorKind::Throttled);
    sim.on(multi_reads("**")).nth(1).refuse(later);
    sim.on(multi_reads("**")).nth(2).refuse(server_error());
    read(&session, &paths).await;
    assert_eq!(arrived(&sim), [2, 8]);
}

#[tokio::test(start_paused = true)]
async fn a_call_for_many_nodes_fails_as_a_whole_when_no_reply_arrives() {
    let sim = Ensemble::new(1);
    let session = sim.connect().await;
    let paths = create(&session, 16).await;
    let held = sim.on(multi_reads("/n8")).hold();
    let error = session.get_many(&paths).await.unwrap_err();
    let expected = "get several nodes from /n8: no reply in time (waited 10s for the reply)";
    assert_eq!(error.to_string(), expected);
    held.withdraw();
    sim.expire(session.id());
    let error = session.get_many(&paths).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SessionExpired);
}

#[tokio::test(start_paused = true)]
async fn a_path_that_is_too_long_concerns_no_other_node() {
    let sim = Ensemble::new(1);
    let session = sim.connect().await;
    let mut paths = vec![format!("/{}", "x".repeat(2 << 20))];
    paths.extend(create(&session, 1).await);
    let nodes = session.get_many(&paths).await.unwrap();
    let kinds: Vec<_> = nodes
        .into_iter()
        .map(|node| node.err().map(|error| error.kind()))
        .collect();
    assert_eq!(kinds, [Some(ErrorKind::TooLarge), None]);
}
