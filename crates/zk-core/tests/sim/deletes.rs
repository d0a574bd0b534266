//! Deletes of whole trees, and of the node that was meant.

use std::time::Duration;

use zk_core::transport::TransportError;
use zk_core::{ErrorKind, NodePath};
use zk_sim::Ensemble;
use zk_sim::matching::{deletes, exists};

use crate::{meanwhile, requests};

#[tokio::test(start_paused = true)]
async fn recursive_delete_goes_from_the_leaves_to_the_root() {
    let sim = Ensemble::new(3);
    let session = sim.connect().await;
    for path in ["/t", "/t/a", "/t/b", "/t/a/x"] {
        session.create(path, "").await.unwrap();
    }
    session.delete("/t").recursive().await.unwrap();
    let listed = ["/t", "/t/a", "/t/b", "/t/a/x"].map(|path| format!("list {path}"));
    let deleted = ["/t/a/x", "/t/b", "/t/a", "/t"].map(|path| format!("delete {path}"));
    assert_eq!(requests(&sim, &session)[4..], [listed, deleted].concat());
}

#[tokio::test(start_paused = true)]
async fn recursive_delete_gives_up_when_new_nodes_keep_appearing() {
    let sim = Ensemble::new(3);
    let session = sim.connect().await;
    session.create("/t", "").await.unwrap();
    let refusal = TransportError::Refused(ErrorKind::NotEmpty, None);
    let refused = sim.on(deletes("/t")).every().refuse(refusal);
    let error = session.delete("/t").recursive().await.unwrap_err();
    assert_eq!((error.kind(), refused.count()), (ErrorKind::NotEmpty, 16));
    assert_eq!(
        error.to_string(),
        "delete /t: the node has children (new nodes keep appearing below it) after 16 attempts"
    );
}

#[tokio::test(start_paused = true)]
async fn recursive_delete_with_a_lost_answer_says_where_it_stopped() {
    let sim = Ensemble::new(3);
    let session = sim.connect().await;
    session.create("/t/a", "").parents().await.unwrap();
    sim.on(deletes("/t/a")).hold();
    let error = session.delete("/t").recursive().await.unwrap_err();
    assert_eq!(
        (error.kind(), error.path().map(NodePath::as_str)),
        (ErrorKind::OutcomeUnknown, Some("/t/a"))
    );
}

#[tokio::test(start_paused = true)]
async fn guaranteed_delete_reads_once_the_server_has_caught_up() {
    let sim = Ensemble::new(3);
    let session = sim.connect().server(2).await;
    let other = sim.connect().server(1).await;
    sim.server(2).lag_for(Duration::from_millis(500));
    other.create("/a", "").await.unwrap();
    session.delete("/a").guaranteed().await.unwrap();
    assert!(sim.tree().paths().is_empty());
    let error = session.delete("/a").guaranteed().await.unwrap_err();
    assert!(error.is_no_node(), "{error}");
}

#[tokio::test(start_paused = true)]
async fn guaranteed_delete_takes_a_node_that_was_written_meanwhile() {
    let sim = Ensemble::new(3);
    let (session, other) = (sim.connect().await, sim.connect().await);
    session.create("/a", "").await.unwrap();
    let read = sim.on(exists("/a")).hold();
    let delete = session.delete("/a").guaranteed();
    let deleted = meanwhile(read.clone(), delete, async || {
        other.set("/a", "").await.unwrap();
        read.release();
    });
    deleted.await.unwrap();
    assert!(sim.tree().paths().is_empty());
}
