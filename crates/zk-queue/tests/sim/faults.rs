//! Every fault at every request of every operation: its effect is exactly once all the same.

use std::time::Duration;

use zk_core::Session;
use zk_core::transport::Request;
use zk_queue::TakeError;
use zk_sim::{Ensemble, Script, Scripted, matching};

use crate::{PATH, all, children, data, ephemerals, pass, queue, soon, text, texts, triggered};

pub(crate) type Inject = (&'static str, fn(Script) -> Scripted);

/// A fault of a request.
pub(crate) const FAULTS: [Inject; 5] = [
    ("request lost", Script::lose_request),
    ("reply lost", Script::lose_reply),
    ("stalled", Script::stall),
    ("stalled, then moved to a server that lags", |script| {
        script.stall_then_move(2)
    }),
    ("stalled, then moved to the leader", |script| {
        script.stall_then_move(3)
    }),
];

/// Every request about the nodes of the tests' queues.
pub(crate) fn of_queues(request: &Request) -> bool {
    let paths = matching::paths(request);
    paths
        .iter()
        .any(|path| path.as_str().starts_with("/queues"))
}

/// Runs the scenario once for each of its requests and faults; the preparation has no faults.
pub(crate) async fn swept<S>(
    prepare: impl AsyncFn(&Session) -> S,
    scenario: impl AsyncFn(&str, &Ensemble, Session, S),
) {
    for (what, inject) in FAULTS {
        for nth in 1.. {
            let ensemble = Ensemble::new(3);
            let session = ensemble.connect().server(1).await;
            let prepared = prepare(&session).await;
            let script = ensemble.on(of_queues).session(session.id()).nth(nth);
            let injected = inject(script);
            let what = format!("{what}, request {nth}");
            soon(&what, scenario(&what, &ensemble, session.clone(), prepared)).await;
            // Stalled requests arrive at last, and change nothing.
            soon(&what, session.settled()).await;
            let before = ensemble.tree().paths();
            injected.release();
            pass(Duration::from_secs(1)).await;
            assert_eq!(ensemble.tree().paths(), before, "{what}");
            soon(&what, session.close()).await.expect(&what);
            assert_eq!(ephemerals(&ensemble), [""; 0], "{what}");
            assert_eq!(ensemble.watch_count(), 0, "{what}");
            if injected.count() == 0 {
                assert!(nth > 2, "{what}: too few requests were sent");
                break;
            }
            assert!(nth < 100, "{what}: the requests do not end");
        }
    }
}

async fn nothing(_: &Session) {}

/// Three items in the queue.
async fn three(session: &Session) {
    queue(session)
        .offer_all(texts([1, 2, 3]))
        .await
        .expect("nothing is in the way yet");
    soon("it settles", session.settled()).await;
}

/// An offer is applied once, whichever reply is lost.
#[tokio::test(start_paused = true)]
async fn an_offer_is_not_duplicated_whichever_reply_is_lost() {
    swept(nothing, async |what, ensemble, session, ()| {
        let queue = queue(&session);
        queue.offer(&text(1)).await.expect(what);
        assert_eq!(data(ensemble, PATH), ["1"], "{what}");
        queue.offer(&text(2)).await.expect(what);
        queue.offer_all(texts([3, 4])).await.expect(what);
        assert_eq!(data(ensemble, PATH), ["1", "2", "3", "4"], "{what}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_take_is_exactly_once_whichever_reply_is_lost() {
    swept(three, async |what, ensemble, session, ()| {
        let queue = queue(&session);
        assert_eq!(
            queue.poll().await.expect(what).as_deref(),
            Some("1"),
            "{what}"
        );
        assert_eq!(data(ensemble, PATH), ["2", "3"], "{what}");
        assert_eq!(queue.take().await.expect(what), "2", "{what}");
        assert_eq!(queue.remove().await.expect(what), "3", "{what}");
        assert_eq!(queue.poll().await.expect(what), None, "{what}");
        assert_eq!(data(ensemble, PATH), [""; 0], "{what}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn batches_are_taken_whole_whichever_reply_is_lost() {
    swept(three, async |what, ensemble, session, ()| {
        let queue = queue(&session);
        assert_eq!(queue.poll_batch(2).await.expect(what), ["1", "2"], "{what}");
        assert_eq!(data(ensemble, PATH), ["3"], "{what}");
        let drained = queue.drain().await;
        drained.end.expect(what);
        assert_eq!(drained.items, ["3"], "{what}");
        assert_eq!(data(ensemble, PATH), [""; 0], "{what}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn peeking_changes_nothing_whichever_reply_is_lost() {
    swept(three, async |what, ensemble, session, ()| {
        let queue = queue(&session);
        assert_eq!(
            queue.peek().await.expect(what).as_deref(),
            Some("1"),
            "{what}"
        );
        assert_eq!(queue.element().await.expect(what), "1", "{what}");
        assert_eq!(queue.len().await.expect(what), 3, "{what}");
        assert!(queue.oldest_age().await.expect(what).is_some(), "{what}");
        assert_eq!(data(ensemble, PATH), ["1", "2", "3"], "{what}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_waiter_is_woken_whichever_reply_is_lost() {
    swept(nothing, async |what, ensemble, session, ()| {
        let other = ensemble.connect().server(3).await;
        let offering = tokio::spawn(async move {
            pass(Duration::from_secs(2)).await;
            queue(&other)
                .offer(&text("late"))
                .await
                .expect("there is no fault");
            other.close().await.expect("there is no fault");
        });
        assert_eq!(queue(&session).take().await.expect(what), "late", "{what}");
        offering.await.expect(what);
    })
    .await;
}

/// Other clients lose this item: the delete was applied, its reply lost, and the retry finds no node.
#[tokio::test(start_paused = true)]
async fn an_item_that_another_consumer_took_is_not_returned() {
    let ensemble = Ensemble::new(3);
    let (ours, other) = (ensemble.connect().await, ensemble.connect().await);
    three(&ours).await;
    let ours_queue = queue(&ours);
    let stalled = ensemble
        .on(matching::transactions("/queues/a/**"))
        .session(ours.id())
        .stall();
    let taking = tokio::spawn(async move { ours_queue.poll().await });
    triggered(&stalled).await;
    // While our session reconnects.
    let theirs = queue(&other).poll().await.unwrap();
    assert_eq!(theirs.as_deref(), Some("1"));
    let taken = soon("ours takes another one", taking)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(taken.as_deref(), Some("2"));
    stalled.release();
    pass(Duration::from_secs(1)).await;
    assert_eq!(all(&queue(&other)).await, ["3"]);
}

#[tokio::test(start_paused = true)]
async fn an_item_in_doubt_at_session_end_is_in_the_error() {
    for is_applied in [true, false] {
        let ensemble = Ensemble::new(3);
        let session = ensemble.connect().await;
        three(&session).await;
        let queue = queue(&session);
        queue.peek().await.unwrap();
        queue.offer(&text(4)).await.unwrap();
        let script = ensemble
            .on(matching::transactions("/queues/a/**"))
            .session(session.id());
        let script = if is_applied {
            script.lose_reply()
        } else {
            script.stall()
        };
        let taking = tokio::spawn(async move { queue.poll().await });
        triggered(&script).await;
        ensemble.expire(session.id());
        let error = soon("it ends", taking).await.unwrap().unwrap_err();
        assert_eq!(error.class(), zk_core::ErrorClass::Fatal);
        let TakeError::Unknown(unknown) = error else {
            panic!("{error:?}");
        };
        assert_eq!(unknown.items.len(), 1);
        assert_eq!(unknown.items[0].1, b"1");
        let left = if is_applied {
            vec!["2", "3", "4"]
        } else {
            vec!["1", "2", "3", "4"]
        };
        assert_eq!(data(&ensemble, PATH), left);
    }
}

#[tokio::test(start_paused = true)]
async fn a_deleted_token_is_created_again() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let queue = queue(&session);
    queue.offer(&text(1)).await.unwrap();
    for path in ephemerals(&ensemble) {
        session.delete(path).await.unwrap();
    }
    queue.offer(&text(2)).await.unwrap();
    assert_eq!(all(&queue).await, ["1", "2"]);
}

/// Since 3.6 the counter sticks, and every create gets the same number.
#[tokio::test(start_paused = true)]
async fn a_queue_whose_numbers_are_used_up_returns_an_error() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let queue = queue(&session);
    queue.offer(&text(1)).await.unwrap();
    ensemble.set_counter(PATH, i32::MAX);
    queue.offer(&text(2)).await.unwrap();
    let error = queue.offer(&text(3)).await.unwrap_err();
    assert!(
        matches!(error, zk_queue::OfferError::Exhausted { .. }),
        "{error:?}"
    );
    assert_eq!(all(&queue).await, ["1", "2"]);
}

#[tokio::test(start_paused = true)]
async fn a_number_that_a_child_has_already_is_skipped() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let queue = queue(&session);
    queue.offer(&text(1)).await.unwrap();
    session
        .create(format!("{PATH}/qn-0000000003"), "put back")
        .await
        .unwrap();
    for item in texts(2..6) {
        queue.offer(&item).await.unwrap();
    }
    let mut taken = all(&queue).await;
    taken.sort();
    assert_eq!(taken, ["1", "2", "3", "4", "5", "put back"]);
}

/// The reply arrives after the deadline of the call, which was dropped before.
#[tokio::test(start_paused = true)]
async fn a_take_dropped_before_a_late_reply_puts_its_item_back() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    three(&session).await;
    let queue = queue(&session.with_operation_timeout(Duration::from_secs(1)));
    let held = ensemble
        .on(matching::transactions("/queues/a/**"))
        .session(session.id())
        .hold();
    let taking = tokio::spawn(async move { queue.poll().await });
    pass(Duration::from_millis(100)).await;
    assert_eq!(held.count(), 1);
    taking.abort();
    assert!(soon("it is dropped", taking).await.is_err());
    pass(Duration::from_secs(3)).await;
    assert_eq!(data(&ensemble, PATH), ["2", "3"]);
    held.release();
    soon("it settles", session.settled()).await;
    assert_eq!(data(&ensemble, PATH), ["1", "2", "3"]);
}

/// The reply to the put-back is lost, and so is the token that shows its outcome, as somebody deletes it.
#[tokio::test(start_paused = true)]
async fn an_item_whose_put_back_is_in_doubt_is_not_put_back_again() {
    let pause = Duration::from_secs(1);
    let ensemble = Ensemble::builder().reconnect_after(pause).build();
    let session = ensemble.connect().await;
    let other = ensemble.connect().await;
    let theirs = queue(&other);
    theirs.offer(&text(1)).await.unwrap();
    let transactions = || {
        let script = ensemble.on(matching::transactions("/queues/a/*"));
        script.session(session.id())
    };
    let ours = queue(&session);
    let held = transactions().hold();
    let mut taking = Box::pin(ours.poll());
    tokio::select! {
        _ = &mut taking => panic!("its reply is held"),
        () = triggered(&held) => {}
    }
    drop(taking);
    let lost = transactions().lose_reply();
    held.release();
    soon("it is put back", triggered(&lost)).await;
    for token in children(&ensemble, "/queues/a-receipts") {
        let path = format!("/queues/a-receipts/{token}");
        other.delete(path).await.unwrap();
    }
    assert_eq!(theirs.poll().await.unwrap().as_deref(), Some("1"));
    soon("it settles", session.settled()).await;
    assert_eq!(data(&ensemble, PATH), [""; 0]);
}

/// A list that one task read from a lagging server is not enough for a task that began after an offer.
#[tokio::test(start_paused = true)]
async fn a_stale_list_of_another_task_does_not_mean_empty() {
    let ensemble = Ensemble::new(3);
    let (session, other) = (
        ensemble.connect().server(2).await,
        ensemble.connect().server(1).await,
    );
    let ours = queue(&session);
    ours.offer(&text(0)).await.unwrap();
    assert_eq!(all(&ours).await, ["0"]);
    ensemble.server(2).lag_for(Duration::from_secs(5));
    queue(&other).offer(&text(1)).await.unwrap();
    // The first task reads the list, the second one reads it after that, and the third one waits for both.
    let (first, second) = (ours.clone(), ours.clone());
    let first = tokio::spawn(async move { first.oldest_age().await });
    let second = tokio::spawn(async move { second.oldest_age().await });
    let third = tokio::spawn(async move { ours.poll().await });
    let polled = soon("it is answered", third).await.unwrap().unwrap();
    assert_eq!(polled.as_deref(), Some("1"));
    for age in [first, second] {
        soon("it is answered", age).await.unwrap().unwrap();
    }
}
