//! Queues on real servers, without faults.

use std::time::Duration;

use zk_core::codec::Text;
use zk_queue::{Layout, Queue, QueueOptions, WorkQueue, WorkerOptions};
use zk_sim::wait::until;

use crate::{connect, soon, with_servers};

fn texts(range: std::ops::Range<u32>) -> Vec<String> {
    range.map(|number| number.to_string()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_waits_delays_and_priorities_on_real_servers() {
    with_servers(3, async |ensemble| {
        let (one, other) = (connect(ensemble).await, connect(ensemble).await);
        let offering = Queue::new(&one, "/q/a", Text).unwrap();
        let taking = Queue::new(&other, "/q/a", Text).unwrap();
        let waiting = {
            let taking = taking.clone();
            tokio::spawn(async move { taking.take().await })
        };
        // Many nodes with one prefix in one transaction.
        offering.offer_all(texts(0..1200)).await.unwrap();
        let first = soon("it is taken", waiting).await.unwrap().unwrap();
        assert_eq!(first, "0");
        // The server of the other session may not have seen the last batch yet.
        other.sync("/q/a").with_quorum().await.unwrap();
        assert_eq!(taking.len().await.unwrap(), 1199);
        assert!(taking.oldest_age().await.unwrap().is_some());
        let drained = taking.drain().await;
        drained.end.unwrap();
        assert_eq!(drained.items, texts(1..1200));

        let options = QueueOptions::default().with_layout(Layout::Native);
        let offering = Queue::with_options(&one, "/q/b", Text, &options).unwrap();
        let taking = Queue::with_options(&other, "/q/b", Text, &options).unwrap();
        let began = std::time::Instant::now();
        offering
            .offer(&"late".to_owned())
            .delay(Duration::from_secs(2))
            .priority(9)
            .await
            .unwrap();
        offering
            .offer(&"second".to_owned())
            .priority(5)
            .await
            .unwrap();
        offering
            .offer(&"first".to_owned())
            .priority(-5)
            .await
            .unwrap();
        // The server of the other session may not have seen the first one yet.
        other.sync("/q/b").with_quorum().await.unwrap();
        for expected in ["first", "second", "late"] {
            assert_eq!(soon(expected, taking.take()).await.unwrap(), expected);
        }
        assert!(
            began.elapsed() >= Duration::from_millis(1990),
            "{:?}",
            began.elapsed()
        );
        for session in [one, other] {
            session.close().await.unwrap();
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_share_the_work_and_leave_nothing_behind() {
    with_servers(3, async |ensemble| {
        let mut sessions = Vec::new();
        for _ in 0..3 {
            sessions.push(connect(ensemble).await);
        }
        let queue = WorkQueue::new(&sessions[0], "/work", Text).unwrap();
        queue.offer_all(texts(0..300)).await.unwrap();
        let (end, _) = tokio::sync::watch::channel(false);
        let mut workers = Vec::new();
        for session in &sessions {
            let queue = WorkQueue::new(session, "/work", Text).unwrap();
            let mut ends = end.subscribe();
            workers.push(tokio::spawn(async move {
                let stop = async { drop(ends.wait_for(|over| *over).await) };
                let options = WorkerOptions::default().with_concurrency(4);
                let options =
                    options.with_delays(Duration::from_millis(10), Duration::from_millis(50));
                let handler = async |delivery: zk_queue::Delivery<String>| {
                    let is_odd = delivery.item().ends_with('7') && delivery.deliveries() == 1;
                    if is_odd { Err("not at first") } else { Ok(()) }
                };
                queue.work_until(stop, &options, handler).await
            }));
        }
        soon("all is done", async {
            let mut looks = tokio::time::interval(Duration::from_millis(50));
            while !queue.is_empty().await.unwrap() {
                looks.tick().await;
            }
        })
        .await;
        end.send_replace(true);
        let (mut acknowledged, mut rejected) = (0, 0);
        for worker in workers {
            let tally = soon("it ends", worker).await.unwrap().unwrap();
            acknowledged += tally.acknowledged;
            rejected += tally.rejected;
        }
        assert_eq!((acknowledged, rejected), (300, 30));
        assert_eq!(queue.claims().await.unwrap(), []);
        drop(queue);
        for session in sessions {
            session.close().await.unwrap();
        }
        for server in ensemble.servers() {
            until("the server has no watch", async || {
                server.wchs().await.is_ok_and(|wchs| wchs.watches == 0)
            })
            .await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_children_and_bad_items_are_skipped() {
    with_servers(1, async |ensemble| {
        let session = connect(ensemble).await;
        let raw = Queue::new(&session, "/q/foreign", zk_core::codec::Raw).unwrap();
        raw.offer(&b"\xff".to_vec()).await.unwrap();
        let foreign = ["0", "lock-0000000000", "qn-", "qn-1"];
        for name in foreign {
            let path = format!("/q/foreign/{name}");
            session.create(path, "no item").await.unwrap();
        }
        let queue = Queue::new(&session, "/q/foreign", Text).unwrap();
        assert_eq!(queue.poll().await.unwrap(), None);
        queue.offer(&"item".to_owned()).await.unwrap();
        assert_eq!(queue.poll().await.unwrap().as_deref(), Some("item"));
        let (left, _) = session.list("/q/foreign").await.unwrap();
        assert_eq!(left.len(), foreign.len() + 1, "{left:?}");
    })
    .await;
}
