//! More items than a session may have watches, or than one flight of requests should have.

use std::cell::Cell;
use std::time::Duration;

use tokio::sync::Semaphore;
use zk_core::codec::Text;
use zk_queue::{WorkQueue, WorkerOptions};
use zk_sim::{Ensemble, matching};

use crate::{pass, soon, texts, triggered, work};

const ITEMS: usize = 1_000;

#[tokio::test(start_paused = true)]
async fn a_worker_has_more_in_flight_than_it_could_watch() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    // The budget for watches is in bytes of paths.
    let path = format!("/queues/{}", "long-".repeat(40));
    let queue = WorkQueue::new(&session, path.as_str(), Text).unwrap();
    queue.offer_all(texts(0..ITEMS)).await.unwrap();
    let (running, open) = (Cell::new(0), Semaphore::new(0));
    let handler = async |_| {
        running.set(running.get() + 1);
        open.acquire().await.unwrap().forget();
        running.set(running.get() - 1);
        Ok::<_, String>(())
    };
    // The worker has capacity for more, so it waits for further items meanwhile.
    let options = WorkerOptions::default().with_concurrency(ITEMS + 100);
    let stop = async {
        soon("all are being processed", async {
            while running.get() < ITEMS {
                pass(Duration::from_millis(10)).await;
            }
        })
        .await;
        // Long enough for a check of each claim.
        pass(Duration::from_secs(25)).await;
        assert_eq!(running.get(), ITEMS);
        assert!(ensemble.watch_count() < 10, "{}", ensemble.watch_count());
        open.add_permits(ITEMS);
    };
    let tally = soon("it ends", queue.work_until(stop, &options, handler)).await;
    let tally = tally.unwrap();
    assert_eq!((tally.acknowledged, tally.lost), (1_000, 0));
}

#[tokio::test(start_paused = true)]
async fn claims_and_dead_letters_are_read_some_at_a_time() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let queue = work(&session);
    queue.offer_all(texts(0..300)).await.unwrap();
    let claims = queue.claim_batch(300).await.unwrap();
    assert_eq!(claims.len(), 300);
    let read = async |pattern: &str| {
        let held = ensemble
            .on(matching::gets(pattern))
            .session(session.id())
            .hold();
        let before = ensemble.arrived(matching::gets(pattern));
        let of = queue.clone();
        let is_claims = pattern.contains("claims");
        let reading = tokio::spawn(async move {
            if is_claims {
                of.claims().await.map(|all| all.len())
            } else {
                of.dead_letters().await.map(|all| all.len())
            }
        });
        triggered(&held).await;
        pass(Duration::from_millis(50)).await;
        let at_once = ensemble.arrived(matching::gets(pattern)) - before;
        held.release();
        let count = soon("they are read", reading).await.unwrap().unwrap();
        (at_once, count)
    };
    assert_eq!(read("/queues/a/claims/*").await, (64, 300));
    for claim in claims {
        claim.bury("for a test").await.unwrap();
    }
    assert_eq!(read("/queues/a/dead/*/note").await, (64, 300));
}
