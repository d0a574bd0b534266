//! When watches fire, and that they are removed.

use std::time::Duration;

use zk_core::WatchEvent;
use zk_sim::Ensemble;

const SOON: Duration = Duration::from_secs(1);

async fn event(watch: &mut zk_core::Watch) -> WatchEvent {
    tokio::time::timeout(SOON, watch.changed())
        .await
        .expect("waited for a watch to fire")
}

#[tokio::test(start_paused = true)]
async fn each_kind_of_watch_fires_once_for_its_change() {
    let sim = Ensemble::new(2);
    let session = sim.connect().server(1).await;
    let other = sim.connect().server(2).await;
    let (none, mut birth) = session.exists("/a").watched().await.unwrap();
    assert_eq!(none, None);
    other.create("/a", "").await.unwrap();
    assert_eq!(event(&mut birth).await, WatchEvent::Created);
    let (_, _, mut data) = session.get("/a").watched().await.unwrap();
    let (_, _, mut children) = session.list("/a").watched().await.unwrap();
    assert_eq!(sim.watch_count(), 2);
    other.set("/a", "1").await.unwrap();
    assert_eq!(event(&mut data).await, WatchEvent::DataChanged);
    other.create("/a/b", "").await.unwrap();
    assert_eq!(event(&mut children).await, WatchEvent::ChildrenChanged);
    assert_eq!(sim.watch_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_watch_fires_before_the_reply_to_a_read_of_the_change() {
    let sim = Ensemble::new(1);
    let session = sim.connect().await;
    session.create("/a", "").await.unwrap();
    let (_, _, mut watch) = session.get("/a").watched().await.unwrap();
    session.set("/a", "1").await.unwrap();
    let notified = std::future::poll_fn(|context| {
        std::task::Poll::Ready(std::pin::pin!(watch.changed()).poll(context).is_ready())
    });
    assert!(
        notified.await,
        "the own write was answered before the watch fired"
    );
}

#[tokio::test(start_paused = true)]
async fn a_watch_on_a_lagging_server_fires_when_that_server_applies_the_change() {
    let sim = Ensemble::new(2);
    let watcher = sim.connect().server(1).await;
    let writer = sim.connect().server(2).await;
    let (_, mut watch) = watcher.exists("/a").watched().await.unwrap();
    sim.server(1).lag_for(Duration::from_secs(30));
    writer.create("/a", "").await.unwrap();
    let early = tokio::time::timeout(Duration::from_secs(20), watch.changed()).await;
    assert!(early.is_err());
    let notified = tokio::time::timeout(Duration::from_secs(20), watch.changed()).await;
    assert_eq!(notified, Ok(WatchEvent::Created));
}

#[tokio::test(start_paused = true)]
async fn a_dropped_watch_is_removed_unless_another_one_needs_it() {
    let sim = Ensemble::new(1);
    let session = sim.connect().await;
    session.create("/a", "").await.unwrap();
    let (_, _, first) = session.get("/a").watched().await.unwrap();
    let (_, _, mut second) = session.get("/a").watched().await.unwrap();
    assert_eq!(sim.watch_count(), 1);
    drop(first);
    session.sync("/").await.unwrap();
    assert_eq!(sim.watch_count(), 1);
    session.set("/a", "1").await.unwrap();
    assert_eq!(event(&mut second).await, WatchEvent::DataChanged);
    let (_, _, third) = session.get("/a").watched().await.unwrap();
    drop(third);
    session.sync("/").await.unwrap();
    assert_eq!(sim.watch_count(), 0);
}

/// As in the client crate: the reply to a request in flight that asks for a watch decides whether the server's watch is
/// removed.
#[tokio::test(start_paused = true)]
async fn a_dropped_watch_is_kept_for_a_request_in_flight() {
    let latency = Duration::from_millis(10);
    let sim = Ensemble::builder().servers(1).latency(latency).build();
    let session = sim.connect().await;
    session.create("/a", "").await.unwrap();
    for path in ["/a", "/missing"] {
        let (_, watch) = session.exists(path).watched().await.unwrap();
        let reading = session.get(path).watched().into_future();
        let mut reading = tokio::spawn(reading);
        // The request has arrived, and its reply has not.
        let replied = tokio::time::timeout(latency * 3 / 2, &mut reading).await;
        assert!(replied.is_err(), "{path}");
        drop(watch);
        let read = reading.await.unwrap();
        session.sync("/").await.unwrap();
        session.sync("/").await.unwrap();
        let Ok((_, _, mut kept)) = read else {
            assert_eq!(sim.watch_count(), 0, "no request asks for it any more");
            continue;
        };
        session.set(path, "1").await.unwrap();
        assert_eq!(event(&mut kept).await, WatchEvent::DataChanged);
    }
}

/// As in the client crate: a request in flight that asks for a watch of another kind delays nothing.
#[tokio::test(start_paused = true)]
async fn a_dropped_watch_waits_for_no_request_of_another_kind() {
    let latency = Duration::from_millis(10);
    let sim = Ensemble::builder().servers(1).latency(latency).build();
    let session = sim.connect().await;
    session.create("/a", "").await.unwrap();
    let (_, _, watch) = session.get("/a").watched().await.unwrap();
    let list = session.list("/a").watched().into_future();
    let mut list = tokio::spawn(list);
    let replied = tokio::time::timeout(latency * 3 / 2, &mut list).await;
    assert!(replied.is_err(), "its reply is on the way");
    drop(watch);
    let (_, _, children) = list.await.unwrap().unwrap();
    session.sync("/").await.unwrap();
    assert_eq!(sim.watch_count(), 1, "the watch on the data is removed");
    drop(children);
    session.sync("/").await.unwrap();
    assert_eq!(sim.watch_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_reply_to_a_dropped_future_leaves_no_watch() {
    let sim = Ensemble::new(1);
    let session = sim.connect().await;
    {
        let mut read = std::pin::pin!(session.exists("/a").watched().into_future());
        let polled =
            std::future::poll_fn(|context| std::task::Poll::Ready(read.as_mut().poll(context)));
        assert!(polled.await.is_pending());
    }
    session.sync("/").await.unwrap();
    session.sync("/").await.unwrap();
    assert_eq!(sim.watch_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn watches_move_to_another_server_and_report_missed_events() {
    let sim = Ensemble::new(2);
    let session = sim.connect().server(1).await;
    let other = sim.connect().server(2).await;
    session.create("/kept", "").await.unwrap();
    session.create("/gone", "").await.unwrap();
    session.create("/changed", "").await.unwrap();
    let (_, _, mut kept) = session.get("/kept").watched().await.unwrap();
    let (_, _, mut gone) = session.get("/gone").watched().await.unwrap();
    let (_, _, mut changed) = session.get("/changed").watched().await.unwrap();
    let (_, _, mut parent) = session.list("/kept").watched().await.unwrap();
    let (_, mut born) = session.exists("/born").watched().await.unwrap();
    sim.session(session.id())
        .cut_for(Duration::from_millis(500));
    other.delete("/gone").await.unwrap();
    other.set("/changed", "1").await.unwrap();
    other.create("/kept/x", "").await.unwrap();
    other.create("/born", "").await.unwrap();
    assert_eq!(event(&mut gone).await, WatchEvent::Deleted);
    assert_eq!(event(&mut changed).await, WatchEvent::DataChanged);
    assert_eq!(event(&mut parent).await, WatchEvent::ChildrenChanged);
    assert_eq!(event(&mut born).await, WatchEvent::Created);
    assert_eq!(sim.session(session.id()).server(), Some(2));
    assert_eq!(
        (sim.server(1).watch_count(), sim.server(2).watch_count()),
        (0, 1)
    );
    other.set("/kept", "1").await.unwrap();
    assert_eq!(event(&mut kept).await, WatchEvent::DataChanged);
}
