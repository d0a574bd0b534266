//! Lost requests, lost replies and lagging servers.

use std::time::Duration;

use zk_core::{ErrorClass, Session};
use zk_lock::{AcquireError, ReleaseError};
use zk_sim::{Ensemble, Script, Scripted, matching};

use crate::{OURS, PATH, held_and_waited_for, left, lock, pass, soon};

/// Creates the path of the lock, so that the next create does not fail for a missing parent.
async fn make_path(session: &Session) {
    let guard = lock(session).acquire().await.expect("the lock is free");
    guard.release().await.expect("it is released");
}

pub(crate) type Strike = (&'static str, fn(Script) -> Scripted);

/// The faults of a request.
pub(crate) const STRIKES: [Strike; 5] = [
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

#[tokio::test(start_paused = true)]
async fn a_lost_reply_to_the_create_makes_no_second_node() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    make_path(&session).await;
    let lost = ensemble.on(matching::creates(OURS)).lose_reply();
    let guard = soon("the lock is granted", lock(&session).acquire())
        .await
        .unwrap();
    assert_eq!((lost.count(), left(&ensemble).len()), (1, 1));
    assert!(guard.is_valid());
    guard.release().await.unwrap();
    assert!(left(&ensemble).is_empty());
}

/// The create is in flight to the leader when the connection breaks. The client reconnects to a lagging
/// server, finds nothing, creates a second node and waits for its own first one forever.
#[tokio::test(start_paused = true)]
async fn a_server_that_lags_does_not_make_us_wait_for_our_own_node() {
    for to in 1..=3 {
        let ensemble = Ensemble::new(3);
        let session = ensemble.connect().server(1).await;
        make_path(&session).await;
        let stalled = ensemble.on(matching::creates(OURS)).stall_then_move(to);
        let guard = soon("the lock is granted", lock(&session).acquire())
            .await
            .unwrap();
        assert_eq!((stalled.count(), left(&ensemble).len()), (1, 1));
        guard.release().await.unwrap();
        soon("nothing is left to do", session.settled()).await;
        assert!(left(&ensemble).is_empty());
    }
}

/// The same for an acquire that is dropped meanwhile: it leaves no node that everybody would wait for.
#[tokio::test(start_paused = true)]
async fn a_dropped_acquire_leaves_no_node_that_is_committed_later() {
    for to in 1..=3 {
        let ensemble = Ensemble::new(3);
        let session = ensemble.connect().server(1).await;
        let other = ensemble.connect().server(1).await;
        make_path(&session).await;
        let stalled = ensemble.on(matching::creates(OURS)).stall_then_move(to);
        let lock = lock(&session);
        tokio::select! {
            biased;
            () = stalled.happened() => {}
            granted = lock.acquire() => panic!("moved to {to}: {granted:?}"),
        }
        soon("nothing is left to do", session.settled()).await;
        pass(Duration::from_secs(1)).await;
        assert!(left(&ensemble).is_empty(), "moved to {to}");
        let granted = soon("it is free", crate::lock(&other).acquire()).await;
        granted.unwrap().release().await.unwrap();
    }
}

/// Each request of acquires and releases is hit by each fault, one at a time.
#[tokio::test(start_paused = true)]
async fn a_fault_at_any_request_leaves_no_node() {
    for (name, strike) in STRIKES {
        for nth in 1.. {
            let ensemble = Ensemble::new(3);
            let session = ensemble.connect().server(1).await;
            let others = ensemble.connect().server(3).await;
            let struck = strike(
                ensemble
                    .on(matching::anything())
                    .session(session.id())
                    .nth(nth),
            );
            let what = format!("{name}, request {nth}");

            // Free, then taken and tried for, then taken and waited for.
            let guard = soon(&what, lock(&session).acquire()).await.expect(&what);
            soon(&what, guard.release()).await.expect(&what);
            let (held, waiting) = held_and_waited_for(&others, &session).await;
            let tried = soon(&what, lock(&session).try_acquire())
                .await
                .expect(&what);
            assert!(tried.is_none(), "{what}");
            let token = held.fencing_token();
            held.release().await.unwrap();
            let guard = soon(&what, waiting).await.unwrap().expect(&what);
            assert!(guard.is_valid() && guard.fencing_token() > token, "{what}");
            assert_eq!(left(&ensemble).len(), 1, "{what}");
            pass(Duration::from_millis(50)).await;
            soon(&what, guard.release()).await.expect(&what);

            struck.release();
            soon(&what, session.settled()).await;
            assert_eq!(left(&ensemble), [""; 0], "{what}");
            if struck.count() == 0 {
                assert!(nth > 10, "{what}");
                break;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_race_is_cleaned_up_after_the_link_is_back() {
    let ensemble = Ensemble::new(3);
    let (holder, session) = (ensemble.connect().await, ensemble.connect().await);
    let session = session.with_operation_timeout(Duration::from_secs(2));
    let cut = ensemble
        .on(matching::deletes(OURS))
        .session(session.id())
        .lose_request();
    // The lock is free when it is read, and taken when the try joins the queue.
    let read = ensemble.on(matching::lists(PATH)).session(session.id());
    let read = read.hold();
    let racing = lock(&session);
    let racing = tokio::spawn(async move { racing.try_acquire().await });
    soon("the lock is read", read.happened()).await;
    let guard = lock(&holder).acquire().await.unwrap();
    read.release();
    soon("the clean-up is struck", cut.happened()).await;
    ensemble.session(session.id()).partition();
    let tried = soon("the try ends", racing).await.unwrap();
    assert!(tried.unwrap().is_none());
    assert_eq!(left(&ensemble).len(), 2);
    ensemble.session(session.id()).heal();
    soon("the clean-up continues", session.settled()).await;
    assert_eq!(left(&ensemble), [guard.path().name().unwrap()]);
}

#[tokio::test(start_paused = true)]
async fn a_release_without_a_reply_continues_in_the_background() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let session = session.with_operation_timeout(Duration::from_secs(1));
    let guard = lock(&session).acquire().await.unwrap();
    ensemble.session(session.id()).partition();
    let error = soon("the release gives up", guard.release())
        .await
        .unwrap_err();
    assert!(matches!(error, ReleaseError::Pending { .. }), "{error:?}");
    assert_eq!(error.class(), ErrorClass::Recoverable);
    assert_eq!(left(&ensemble).len(), 1);
    ensemble.session(session.id()).heal();
    soon("the release continues", session.settled()).await;
    assert!(left(&ensemble).is_empty());
}

/// The waiter has been woken and cannot list the queue.
#[tokio::test(start_paused = true)]
async fn a_waiter_cut_off_while_it_lists_keeps_its_place() {
    let ensemble = Ensemble::new(3);
    let (holder, waiter) = (ensemble.connect().await, ensemble.connect().await);
    let waiter = waiter.with_operation_timeout(Duration::from_millis(200));
    let (held, between) = held_and_waited_for(&holder, &ensemble.connect().await).await;
    let third = lock(&waiter);
    let waiting = tokio::spawn(async move { third.acquire().await });
    pass(Duration::from_millis(100)).await;
    let list = ensemble
        .on(matching::lists(PATH))
        .session(waiter.id())
        .lose_request();
    held.release().await.unwrap();
    soon("the waiter is woken", list.happened()).await;
    drop(soon("the one between is granted the lock", between).await);
    ensemble.session(waiter.id()).partition();
    pass(Duration::from_secs(4)).await;
    assert!(!waiting.is_finished());
    ensemble.session(waiter.id()).heal();
    let guard = soon("the waiter is granted the lock", waiting)
        .await
        .unwrap()
        .unwrap();
    assert!(guard.is_valid());
}

#[tokio::test(start_paused = true)]
async fn a_waiter_keeps_its_place_while_it_is_cut_off() {
    let ensemble = Ensemble::new(3);
    let (holder, waiter) = (ensemble.connect().await, ensemble.connect().await);
    let waiter = waiter.with_operation_timeout(Duration::from_millis(200));
    let (held, waiting) = held_and_waited_for(&holder, &waiter).await;
    let queue = left(&ensemble);
    ensemble.session(waiter.id()).partition();
    pass(Duration::from_secs(1)).await;
    held.release().await.unwrap();
    // Many times the limit of one call.
    pass(Duration::from_secs(4)).await;
    assert!(!waiting.is_finished());
    ensemble.session(waiter.id()).heal();
    let guard = soon("the waiter is granted the lock", waiting)
        .await
        .unwrap()
        .unwrap();
    assert!(guard.is_valid());
    assert!(queue.contains(&guard.path().name().unwrap().to_owned()));
}

#[tokio::test(start_paused = true)]
async fn an_acquire_without_a_connection_fails_in_time() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let session = session.with_operation_timeout(Duration::from_secs(2));
    ensemble.session(session.id()).partition();
    let started = tokio::time::Instant::now();
    let error = lock(&session)
        .acquire_timeout(Duration::from_secs(1))
        .await
        .unwrap_err();
    assert_eq!(started.elapsed(), Duration::from_secs(1));
    assert_eq!(
        error.to_string(),
        "/locks/a not acquired within 1s: the ensemble did not reply in time"
    );
    let error = lock(&session).acquire().await.unwrap_err();
    assert!(matches!(error, AcquireError::Failed(_)), "{error:?}");
    assert_eq!(error.class(), ErrorClass::Recoverable);
    ensemble.session(session.id()).heal();
    soon("nothing is left to do", session.settled()).await;
    pass(Duration::from_secs(1)).await;
    assert!(left(&ensemble).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_parent_that_vanishes_repeatedly_is_created_again() {
    let ensemble = Ensemble::builder()
        .servers(3)
        .reap_every(Duration::from_millis(3))
        .build();
    let session = ensemble.connect().await;
    let mut last = None;
    for round in 0..300 {
        let guard = soon("the lock is granted", lock(&session).acquire())
            .await
            .unwrap();
        assert!(Some(guard.fencing_token()) > last, "round {round}");
        last = Some(guard.fencing_token());
        guard.release().await.unwrap();
        pass(Duration::from_micros(170 * (round % 23))).await;
    }
    // Also between the create of the parents and that of the node.
    let creates = ensemble.on(matching::creates(OURS)).every().hold();
    let second = lock(&session);
    let acquiring = tokio::spawn(async move { second.acquire().await });
    soon("the create is held", creates.happened()).await;
    creates.release();
    soon("the lock is granted", acquiring)
        .await
        .unwrap()
        .unwrap()
        .release()
        .await
        .unwrap();
}
