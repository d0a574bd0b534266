//! Persistent watches at the boundary to the transport, on servers of both releases.

use zk_core::WatchEvent::{ChildrenChanged as Children, Created, DataChanged as Data, Deleted};
use zk_core::transport::{Request, Response, Transport, WatchNotification, Watching};
use zk_core::{NodePath, Session, WatchEvent};

use crate::{
    MAX_WAIT, connect, for_each_release, server_with, until, watches_of, with_release, within,
};

async fn open(connect_string: String) -> Box<dyn Transport> {
    let session = Session::builder(connect_string).session_timeout(MAX_WAIT);
    session.transport().await.expect("a session is granted")
}

async fn watch(transport: &dyn Transport, path: &str, recursive: bool) -> Watching {
    let path = NodePath::parse(path).unwrap();
    let answer = transport.submit(Request::AddWatch { path, recursive });
    match answer.await.result {
        Ok(Response::Watching(watching)) => watching,
        answer => panic!("{answer:?}"),
    }
}

async fn received(watching: &mut Watching, count: usize) -> Vec<(String, WatchEvent)> {
    let mut received = Vec::new();
    for _ in 0..count {
        match within(MAX_WAIT, "a notice", watching.next()).await {
            Some(WatchNotification::Changed { path, event, .. }) => {
                received.push((path.to_string(), event));
            }
            other => panic!("{other:?} after {received:?}"),
        }
    }
    received
}

#[tokio::test(flavor = "multi_thread")]
async fn persistent_watches_tell_every_change_until_they_are_dropped() {
    for_each_release(async |release| {
        with_release(1, release, async |ensemble| {
            let other = connect(ensemble).await;
            other.create("/app", "").await.unwrap();
            let transport = open(ensemble.connect_string()).await;
            let mut one = watch(&*transport, "/app/a", false).await;
            let mut all = watch(&*transport, "/app", true).await;

            let (_, stat) = other.create("/app/a", "").await.unwrap();
            other.set("/app/a", "x").await.unwrap();
            other.set("/app/a", "y").await.unwrap();
            other.create("/app/a/b", "").await.unwrap();
            other.set("/app/a/b", "x").await.unwrap();
            other.delete("/app/a/b").await.unwrap();
            other.delete("/app/a").await.unwrap();
            let first = within(MAX_WAIT, "a notice", one.next()).await;
            let zxid = ensemble.version().starts_with("3.9").then_some(stat.czxid);
            let born = WatchNotification::Changed {
                path: NodePath::parse("/app/a").unwrap(),
                event: Created,
                zxid,
            };
            assert_eq!(first, Some(born), "{release}");
            let expected = [
                ("/app/a", Data),
                ("/app/a", Data),
                ("/app/a", Children),
                ("/app/a", Children),
                ("/app/a", Deleted),
            ]
            .map(|(path, event)| (path.to_owned(), event));
            assert_eq!(received(&mut one, 5).await, expected, "{release}");
            let expected = [
                ("/app/a", Created),
                ("/app/a", Data),
                ("/app/a", Data),
                ("/app/a/b", Created),
                ("/app/a/b", Data),
                ("/app/a/b", Deleted),
                ("/app/a", Deleted),
            ]
            .map(|(path, event)| (path.to_owned(), event));
            assert_eq!(received(&mut all, 7).await, expected, "{release}");

            assert!(watches_of(ensemble).await > 0);
            drop((one, all));
            until("the server has no watch left", async || {
                watches_of(ensemble).await == 0
            })
            .await;
        })
        .await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_persistent_watch_ends_with_the_link_and_can_be_set_again() {
    for_each_release(async |release| {
        with_release(3, release, async |ensemble| {
            let transport = open(ensemble.connect_string()).await;
            let mut before = watch(&*transport, "/a", true).await;
            let server = server_with(ensemble, transport.session_id()).await;
            server.kill().await.unwrap();
            assert_eq!(
                within(MAX_WAIT, "the link is lost", before.next()).await,
                Some(WatchNotification::LinkLost)
            );
            assert_eq!(before.next().await, None, "nothing comes after it");
            drop(before);
            let mut after =
                within(MAX_WAIT, "the link is back", watch(&*transport, "/a", true)).await;
            let other = connect(ensemble).await;
            other.create("/a", "").await.unwrap();
            let expected = ("/a".to_owned(), Created);
            assert_eq!(received(&mut after, 1).await, [expected], "{release}");
            transport.close();
            assert_eq!(
                within(MAX_WAIT, "the session ends", after.next()).await,
                Some(WatchNotification::LinkLost)
            );
        })
        .await;
    })
    .await;
}
