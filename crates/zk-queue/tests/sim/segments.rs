//! Queues with more items than fit into one list.

use std::time::{Duration, SystemTime};

use zk_core::Session;
use zk_core::transport::Request;
use zk_queue::{Inspector, Layout, LayoutError, Queue, QueueOptions};
use zk_sim::{Ensemble, matching};

use crate::faults::swept;
use crate::{PATH, all, children, pass, queue_with, soon, text, texts};

const SEGMENTS: &str = "/queues/a-receipts/segments";

fn small(session: &Session, layout: Layout) -> Queue<String> {
    let options = QueueOptions::default()
        .with_segment_size(8)
        .with_layout(layout);
    queue_with(session, &options)
}

/// The largest number of items below one node.
fn longest(ensemble: &Ensemble) -> usize {
    let segments = children(ensemble, SEGMENTS).into_iter();
    let paths = segments
        .map(|name| format!("{SEGMENTS}/{name}"))
        .chain([PATH.to_owned()]);
    paths
        .map(|path| children(ensemble, &path).len())
        .max()
        .unwrap_or(0)
}

#[tokio::test(start_paused = true)]
async fn a_long_queue_continues_in_segments_and_keeps_its_order() {
    for layout in [Layout::Recipe, Layout::Native] {
        let ensemble = Ensemble::new(3);
        let (producer, consumer) = (ensemble.connect().await, ensemble.connect().await);
        let (offering, taking) = (small(&producer, layout), small(&consumer, layout));
        for round in 0..3 {
            let offered = texts(100..200);
            for item in &offered {
                offering.offer(item).await.unwrap();
            }
            assert!(
                longest(&ensemble) <= 10,
                "{layout:?}: {}",
                longest(&ensemble)
            );
            assert!(children(&ensemble, SEGMENTS).len() > 8, "{layout:?}");
            assert_eq!(taking.len().await.unwrap(), 100, "{layout:?}");
            assert_eq!(taking.peek().await.unwrap().as_deref(), Some("100"));
            assert_eq!(all(&taking).await, offered, "{layout:?}, round {round}");
            assert!(taking.is_empty().await.unwrap());
            // All segments are gone, and the next offers go to the items node again.
            assert_eq!(children(&ensemble, SEGMENTS), [""; 0], "{layout:?}");
            offering.offer(&text("last")).await.unwrap();
            assert_eq!(children(&ensemble, PATH).len(), 1, "{layout:?}");
            assert_eq!(all(&taking).await, ["last"]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn each_producers_order_is_kept_while_segments_change() {
    let ensemble = Ensemble::new(3);
    let mut producers = Vec::new();
    for at in 0..4 {
        let session = ensemble.connect().await;
        producers.push(tokio::spawn(async move {
            let queue = small(&session, Layout::Recipe);
            for item in 1000..1100 {
                queue.offer(&format!("{at} {item}")).await.unwrap();
            }
        }));
    }
    let session = ensemble.connect().await;
    let taking = tokio::spawn(async move {
        let queue = small(&session, Layout::Recipe);
        let mut taken = Vec::new();
        while taken.len() < 400 {
            taken.push(queue.take().await.unwrap());
            if taken.len() % 50 == 0 {
                // Let them get ahead.
                pass(Duration::from_millis(150)).await;
            }
        }
        taken
    });
    for producer in producers {
        soon("all is offered", producer).await.unwrap();
    }
    let taken = soon("all is taken", taking).await.unwrap();
    for at in 0..4 {
        let its: Vec<_> = taken
            .iter()
            .filter(|item| item.starts_with(&at.to_string()))
            .collect();
        assert_eq!(its.len(), 100);
        assert!(its.is_sorted(), "{its:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_urgent_item_comes_first_whatever_its_segment() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let queue = small(&session, Layout::Native);
    for item in texts(100..140) {
        queue.offer(&item).await.unwrap();
    }
    queue.offer(&text("urgent")).priority(-1).await.unwrap();
    assert_eq!(
        all(&queue).await,
        [vec![text("urgent")], texts(100..140)].concat()
    );
}

#[tokio::test(start_paused = true)]
async fn segments_change_once_whichever_reply_is_lost() {
    swept(
        async |session| {
            let queue = small(session, Layout::Recipe);
            for item in texts(10..17) {
                queue.offer(&item).await.unwrap();
            }
            drop(queue);
            soon("it settles", session.settled()).await;
        },
        async |what, ensemble, session, ()| {
            let queue = small(&session, Layout::Recipe);
            for item in texts(17..29) {
                queue.offer(&item).await.expect(what);
            }
            assert_eq!(all(&queue).await, texts(10..29), "{what}");
            assert!(longest(ensemble) <= 10, "{what}");
        },
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_deleted_segment_does_not_stop_offers() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let queue = small(&session, Layout::Recipe);
    for item in texts(10..30) {
        queue.offer(&item).await.unwrap();
    }
    session.delete(SEGMENTS).recursive().await.unwrap();
    queue.offer(&text("after")).await.unwrap();
    assert_eq!(all(&queue).await.last().map(String::as_str), Some("after"));
}

#[tokio::test(start_paused = true)]
async fn foreign_children_do_not_hide_the_items_of_later_segments() {
    for layout in [Layout::Recipe, Layout::CuratorDelay] {
        let ensemble = Ensemble::new(3);
        let session = ensemble.connect().await;
        let queue = small(&session, layout);
        for item in texts(10..30) {
            queue.offer(&item).await.unwrap();
        }
        for name in 0..9 {
            session
                .create(format!("{PATH}/foreign-{name}"), "")
                .await
                .unwrap();
        }
        assert_eq!(all(&queue).await, texts(10..30), "{layout:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiter_sees_a_segment_that_is_started_meanwhile() {
    let ensemble = Ensemble::new(3);
    let (session, other) = (ensemble.connect().await, ensemble.connect().await);
    let producer = small(&other, Layout::Recipe);
    producer.offer(&text(1)).await.unwrap();
    let waiting = tokio::spawn(async move {
        let queue = small(&session, Layout::Recipe);
        (queue.take().await, queue.take().await)
    });
    pass(Duration::from_secs(2)).await;
    assert!(!waiting.is_finished());
    other.create(SEGMENTS, "").await.unwrap();
    // In one transaction, so that no consumer finds it empty.
    let begun = other
        .transaction()
        .create(format!("{SEGMENTS}/0000000001"), "")
        .create(format!("{SEGMENTS}/0000000001/qn-0000000000"), "2")
        .set("/queues/a-receipts", "0000000001");
    begun.commit().await.unwrap();
    let (one, two) = soon("it is seen", waiting).await.unwrap();
    assert_eq!((one.unwrap(), two.unwrap()), (text(1), text(2)));
}

/// An item was put back into a segment while the items node became active again.
#[tokio::test(start_paused = true)]
async fn an_item_in_an_inactive_segment_is_found() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let queue = small(&session, Layout::Recipe);
    queue.offer(&text(1)).await.unwrap();
    session
        .create(format!("{SEGMENTS}/0000000003/qn-0000000007"), "back")
        .parents()
        .await
        .unwrap();
    assert_eq!(all(&queue).await, ["1", "back"]);
    assert_eq!(children(&ensemble, SEGMENTS), [""; 0]);
}

/// Another segment became active, which does not affect the items of this one.
#[tokio::test(start_paused = true)]
async fn a_segment_started_elsewhere_costs_a_consumer_no_list() {
    let ensemble = Ensemble::new(3);
    let (session, other) = (ensemble.connect().await, ensemble.connect().await);
    let options = QueueOptions::default().with_refresh(Duration::from_secs(3600));
    let queue = queue_with(&session, &options);
    queue.offer_all(texts(10..30)).await.unwrap();
    assert_eq!(queue.poll().await.unwrap(), Some(text(10)));
    let lists = || ensemble.arrived(matching::lists(PATH));
    let before = lists();
    for item in 11..20 {
        other.set("/queues/a-receipts", "").await.unwrap();
        assert_eq!(queue.poll().await.unwrap(), Some(text(item)));
    }
    other.set("/queues/a-receipts", "").await.unwrap();
    let batch = queue.poll_batch(5).await.unwrap();
    assert_eq!(batch, texts(20..25));
    assert_eq!(lists(), before);
    assert_eq!(all(&queue).await, texts(25..30));
}

/// Reading the age takes no item in flight.
#[tokio::test(start_paused = true)]
async fn reading_the_age_does_not_block_takes() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let queue = small(&session, Layout::Recipe);
    queue.offer_all(texts(0..3)).await.unwrap();
    let looks = || ensemble.arrived(matching::exists("/queues/a/*"));
    let before = looks();
    let mut telling = Box::pin(queue.oldest_age());
    while looks() == before {
        tokio::select! {
            biased;
            age = &mut telling => panic!("it was not to go on: {age:?}"),
            () = pass(Duration::from_micros(100)) => {}
        }
    }
    assert_eq!(queue.poll_batch(9).await.unwrap(), texts(0..3));
    queue.offer(&text("later")).await.unwrap();
    let age = soon("the loss is reported", telling).await.unwrap();
    assert!(age.is_some());
}

/// Only the first segment was listed, and its items were taken before they were read.
#[tokio::test(start_paused = true)]
async fn the_age_is_found_after_the_first_segment_is_taken() {
    let ensemble = Ensemble::new(3);
    let (session, other) = (ensemble.connect().await, ensemble.connect().await);
    let queue = small(&session, Layout::Recipe);
    for item in texts(10..30) {
        queue.offer(&item).await.unwrap();
    }
    let held = ensemble
        .on(matching::lists(PATH))
        .session(session.id())
        .hold();
    let telling = tokio::spawn(async move { queue.oldest_age().await });
    soon("the list is on its way", async {
        while held.count() == 0 {
            pass(Duration::from_millis(1)).await;
        }
    })
    .await;
    for name in children(&ensemble, PATH) {
        other.delete(format!("{PATH}/{name}")).await.unwrap();
    }
    held.release();
    let age = soon("the loss is reported", telling)
        .await
        .unwrap()
        .unwrap();
    assert!(age.is_some());
}

/// A consumer that has listed a new segment before it was activated finds it empty, and is late to remove it.
#[tokio::test(start_paused = true)]
async fn a_segment_that_was_activated_since_it_was_listed_stays() {
    let ensemble = Ensemble::new(3);
    let (one, two) = (ensemble.connect().await, ensemble.connect().await);
    let three = ensemble.connect().await;
    let offering = small(&one, Layout::Native);
    let segment = format!("{SEGMENTS}/0000000001");
    let created = ensemble.on(matching::creates(&segment));
    // The first attempt finds no parent.
    let created = created.session(one.id()).nth(2).hold();
    // All but the last one go to the items node.
    let full = tokio::spawn(async move {
        for item in texts(0..10) {
            offering.offer(&item).await.unwrap();
        }
    });
    created.happened().await;
    let listed = ensemble.on(matching::lists(&segment));
    let listed = listed.session(two.id()).nth(1).hold();
    let late = small(&two, Layout::Native);
    let late = tokio::spawn(async move { late.poll().await });
    listed.happened().await;
    created.release();
    soon("the segment is activated", full).await.unwrap();
    assert!(!children(&ensemble, &segment).is_empty());
    let taking = small(&three, Layout::Native);
    for item in texts(0..10) {
        assert_eq!(taking.poll().await.unwrap(), Some(item));
    }
    let is_removal = {
        let (alone, together) = (
            matching::deletes(&segment),
            matching::transactions(&segment),
        );
        move |request: &Request| alone(request) || together(request)
    };
    let removal = ensemble.on(is_removal).session(two.id()).nth(1).hold();
    listed.release();
    removal.happened().await;
    assert!(ensemble.tree().node(&segment).is_some());
    removal.release();
    let late = soon("the late call ends", late).await.unwrap();
    assert_eq!(late.unwrap(), None);
    let offering = small(&one, Layout::Native);
    offering.offer(&text("last")).await.unwrap();
    assert_eq!(all(&taking).await, ["last"]);
}

/// Takes the items of the items node, lets the servers delete it, and returns how many these were.
pub(crate) async fn reap_items_node(ensemble: &Ensemble, queue: &Queue<String>) -> usize {
    let mut taken = 0;
    while !children(ensemble, PATH).is_empty() {
        queue.poll().await.unwrap();
        taken += 1;
    }
    assert!(ensemble.reap() > 0);
    assert!(ensemble.tree().node(PATH).is_none());
    taken
}

/// The servers have deleted the items node, because it was empty.
#[tokio::test(start_paused = true)]
async fn a_queue_whose_items_are_all_in_segments_is_recognised() {
    let ensemble = Ensemble::new(1);
    let session = ensemble.connect().await;
    let queue = small(&session, Layout::Recipe);
    for item in texts(10..30) {
        queue.offer(&item).await.unwrap();
    }
    let taken = reap_items_node(&ensemble, &queue).await;
    let inspector = Inspector::new(&session, PATH).unwrap();
    let snapshot = inspector
        .snapshot(SystemTime::now())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        (snapshot.layout, snapshot.ready),
        (Some(Layout::Recipe), 20 - taken)
    );
    let error = small(&session, Layout::Native).check_layout().await;
    assert!(
        matches!(
            error,
            Err(LayoutError::Mismatch {
                found: Layout::Recipe,
                ..
            })
        ),
        "{error:?}"
    );
    assert!(ensemble.tree().node(PATH).is_none(), "nothing was recorded");
    small(&session, Layout::Recipe)
        .check_layout()
        .await
        .unwrap();
    assert_eq!(all(&queue).await, texts(10 + taken..30));
}
