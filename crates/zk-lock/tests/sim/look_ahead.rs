//! Look-ahead: waiters that know before their turn that they are next.

use std::time::Duration;

use tokio::task::JoinHandle;
use zk_core::Session;
use zk_lock::{AcquireError, Guard};
use zk_sim::{Ensemble, matching};

use crate::{PATH, held_and_waited_for, left, lock, pass, soon};

type Waiting = JoinHandle<Result<Guard, AcquireError>>;

/// A waiter that is in the queue when this returns.
async fn enqueued(session: &Session) -> Waiting {
    let lock = lock(session);
    let waiting = tokio::spawn(async move { lock.acquire().await });
    pass(Duration::from_millis(100)).await;
    waiting
}

async fn granted(waiting: Waiting) -> Guard {
    let granted = soon("the waiter is granted the lock", waiting).await;
    granted.unwrap().unwrap()
}

async fn nothing_is_left(ensemble: &Ensemble) {
    pass(Duration::from_secs(3)).await;
    assert_eq!(left(ensemble), [""; 0]);
    assert_eq!(ensemble.watch_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_next_one_takes_over_without_asking_anything() {
    let ensemble = Ensemble::new(3);
    let (one, other) = (ensemble.connect().await, ensemble.connect().await);
    let (held, waiting) = held_and_waited_for(&one, &other).await;
    // No request of it would be answered.
    let asked = ensemble.on(matching::lists(PATH)).session(other.id());
    let asked = asked.every().hold();
    held.release().await.unwrap();
    let guard = granted(waiting).await;
    assert_eq!(asked.count(), 0);
    assert!(guard.is_valid());
    guard.release().await.unwrap();
    nothing_is_left(&ensemble).await;
}

/// The list that tells a waiter that it is next comes later than the deletion that makes it the first.
#[tokio::test(start_paused = true)]
async fn a_list_that_is_older_than_the_grant_does_no_harm() {
    let ensemble = Ensemble::new(3);
    let (one, other) = (ensemble.connect().await, ensemble.connect().await);
    let third = ensemble.connect().server(2).await;
    let (held, next) = held_and_waited_for(&one, &other).await;
    let waiting = enqueued(&third).await;
    let list = ensemble.on(matching::lists(PATH)).session(third.id());
    let list = list.hold();
    held.release().await.unwrap();
    let guard = granted(next).await;
    soon("the third one lists", list.happened()).await;
    guard.release().await.unwrap();
    pass(Duration::from_secs(1)).await;
    list.release();
    granted(waiting).await.release().await.unwrap();
    nothing_is_left(&ensemble).await;
}

/// The predecessor leaves after the list and before it is watched.
#[tokio::test(start_paused = true)]
async fn a_predecessor_that_is_gone_before_it_is_watched_costs_no_list() {
    let ensemble = Ensemble::new(3);
    let (one, other) = (ensemble.connect().await, ensemble.connect().await);
    let held = lock(&one).acquire().await.unwrap();
    let lists = ensemble.on(matching::lists(PATH)).session(other.id());
    let first = lists.hold();
    let waiting = enqueued(&other).await;
    soon("it lists", first.happened()).await;
    held.release().await.unwrap();
    let more = ensemble.on(matching::lists(PATH)).session(other.id());
    let more = more.every().hold();
    first.release();
    let guard = granted(waiting).await;
    assert_eq!(more.count(), 0);
    assert!(guard.is_valid());
    guard.release().await.unwrap();
    nothing_is_left(&ensemble).await;
}

/// However long it waited: it proves its session alive while it is the next one.
#[tokio::test(start_paused = true)]
async fn the_next_one_takes_over_without_a_commit_after_an_hour() {
    let ensemble = Ensemble::new(3);
    let (one, other) = (ensemble.connect().await, ensemble.connect().await);
    let (held, waiting) = held_and_waited_for(&one, &other).await;
    pass(Duration::from_secs(3600)).await;
    let asked = ensemble.on(matching::anything()).session(other.id());
    let asked = asked.every().hold();
    held.release().await.unwrap();
    let guard = tokio::time::timeout(Duration::from_millis(20), waiting).await;
    let guard = guard.expect("it needs no reply").unwrap().unwrap();
    assert!(guard.is_valid());
    asked.release();
    guard.release().await.unwrap();
    nothing_is_left(&ensemble).await;
}

/// It had its own node watched before its connection broke, and became the next one later.
#[tokio::test(start_paused = true)]
async fn the_next_one_watches_its_node_again_after_its_connection_broke() {
    let ensemble = Ensemble::new(3);
    let [one, other, third, last] = [
        ensemble.connect().await,
        ensemble.connect().await,
        ensemble.connect().await,
        ensemble.connect().await,
    ];
    let (held, next) = held_and_waited_for(&one, &other).await;
    let gives_up = enqueued(&third).await;
    let waiting = enqueued(&last).await;
    gives_up.abort();
    pass(Duration::from_millis(100)).await;
    let link = ensemble.session(last.id());
    link.cut_for(Duration::from_millis(20));
    pass(Duration::from_secs(1)).await;
    held.release().await.unwrap();
    let guard = granted(next).await;
    pass(Duration::from_millis(100)).await;
    let asked = ensemble.on(matching::lists(PATH)).session(last.id());
    let asked = asked.every().hold();
    guard.release().await.unwrap();
    granted(waiting).await.release().await.unwrap();
    assert_eq!(asked.count(), 0);
    nothing_is_left(&ensemble).await;
}

/// Calls `each` with every order of the numbers below `count`.
fn orders(count: usize) -> Vec<Vec<usize>> {
    let mut all = vec![vec![]];
    for next in 0..count {
        all = all
            .into_iter()
            .flat_map(|order: Vec<usize>| {
                (0..=order.len()).map(move |at| {
                    let mut order = order.clone();
                    order.insert(at, next);
                    order
                })
            })
            .collect();
    }
    all
}

/// The holder and the waiters ahead of the last one leave in every order, alone or two at once: only then is it
/// granted.
#[tokio::test(start_paused = true)]
async fn the_last_waiter_is_granted_in_any_order_of_departures() {
    for order in orders(4) {
        for pairs in [false, true] {
            for besides in [Besides::Nothing, Besides::CutBefore, Besides::CutAfter] {
                let what = format!("{order:?}, pairs: {pairs}, {besides:?}");
                let ensemble = Ensemble::new(3);
                let mut sessions = Vec::new();
                for _ in 0..5 {
                    sessions.push(ensemble.connect().await);
                }
                let held = lock(&sessions[0]).acquire().await.unwrap();
                let mut before = vec![None];
                for session in &sessions[1..4] {
                    before.push(Some(enqueued(session).await));
                }
                let mut held = Some(held);
                let waiting = enqueued(&sessions[4]).await;
                let link = ensemble.session(sessions[4].id());
                for (at, going) in order.iter().enumerate() {
                    if besides == Besides::CutBefore {
                        link.cut_for(Duration::from_millis(20));
                    }
                    assert!(!waiting.is_finished(), "{what}");
                    match before[*going].take() {
                        Some(waiter) => {
                            // It may hold the lock by now; then its guard is dropped with it.
                            waiter.abort();
                            drop(waiter);
                        }
                        None => drop(held.take()),
                    }
                    if besides == Besides::CutAfter {
                        pass(Duration::from_micros(900)).await;
                        link.cut_for(Duration::from_millis(20));
                    }
                    if !pairs || at % 2 == 1 {
                        pass(Duration::from_millis(100)).await;
                    }
                }
                let guard = granted(waiting).await;
                assert!(guard.is_valid(), "{what}");
                assert_eq!(left(&ensemble), [guard.path().name().unwrap()], "{what}");
                guard.release().await.unwrap();
                nothing_is_left(&ensemble).await;
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Besides {
    Nothing,
    CutBefore,
    CutAfter,
}

/// Curator's read/write lock: the reader's node has the number of the writer's, and is created before the writer's is
/// deleted (CURATOR-621).
#[tokio::test(start_paused = true)]
async fn a_writer_that_becomes_a_reader_is_waited_for_in_both_shapes() {
    let ensemble = Ensemble::new(3);
    let (writer, other) = (ensemble.connect().await, ensemble.connect().await);
    writer.create(PATH, "").parents().await.unwrap();
    let first = format!("{PATH}/_c_a-__WRIT__0000000000");
    let second = format!("{PATH}/_c_b-__READ__0000000000");
    writer.create(&first, "").ephemeral().await.unwrap();
    ensemble.set_counter(PATH, 1);
    let waiting = enqueued(&other).await;
    writer.create(&second, "").ephemeral().await.unwrap();
    writer.delete(&first).await.unwrap();
    pass(Duration::from_secs(5)).await;
    assert!(!waiting.is_finished(), "the reader holds the lock");
    writer.delete(&second).await.unwrap();
    granted(waiting).await.release().await.unwrap();
    nothing_is_left(&ensemble).await;
}

/// An operator deletes the node of the next in line, which would not read it any more.
#[tokio::test(start_paused = true)]
async fn the_next_in_line_notices_its_deletion_at_once() {
    for wait in [0, 1, 5, 20] {
        let ensemble = Ensemble::new(3);
        let (one, other) = (ensemble.connect().await, ensemble.connect().await);
        let (held, waiting) = held_and_waited_for(&one, &other).await;
        pass(Duration::from_secs(wait)).await;
        let queue = left(&ensemble);
        let theirs = queue
            .iter()
            .find(|name| Some(name.as_str()) != held.path().name());
        let path = format!("{PATH}/{}", theirs.unwrap());
        one.set(&path, "somebody writes to it before")
            .await
            .unwrap();
        pass(Duration::from_millis(100)).await;
        let started = tokio::time::Instant::now();
        one.delete(&path).await.unwrap();
        let error = soon("the waiter is notified", waiting)
            .await
            .unwrap()
            .unwrap_err();
        assert!(
            matches!(&error, AcquireError::NodeDeleted { path: lost } if lost.as_str() == path),
            "{error:?}"
        );
        assert!(
            started.elapsed() < Duration::from_millis(50),
            "{:?}",
            started.elapsed()
        );
        held.release().await.unwrap();
        nothing_is_left(&ensemble).await;
    }
}

/// An operator deletes the queue within a few milliseconds, the waiter first: the last deletion that the waiter sees is
/// no grant.
#[tokio::test(start_paused = true)]
async fn a_waiter_deleted_before_its_predecessor_is_granted_nothing() {
    for apart in 0..40 {
        let ensemble = Ensemble::new(3);
        let (one, other) = (ensemble.connect().await, ensemble.connect().await);
        let admin = ensemble.connect().await;
        let held = lock(&one).acquire().await.unwrap();
        let contender = lock(&other);
        let waiting = tokio::spawn(async move { contender.acquire().await });
        soon("it joins the queue", async {
            while left(&ensemble).len() < 2 {
                pass(Duration::from_micros(100)).await;
            }
        })
        .await;
        pass(Duration::from_micros(500 * apart)).await;
        let queue = left(&ensemble);
        let theirs = queue
            .iter()
            .find(|name| Some(name.as_str()) != held.path().name());
        admin
            .delete(format!("{PATH}/{}", theirs.unwrap()))
            .await
            .unwrap();
        admin.delete(held.path()).await.unwrap();
        let waited = soon("the wait ends", waiting).await.unwrap();
        let error = waited.map(drop).unwrap_err();
        assert!(
            matches!(error, AcquireError::NodeDeleted { .. }),
            "{error:?}"
        );
        drop(held);
        nothing_is_left(&ensemble).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_thousand_waiters_of_one_session_have_their_turn() {
    let ensemble = Ensemble::new(1);
    let (holder, session) = (ensemble.connect().await, ensemble.connect().await);
    let held = lock(&holder).acquire().await.unwrap();
    let mut waiting = Vec::new();
    for _ in 0..1000 {
        let lock = lock(&session);
        waiting.push(tokio::spawn(async move {
            lock.acquire().await?.release().await.unwrap();
            Ok::<_, AcquireError>(())
        }));
    }
    pass(Duration::from_secs(5)).await;
    assert!(waiting.iter().all(|one| !one.is_finished()));
    held.release().await.unwrap();
    for waiter in waiting {
        soon("each has its turn", waiter).await.unwrap().unwrap();
    }
    nothing_is_left(&ensemble).await;
}
