//! Several consumers of one queue, in several processes or in one.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Barrier;
use tokio::task::JoinSet;
use zk_core::Session;
use zk_core::transport::Request;
use zk_sim::{Ensemble, matching};

use crate::{PATH, pass, queue, soon, text, texts, work};

const CONSUMERS: usize = 8;
const ITEMS: usize = 2_000;

/// Takes items until there is none, and returns their number.
async fn consume(session: Session, kind: &str) -> usize {
    let (queue, work) = (queue(&session), work(&session));
    let mut count = 0;
    loop {
        let some = match kind {
            "poll" => usize::from(queue.poll().await.unwrap().is_some()),
            "batch" => queue.poll_batch(5).await.unwrap().len(),
            _ => match work.try_claim().await.unwrap() {
                Some(claim) => {
                    claim.acknowledge().await.unwrap();
                    1
                }
                None => 0,
            },
        };
        count += some;
        if some == 0 {
            return count;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn none_of_eight_equal_consumers_starves() {
    for kind in ["poll", "batch", "claim"] {
        let ensemble = Ensemble::new(3);
        let session = ensemble.connect().await;
        let offered = match kind {
            "claim" => work(&session).offer_all(texts(0..ITEMS)).await,
            _ => queue(&session).offer_all(texts(0..ITEMS)).await,
        };
        offered.unwrap();
        let start = Arc::new(Barrier::new(CONSUMERS));
        let mut consumers = JoinSet::new();
        for _ in 0..CONSUMERS {
            let session = ensemble.connect().await;
            let start = Arc::clone(&start);
            consumers.spawn(async move {
                start.wait().await;
                consume(session, kind).await
            });
        }
        let sent = || ensemble.arrived(|request| matches!(request, Request::Multi(_)));
        let read = || {
            ensemble.arrived(matching::gets("**")) + ensemble.arrived(matching::multi_reads("**"))
        };
        let (sent_before, read_before) = (sent(), read());
        let counts = soon("all is taken", consumers.join_all()).await;
        let (sent, read) = (sent() - sent_before, read() - read_before);
        let (all, least) = (counts.iter().sum::<usize>(), counts.iter().min());
        assert_eq!(all, ITEMS, "{kind}: {counts:?}");
        // Each has a tenth of its share at least.
        let least = least.copied().unwrap_or(0);
        assert!(least >= ITEMS / CONSUMERS / 10, "{kind}: {counts:?}");
        // Few are refused, because each consumer has a partition of its own most of the time. Batches end with it.
        // What others have taken is seen, eight items with one read.
        let (most_sent, most_read) = match kind {
            "poll" => (ITEMS * 5 / 4, ITEMS * 13 / 10),
            "batch" => (ITEMS * 2 / 5, ITEMS * 2),
            _ => (2 * ITEMS * 5 / 4, ITEMS * 3 / 2),
        };
        println!("{kind}: {sent} transactions and {read} reads for {ITEMS} items");
        assert!(
            sent <= most_sent,
            "{kind}: {sent} transactions, and not {most_sent}"
        );
        assert!(
            read <= most_read,
            "{kind}: {read} reads, and not {most_read}"
        );
    }
}

/// The consumers of one process share a list.
#[tokio::test(start_paused = true)]
async fn sixty_four_waiters_of_a_process_list_once_per_change() {
    for is_work in [false, true] {
        let ensemble = Ensemble::new(3);
        let (one, two) = (ensemble.connect().await, ensemble.connect().await);
        let (queue, producer) = (queue(&one), queue(&two));
        let (jobs, boss) = (work(&one), work(&two));
        let mut waiting = JoinSet::new();
        for _ in 0..64 {
            let (queue, jobs) = (queue.clone(), jobs.clone());
            waiting.spawn(async move {
                if is_work {
                    let claim = jobs.claim().await.unwrap();
                    let item = claim.item().clone();
                    claim.acknowledge().await.unwrap();
                    item
                } else {
                    queue.take().await.unwrap()
                }
            });
        }
        pass(Duration::from_secs(5)).await;
        let path = if is_work { "/queues/a/items" } else { PATH };
        let lists = || ensemble.arrived(matching::lists(path));
        for item in 0..3 {
            let before = lists();
            if is_work {
                boss.offer(&text(item)).await.unwrap();
            } else {
                producer.offer(&text(item)).await.unwrap();
            }
            let taken = soon("it is taken", waiting.join_next()).await;
            assert_eq!(taken.unwrap().unwrap(), text(item));
            pass(Duration::from_secs(5)).await;
            let listed = lists() - before;
            // The item comes, is claimed and goes; each is seen with and without a watch.
            assert!(listed <= 12, "{listed} lists, work: {is_work}");
        }
        let rest = texts(3..64);
        if is_work {
            boss.offer_all(&rest).await.unwrap();
        } else {
            producer.offer_all(&rest).await.unwrap();
        }
        let taken = soon("all are taken", waiting.join_all()).await;
        assert_eq!(taken.len(), 61);
        drop((queue, jobs));
        soon("it settles", one.settled()).await;
        assert_eq!(ensemble.watch_count(), 0);
    }
}

/// Dropping a waiter does not affect the others.
#[tokio::test(start_paused = true)]
async fn dropping_one_waiter_does_not_affect_those_that_share_it() {
    let ensemble = Ensemble::new(3);
    let (one, two) = (ensemble.connect().await, ensemble.connect().await);
    let queue = queue(&one);
    let mut waiting = Vec::new();
    for _ in 0..8 {
        let queue = queue.clone();
        waiting.push(tokio::spawn(async move { queue.take().await }));
        pass(Duration::from_millis(100)).await;
    }
    // The waiter that has read the list is dropped first; another one is never polled again.
    let last = waiting.pop().unwrap();
    let mut held = Box::pin(queue.take());
    tokio::select! {
        biased;
        taken = &mut held => panic!("there is nothing: {taken:?}"),
        () = pass(Duration::from_secs(1)) => {}
    }
    for other in waiting {
        other.abort();
        pass(Duration::from_millis(100)).await;
    }
    crate::queue(&two).offer(&text(1)).await.unwrap();
    let taken = soon("it is taken", last).await.unwrap().unwrap();
    assert_eq!(taken, "1");
    drop(held);
    drop(queue);
    soon("it settles", one.settled()).await;
    assert_eq!(ensemble.watch_count(), 0);
}

/// The items of the batch were read ahead: only the servers' refusals show that they are gone.
#[tokio::test(start_paused = true)]
async fn a_batch_that_another_consumer_took_is_one_refusal() {
    for others in 1..4 {
        let ensemble = Ensemble::new(3);
        let (ours, theirs) = (
            queue(&ensemble.connect().await),
            queue(&ensemble.connect().await),
        );
        ours.offer_all(texts(0..30)).await.unwrap();
        assert_eq!(ours.poll().await.unwrap(), Some(text(0)));
        let taken = theirs.poll_batch(others).await.unwrap();
        assert_eq!(taken, texts(1..=others));
        let rest = ours.poll_batch(others).await.unwrap();
        assert_eq!(rest, texts(others + 1..=2 * others), "after {others}");
    }
}
