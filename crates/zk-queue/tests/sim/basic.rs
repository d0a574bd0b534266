//! The six operations and the other functions of a queue, without faults.

use std::time::Duration;

use tokio::time::Instant;
use zk_core::ErrorClass;
use zk_queue::{Queue, TakeError};
use zk_sim::{Ensemble, matching};

use crate::worker::Panicking;
use crate::{PATH, all, children, data, ephemerals, pass, polled, queue, soon, text, texts};

#[tokio::test(start_paused = true)]
async fn items_come_out_in_the_order_in_which_they_were_offered() {
    let ensemble = Ensemble::new(3);
    let (producer, consumer) = (ensemble.connect().await, ensemble.connect().await);
    let offered = texts(0..20);
    for item in &offered {
        queue(&producer).offer(item).await.unwrap();
    }
    assert_eq!(children(&ensemble, PATH)[0], "qn-0000000000");
    assert_eq!(data(&ensemble, PATH), offered);
    assert_eq!(all(&queue(&consumer)).await, offered);
    assert_eq!(children(&ensemble, PATH), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn an_empty_queue_is_an_error_only_if_an_item_is_required() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let queue = queue(&session);
    for round in 0..2 {
        assert_eq!(queue.peek().await.unwrap(), None);
        assert_eq!(queue.poll().await.unwrap(), None);
        assert_eq!(queue.poll_batch(9).await.unwrap(), [""; 0]);
        assert!(queue.is_empty().await.unwrap());
        assert_eq!(queue.oldest_age().await.unwrap(), None);
        assert!(matches!(
            queue.element().await,
            Err(TakeError::Empty { .. })
        ));
        let error = queue.remove().await.unwrap_err();
        assert_eq!(error.class(), ErrorClass::Outcome);
        assert_eq!(error.to_string(), "the queue /queues/a is empty");
        let none = queue.take_timeout(Duration::from_secs(5)).await.unwrap();
        assert_eq!(none, None);
        // Without its node first, then with it.
        queue.offer(&text(round)).await.unwrap();
        assert_eq!(queue.element().await.unwrap(), text(round));
        assert_eq!(queue.remove().await.unwrap(), text(round));
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiter_gets_an_offered_item_and_does_not_poll() {
    let ensemble = Ensemble::new(3);
    let (producer, consumer) = (ensemble.connect().await, ensemble.connect().await);
    // Without the node of the queue, and with it.
    for round in 0..2 {
        let waiting = {
            let queue = queue(&consumer);
            tokio::spawn(async move { queue.take().await })
        };
        pass(Duration::from_secs(1)).await;
        let before = ensemble.request_count();
        pass(Duration::from_secs(3600)).await;
        // Except for the requests of the sessions themselves.
        let lists = ensemble.requests().into_iter().skip(before);
        let lists = lists.filter(|seen| matching::lists("**")(&seen.request));
        assert_eq!(lists.count(), 0);
        queue(&producer).offer(&text(round)).await.unwrap();
        let taken = soon("it is taken", waiting).await.unwrap().unwrap();
        assert_eq!(taken, text(round));
    }
    assert_eq!(ensemble.watch_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn every_item_goes_to_one_of_many_consumers() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let offered = texts(100..300);
    queue(&session).offer_all(&offered).await.unwrap();
    let mut consumers = Vec::new();
    for at in 0..6 {
        let session = ensemble.connect().await;
        consumers.push(tokio::spawn(async move {
            let queue = queue(&session);
            let mut taken = Vec::new();
            loop {
                let some = match at % 2 {
                    0 => queue.poll().await.unwrap().into_iter().collect(),
                    _ => queue.poll_batch(5).await.unwrap(),
                };
                if some.is_empty() {
                    return taken;
                }
                taken.extend(some);
            }
        }));
    }
    let mut taken = Vec::new();
    for consumer in consumers {
        taken.extend(soon("the queue runs empty", consumer).await.unwrap());
    }
    taken.sort();
    assert_eq!(taken, offered);
}

#[tokio::test(start_paused = true)]
async fn foreign_children_are_skipped_and_left_alone() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    session.create(PATH, "").parents().await.unwrap();
    let foreign = [
        "0",
        "lock-0000000000",
        "qn-",
        "qn-1",
        "queue-0000000000",
        "ä",
    ];
    for name in foreign {
        session
            .create(format!("{PATH}/{name}"), "no item")
            .await
            .unwrap();
    }
    let queue = queue(&session);
    assert_eq!(queue.poll().await.unwrap(), None);
    queue.offer(&text("item")).await.unwrap();
    assert_eq!(queue.peek().await.unwrap().as_deref(), Some("item"));
    assert_eq!(all(&queue).await, ["item"]);
    assert_eq!(children(&ensemble, PATH).len(), foreign.len());
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_item_stays_and_the_next_ones_are_taken() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let raw = Queue::new(&session, PATH, zk_core::codec::Raw).unwrap();
    raw.offer(&b"\xff".to_vec()).await.unwrap();
    let queue = queue(&session);
    queue.offer_all(texts([1, 2, 3])).await.unwrap();
    session
        .create(format!("{PATH}/qn-0000000001/child"), "")
        .await
        .unwrap();
    assert_eq!(queue.peek().await.unwrap().as_deref(), Some("1"));
    assert_eq!(queue.poll_batch(2).await.unwrap(), ["2"]);
    assert_eq!(all(&queue).await, ["3"]);
    assert_eq!(queue.poll().await.unwrap(), None);
    let left = children(&ensemble, PATH);
    assert_eq!(left, ["qn-0000000000", "qn-0000000001"]);
    assert_eq!(
        raw.poll().await.unwrap().as_deref(),
        Some(b"\xff".as_slice())
    );
}

#[tokio::test(start_paused = true)]
async fn a_queue_whose_node_the_server_deleted_is_created_again() {
    let ensemble = Ensemble::builder()
        .reap_every(Duration::from_millis(100))
        .build();
    let session = ensemble.connect().await;
    let queue = queue(&session);
    for round in 0..20 {
        queue.offer(&text(round)).await.unwrap();
        assert_eq!(queue.take().await.unwrap(), text(round));
        if round % 2 == 0 {
            pass(Duration::from_millis(250)).await;
            assert!(ensemble.tree().node(PATH).is_none(), "round {round}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_queue_reports_its_size_and_age_and_is_drained() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let queue = queue(&session);
    let offered = texts(1000..3500);
    queue.offer(&offered[0]).await.unwrap();
    pass(Duration::from_secs(60)).await;
    queue.offer_all(&offered[1..]).await.unwrap();
    assert_eq!(queue.len().await.unwrap(), 2500);
    let age = queue.oldest_age().await.unwrap().expect("there are items");
    assert!((60..70).contains(&age.as_secs()), "{age:?}");
    let drained = queue.drain().await;
    drained.end.unwrap();
    assert_eq!(drained.items, offered);
    assert!(queue.is_empty().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_dropped_queue_leaves_nothing_but_its_items() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let handle = queue(&session);
    handle.offer(&text(1)).await.unwrap();
    assert_eq!(ephemerals(&ensemble).len(), 1);
    drop(handle);
    soon("it settles", session.settled()).await;
    assert_eq!(ephemerals(&ensemble), [""; 0]);
    assert_eq!(data(&ensemble, PATH), ["1"]);
}

#[tokio::test(start_paused = true)]
async fn an_item_costs_one_round_trip_to_offer_and_one_to_take() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let queue = queue(&session);
    queue.offer_all(texts(0..50)).await.unwrap();
    queue.poll().await.unwrap();
    let count = |from: usize| {
        let seen = ensemble.requests().into_iter().skip(from);
        let of_ours = seen.filter(|seen| {
            matching::paths(&seen.request)
                .iter()
                .any(|path| path.as_str().starts_with("/queues"))
        });
        of_ours.count()
    };
    let (before, began) = (ensemble.requests().len(), Instant::now());
    for item in texts(0..10) {
        queue.offer(&item).await.unwrap();
    }
    assert_eq!(count(before), 10);
    let of_offers = began.elapsed();
    let (before, began) = (ensemble.requests().len(), Instant::now());
    for _ in 0..10 {
        queue.poll().await.unwrap().unwrap();
    }
    // The next eight items are read with one request while one is taken.
    assert_eq!(count(before), 11);
    assert_eq!(began.elapsed(), of_offers);
}

/// Also while the other one does not go on.
#[tokio::test(start_paused = true)]
async fn a_call_that_only_reads_takes_nothing_from_others() {
    let ensemble = Ensemble::new(1);
    let session = ensemble.connect().await;
    let queue = queue(&session);
    queue.offer(&text(1)).await.unwrap();
    assert_eq!(queue.peek().await.unwrap(), Some(text(1)));
    let mut peeking = Box::pin(queue.peek());
    assert!(polled(1, &mut peeking).await.is_none());
    let (first, second) = tokio::join!(queue.peek(), queue.peek());
    assert_eq!(
        (first.unwrap(), second.unwrap()),
        (Some(text(1)), Some(text(1)))
    );
    assert_eq!(queue.poll().await.unwrap(), Some(text(1)));
    drop(soon("it ends", peeking).await.unwrap());
    // It finds out that the item is gone.
    assert_eq!(queue.peek().await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn an_item_whose_codec_panics_is_skipped() {
    let ensemble = Ensemble::new(1);
    let session = ensemble.connect().await;
    let queue = Queue::new(&session, PATH, Panicking).unwrap();
    queue.offer_all(texts([2, 3])).await.unwrap();
    assert_eq!(queue.peek().await.unwrap(), Some(text(3)));
    assert_eq!(queue.poll().await.unwrap(), Some(text(3)));
    assert_eq!(queue.poll().await.unwrap(), None);
}
