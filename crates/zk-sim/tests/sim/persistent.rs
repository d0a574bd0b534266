//! Persistent watches of simulated servers; `random` compares them with real servers.

use zk_core::transport::{Request, Response, Transport, WatchNotification, Watching};
use zk_core::{NodePath, Session, WatchEvent};
use zk_sim::{Ensemble, Release, SimTransport};

async fn watch(transport: &SimTransport, path: &str, recursive: bool) -> Watching {
    let path = NodePath::parse(path).unwrap();
    let answer = transport.submit(Request::AddWatch { path, recursive });
    match answer.await.result {
        Ok(Response::Watching(watching)) => watching,
        answer => panic!("{answer:?}"),
    }
}

/// Returns the events that a watch has received so far, and whether it has ended.
async fn received(watching: &mut Watching, session: &Session) -> (Vec<(String, WatchEvent)>, bool) {
    // The events of a server precede its reply to a later request.
    session.sync("/").await.unwrap();
    let mut received = Vec::new();
    while let Some(notice) = futures_util::FutureExt::now_or_never(watching.next()) {
        match notice {
            Some(WatchNotification::Changed { path, event, .. }) => {
                received.push((path.to_string(), event));
            }
            Some(WatchNotification::LinkLost) => return (received, true),
            None => panic!("nothing comes after the end"),
        }
    }
    (received, false)
}

#[tokio::test(start_paused = true)]
async fn a_persistent_watch_ends_with_the_link_and_leaves_nothing_behind() {
    let sim = Ensemble::new(3);
    let session = sim.connect().await;
    let transport = sim.connect().transport().await;
    session.create("/app", "").await.unwrap();
    let mut all = watch(&transport, "/app", true).await;
    let mut one = watch(&transport, "/app", false).await;
    session.create("/app/a", "").await.unwrap();
    session.create("/app/a/b", "").await.unwrap();
    let created = |path: &str| (path.to_owned(), WatchEvent::Created);
    assert_eq!(
        received(&mut all, &session).await,
        (vec![created("/app/a"), created("/app/a/b")], false)
    );
    let children = ("/app".to_owned(), WatchEvent::ChildrenChanged);
    assert_eq!(received(&mut one, &session).await, (vec![children], false));
    assert_eq!(
        sim.watch_count(),
        3,
        "one that is not recursive counts twice"
    );

    sim.session(transport.session_id()).cut();
    session.delete("/app/a/b").await.unwrap();
    assert_eq!(received(&mut all, &session).await, (vec![], true));
    assert_eq!(received(&mut one, &session).await, (vec![], true));
    assert_eq!((all.next().await, one.next().await), (None, None));
    assert_eq!(sim.watch_count(), 0);

    let mut again = watch(&transport, "/app", true).await;
    session.set("/app", "").await.unwrap();
    let changed = ("/app".to_owned(), WatchEvent::DataChanged);
    assert_eq!(received(&mut again, &session).await, (vec![changed], false));
    drop(again);
    session.sync("/").await.unwrap();
    assert_eq!(sim.watch_count(), 0, "a dropped one is taken back");
}

#[tokio::test(start_paused = true)]
async fn on_3_8_a_one_shot_watch_takes_the_place_of_a_persistent_one() {
    for (release, expected) in [(Release::V3_8, 1), (Release::V3_9, 2)] {
        let sim = Ensemble::builder().release(release).build();
        let session = sim.connect().await;
        let transport = sim.connect().transport().await;
        session.create("/a", "").await.unwrap();
        let mut watching = watch(&transport, "/a", false).await;
        let get = transport.submit(Request::GetData {
            path: NodePath::parse("/a").unwrap(),
            watch: true,
        });
        let Ok(Response::Data { watch: once, .. }) = get.await.result else {
            panic!("the node is there");
        };
        session.set("/a", "1").await.unwrap();
        session.set("/a", "2").await.unwrap();
        assert_eq!(once.unwrap().await, WatchEvent::DataChanged);
        let (received, _) = received(&mut watching, &session).await;
        assert_eq!(received.len(), expected, "{release:?}");
    }
}
