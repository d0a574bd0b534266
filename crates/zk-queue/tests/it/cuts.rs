//! Joined offers and acknowledgements on real servers, while replies are lost and connections cut.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use zk_core::codec::Text;
use zk_fault_proxy::{Clients, Close, Match};
use zk_harness::{DataStore, Ensemble};
use zk_queue::{Delivery, WorkQueue, WorkerOptions};

use crate::{connect, soon};

const ITEMS: usize = 3_000;

#[tokio::test(flavor = "multi_thread")]
async fn joined_offers_and_acknowledgements_survive_cuts() {
    let ensemble = Ensemble::builder()
        .servers(3)
        .data(DataStore::Memory)
        .proxied(true)
        .start()
        .await
        .expect("the servers start");
    let proxy = ensemble.proxy().expect("the ensemble has a proxy");
    let (one, two) = (connect(&ensemble).await, connect(&ensemble).await);
    // Returns how many replies to transactions were lost.
    let cut = async |session: &zk_core::Session, rounds: u32| {
        let its = session.id().as_i64();
        let mut losses = 0;
        for round in 0..rounds {
            if round % 2 == 0 {
                let reply = proxy.on(Match::multi("/cuts/**").session(its));
                // The first transactions of a connection may create their tokens; later ones find them.
                let reply = reply.nth(u64::from(round) * 2 + 1).cut_on_reply();
                let lost = async {
                    while reply.count() == 0 {
                        tick().await;
                    }
                };
                // Without further transactions there is nothing to lose.
                let lost = tokio::time::timeout(Duration::from_secs(5), lost).await;
                losses += u32::from(lost.is_ok());
            } else {
                proxy.cut(Clients::Session(its), Close::Rst).await;
                tick().await;
            }
        }
        losses
    };

    let producer = WorkQueue::new(&one, "/cuts", Text).unwrap();
    let offers =
        stream::iter(0..ITEMS).map(async |number| producer.offer(&number.to_string()).await);
    let offering = async {
        let mut offers = offers.buffer_unordered(64);
        while let Some(offered) = offers.next().await {
            offered.expect("there is a connection before the deadline");
        }
    };
    let ((), losses) = soon("all are offered", async {
        tokio::join!(offering, cut(&one, 10))
    })
    .await;
    assert!(losses >= 2, "{losses} replies to offers were lost");
    assert_eq!(producer.len().await.unwrap(), ITEMS);

    let worker = WorkQueue::new(&two, "/cuts", Text).unwrap();
    let (done, again) = (
        std::cell::RefCell::new(BTreeSet::new()),
        std::cell::Cell::new(0),
    );
    let all_done = tokio::sync::Notify::new();
    let handler = async |delivery: Delivery<String>| {
        if !done.borrow_mut().insert(delivery.into_item()) {
            again.set(again.get() + 1);
        }
        if done.borrow().len() == ITEMS {
            all_done.notify_one();
        }
        Ok::<_, String>(())
    };
    let options = WorkerOptions::default().with_concurrency(64);
    let working = worker.work_until(all_done.notified(), &options, handler);
    let (stats, losses) = soon("all is done", async {
        tokio::join!(working, cut(&two, 10))
    })
    .await;
    assert!(losses >= 2, "{losses} replies to settlements were lost");
    let stats = stats.unwrap();
    assert_eq!(
        (stats.acknowledged, stats.lost, again.get()),
        (ITEMS as u64, 0, 0),
        "{stats:?}"
    );
    two.sync("/cuts").with_quorum().await.unwrap();
    assert!(worker.is_empty().await.unwrap());
    assert_eq!(worker.claims().await.unwrap(), []);
    for session in [one, two] {
        session.close().await.unwrap();
    }
    ensemble.down().await.expect("the servers go down");
}

/// Lets some requests pass.
async fn tick() {
    zk_sim::wait::pass(Duration::from_millis(20)).await;
}
