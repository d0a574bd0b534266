//! Curator's and kazoo's queues and ours, on one path.

use zk_core::Session;
use zk_core::codec::Text;
use zk_queue::{Layout, Queue, QueueOptions};
use zk_tests::peers::{Curator, CuratorQueue, Kazoo, QueueAct};

use crate::lock::{observer, three_servers};

const PATH: &str = "/queues/shared";

fn queue(session: &Session, layout: Layout) -> Queue<String> {
    let options = QueueOptions::default().with_layout(layout);
    Queue::with_options(session, PATH, Text, &options).unwrap()
}

fn numbers(range: std::ops::Range<u32>) -> Vec<String> {
    range.map(|number| number.to_string()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn curators_simple_queue_takes_what_we_offer_and_we_what_it_offers() {
    let ensemble = three_servers().await;
    let curator = Curator::find().await.unwrap();
    let session = observer(&ensemble).await;
    let connect = ensemble.connect_string();
    let ours = queue(&session, Layout::Recipe);
    let act = |act| curator.queue(&connect, PATH, CuratorQueue::Simple, act);

    ours.offer(&"ours".to_owned()).await.unwrap();
    act(QueueAct::Offer(3)).await.unwrap();
    ours.offer_all(numbers(10..13)).await.unwrap();
    // Foreign children disturb neither.
    session.create(format!("{PATH}/foreign"), "").await.unwrap();
    assert_eq!(ours.poll().await.unwrap().as_deref(), Some("ours"));
    let taken = act(QueueAct::Take(2)).await.unwrap();
    assert_eq!(taken.items, ["0", "1"]);
    // They were taken through another server: what ours shows as taken is no refusal.
    session.sync(PATH).with_quorum().await.unwrap();
    assert_eq!(ours.poll_batch(2).await.unwrap(), ["2", "10"]);
    let taken = act(QueueAct::Take(9)).await.unwrap();
    assert_eq!(taken.items, ["11", "12"]);
    assert_eq!(ours.poll().await.unwrap(), None);
    ensemble.down().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn curators_other_queues_are_read_and_read_ours() {
    let ensemble = three_servers().await;
    let curator = Curator::find().await.unwrap();
    let session = observer(&ensemble).await;
    let connect = ensemble.connect_string();
    let act = |kind, act| curator.queue(&connect, PATH, kind, act);

    let ours = queue(&session, Layout::Curator);
    act(CuratorQueue::Distributed, QueueAct::Offer(3))
        .await
        .unwrap();
    act(CuratorQueue::Distributed, QueueAct::OfferTogether(3))
        .await
        .unwrap();
    // They were offered through another server.
    session.sync(PATH).with_quorum().await.unwrap();
    let drained = ours.drain().await;
    drained.end.unwrap();
    assert_eq!(drained.items, ["0", "1", "2", "0", "1", "2"]);
    ours.offer_all(numbers(0..4)).await.unwrap();
    let taken = act(CuratorQueue::Distributed, QueueAct::Take(4))
        .await
        .unwrap();
    let mut items = taken.items;
    // Its consumers run side by side.
    items.sort();
    assert_eq!(items, numbers(0..4));

    let ours = queue(&session, Layout::CuratorPriority);
    act(CuratorQueue::Priority, QueueAct::Offer(4))
        .await
        .unwrap();
    ours.offer(&"first".to_owned())
        .priority(-100)
        .await
        .unwrap();
    ours.offer(&"last".to_owned()).priority(7).await.unwrap();
    let drained = ours.drain().await;
    drained.end.unwrap();
    assert_eq!(drained.items, ["first", "3", "2", "1", "0", "last"]);
    for (priority, item) in [(5, "b"), (-5, "a"), (6, "c")] {
        ours.offer(&item.to_owned())
            .priority(priority)
            .await
            .unwrap();
    }
    let taken = act(CuratorQueue::Priority, QueueAct::Take(3))
        .await
        .unwrap();
    let mut items = taken.items;
    items.sort();
    assert_eq!(items, ["a", "b", "c"]);
    ensemble.down().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn kazoos_queue_takes_what_we_offer_and_we_what_it_offers() {
    let ensemble = three_servers().await;
    let kazoo = Kazoo::find().await.unwrap();
    let session = observer(&ensemble).await;
    let connect = ensemble.connect_string();
    let ours = queue(&session, Layout::Kazoo);

    ours.offer(&"last".to_owned()).priority(101).await.unwrap();
    kazoo
        .queue(&connect, PATH, QueueAct::Offer(3))
        .await
        .unwrap();
    ours.offer(&"first".to_owned()).priority(5).await.unwrap();
    ours.offer(&"middle".to_owned()).await.unwrap();
    let taken = kazoo
        .queue(&connect, PATH, QueueAct::Take(2))
        .await
        .unwrap();
    assert_eq!(taken.items, ["first", "0"]);
    let drained = ours.drain().await;
    drained.end.unwrap();
    assert_eq!(drained.items, ["1", "2", "middle", "last"]);
    ensemble.down().await.unwrap();
}
