//! Persistent nodes on real servers: lost sessions, lost replies, and servers that delete TTL nodes.

use std::time::Duration;

use zk_core::{
    ErrorKind, PersistentNode, PersistentNodeError, PersistentNodeOptions, PresentNode,
    RetryPolicy, Session, Sessions,
};
use zk_fault_proxy::Match;
use zk_harness::Ensemble;

use crate::{MAX_WAIT, connect, until, within};

/// A process that stands still for a moment touches its node in time.
const TTL: Duration = Duration::from_secs(6);

fn sessions(ensemble: &Ensemble) -> Sessions {
    let builder = Session::builder(ensemble.connect_string());
    builder.sessions(RetryPolicy::constant(Duration::from_millis(50)))
}

async fn ready(node: &PersistentNode) -> PresentNode {
    let ready = within(MAX_WAIT, "the node exists", node.ready()).await;
    ready.expect("nothing refuses it")
}

fn kinds() -> [PersistentNodeOptions; 5] {
    [
        PersistentNodeOptions::ephemeral(),
        PersistentNodeOptions::ephemeral_sequential(),
        PersistentNodeOptions::persistent(),
        PersistentNodeOptions::persistent_sequential(),
        PersistentNodeOptions::ttl(TTL),
    ]
}

/// Each kind, with a lost request or a lost reply of its create, a deletion, and the expiry of its session.
#[tokio::test(flavor = "multi_thread")]
async fn persistent_node_comes_back_once_on_real_servers() {
    let ensemble = Ensemble::builder().servers(3).proxied(true);
    let ensemble = ensemble.start().await.expect("three servers start");
    let proxy = ensemble.proxy().expect("it has a proxy");
    let other = connect(&ensemble).await;
    for (at, options) in kinds().into_iter().enumerate() {
        for is_applied in [false, true] {
            let parent = format!("/{at}-{is_applied}");
            let sessions = sessions(&ensemble);
            let session = sessions.session().await.unwrap();
            let client = session.id().as_i64();
            // The first attempt finds that its parent is missing.
            let rule = proxy.on(Match::writes().session(client)).once();
            let lost = if is_applied {
                rule.cut_on_reply()
            } else {
                rule.drop_then_cut()
            };
            let path = format!("{parent}/x");
            let node = PersistentNode::start(&sessions, &path, "1", options.clone()).unwrap();
            let first = ready(&node).await;
            lost.happened(Duration::ZERO).await.unwrap();
            let names = async || {
                other.sync("/").with_quorum().await.unwrap();
                let found = other.list(&parent).await;
                found.map_or(Vec::new(), |found| found.0)
            };
            assert_eq!(names().await, [first.path.name().unwrap()]);
            node.set_data("2").await.unwrap();

            other.delete(&parent).recursive().await.unwrap();
            until("it is created again", async || {
                node.current()
                    .is_some_and(|now| now.stat.czxid > first.stat.czxid)
            })
            .await;
            let second = node.current().expect("it is there");
            assert_eq!(second.path, first.path);
            ensemble.expire(client).await.unwrap();
            within(MAX_WAIT, "the session is lost", session.lost()).await;
            assert!(node.state().has_lost(session.id()));
            let third = ready(&node).await;
            assert_eq!(
                (&third.path, third.session == session.id()),
                (&first.path, false)
            );
            assert_eq!(names().await, [first.path.name().unwrap()]);
            assert_eq!(other.get(&third.path).await.unwrap().0, "2");
            within(MAX_WAIT, "it is removed", node.remove())
                .await
                .unwrap();
            assert_eq!(names().await, [""; 0]);
        }
    }
    ensemble.down().await.expect("the servers go down");
}

/// Servers delete it when its process is gone, even if it had not touched the child.
#[tokio::test(flavor = "multi_thread")]
async fn servers_delete_a_ttl_node_that_is_not_touched() {
    let ensemble = Ensemble::builder().servers(1).proxied(true);
    let ensemble = ensemble.start().await.expect("a server starts");
    let proxy = ensemble.proxy().expect("it has a proxy");
    let (session, other) = (connect(&ensemble).await, connect(&ensemble).await);
    let start = || PersistentNode::start(&session, "/ttl", "data", PersistentNodeOptions::ttl(TTL));
    let node = start().unwrap();
    let created = ready(&node).await;
    // Beyond its time to live.
    let nothing = std::future::pending::<()>();
    drop(tokio::time::timeout(2 * TTL, nothing).await);
    assert_eq!(other.stat("/ttl").await.unwrap().czxid, created.stat.czxid);
    assert_eq!(other.list("/ttl").await.unwrap().0, ["touch"]);
    let gone = async || other.exists("/ttl").await.unwrap().is_none();
    drop(node);
    until("the servers delete it", gone).await;
    // The child is never created.
    let touches = Match::writes()
        .session(session.id().as_i64())
        .path("/ttl/touch");
    let lost = proxy.on(touches).once().drop_then_cut();
    let node = start().unwrap();
    within(MAX_WAIT, "it is touched", lost.happened(MAX_WAIT))
        .await
        .unwrap();
    drop(node);
    until("the servers delete it", gone).await;
    ensemble.down().await.expect("the server goes down");
}

/// A refusal is reported: servers that know no TTL nodes.
#[tokio::test(flavor = "multi_thread")]
async fn servers_without_ttl_nodes_are_reported() {
    let ensemble = Ensemble::builder().servers(1).extended_types(false);
    let ensemble = ensemble.start().await.expect("a server starts");
    let session = connect(&ensemble).await;
    let options = PersistentNodeOptions::ttl(TTL);
    let node = PersistentNode::start(&session, "/ttl", "data", options).unwrap();
    let error = within(MAX_WAIT, "it is refused", node.ready())
        .await
        .unwrap_err();
    assert!(
        matches!(&error, PersistentNodeError::Refused(error) if error.kind() == ErrorKind::Unsupported),
        "{error}"
    );
    ensemble.down().await.expect("the server goes down");
}
