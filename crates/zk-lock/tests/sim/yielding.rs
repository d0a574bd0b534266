//! Guards that are yielded: the lock goes round among all contenders.

use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use zk_core::transport::Request;
use zk_core::{ErrorClass, Session};
use zk_lock::{
    AcquireError, FairLock, FencingToken, Guard, LockEvent, LockLoss, RwLock, YieldError,
};
use zk_sim::{Ensemble, matching};

use crate::faults::STRIKES;
use crate::{PATH, dropped, held_and_waited_for, left, lock, pass, soon};

/// The requests of a session from number `before` on, by kind.
fn kinds(ensemble: &Ensemble, session: &Session, before: usize) -> Vec<&'static str> {
    let requests = ensemble.requests().split_off(before);
    let own = requests
        .iter()
        .filter(|logged| logged.session == session.id());
    own.map(|logged| match logged.request {
        Request::GetChildren2 { .. } => "list",
        Request::Multi(_) => "transaction",
        Request::GetData { .. } => "get",
        Request::Exists { .. } => "exists",
        Request::Create2(_) => "create",
        Request::Delete { .. } => "delete",
        _ => "another",
    })
    .collect()
}

/// Yields in a task of its own.
fn yielding(guard: Guard) -> JoinHandle<Result<Guard, YieldError>> {
    tokio::spawn(guard.yield_now())
}

#[tokio::test(start_paused = true)]
async fn yielded_lock_goes_round_in_order() {
    let ensemble = Ensemble::new(3);
    let mut guards: Vec<JoinHandle<Result<Guard, String>>> = Vec::new();
    let (mut held, mut sessions) = (None, Vec::new());
    for _ in 0..4 {
        let session = ensemble.connect().await;
        sessions.push(session.clone());
        if held.is_none() {
            held = Some(lock(&session).acquire().await.unwrap());
            continue;
        }
        let lock = lock(&session);
        guards.push(tokio::spawn(async move {
            lock.acquire().await.map_err(|error| error.to_string())
        }));
        pass(Duration::from_millis(50)).await;
    }
    let mut guard = held.unwrap();
    let mut token = guard.fencing_token();
    for turn in 1..20 {
        let lost = guard.lost();
        guards.push(tokio::spawn(async move {
            guard.yield_now().await.map_err(|error| error.to_string())
        }));
        assert_eq!(soon("it is handed over", lost).await, LockLoss::Released);
        let next = soon("the next one is granted", guards.remove(0)).await;
        guard = next.unwrap().unwrap();
        assert!(guard.is_valid() && guard.fencing_token() > token);
        token = guard.fencing_token();
        let owner = ensemble.tree().node(guard.path().as_str()).unwrap().owner();
        assert_eq!(owner, Some(sessions[turn % 4].id()), "turn {turn}");
        pass(Duration::from_millis(50)).await;
        assert_eq!(left(&ensemble).len(), 4);
        assert!(guards.iter().all(|waiting| !waiting.is_finished()));
    }
}

#[tokio::test(start_paused = true)]
async fn lock_that_no_contender_waits_for_is_kept_for_one_read() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let mut guard = lock(&session).acquire().await.unwrap();
    let (path, token) = (guard.path().clone(), guard.fencing_token());
    let mut lost = Box::pin(guard.lost());
    let before = ensemble.requests().len();
    for _ in 0..3 {
        guard = guard.yield_now().await.unwrap();
    }
    assert_eq!(kinds(&ensemble, &session, before), ["list"; 3]);
    assert_eq!((guard.path(), guard.fencing_token()), (&path, token));
    assert!(guard.is_valid() && (&mut lost).now_or_never().is_none());
    guard.release().await.unwrap();
    assert_eq!(lost.await, LockLoss::Released);
}

#[tokio::test(start_paused = true)]
async fn yield_costs_a_read_and_a_transaction_with_a_read() {
    let ensemble = Ensemble::new(3);
    let (one, other) = (ensemble.connect().await, ensemble.connect().await);
    let (guard, waiting) = held_and_waited_for(&one, &other).await;
    let before = ensemble.requests().len();
    let again = yielding(guard);
    let next = soon("the waiter is granted the lock", waiting).await;
    let next = next.unwrap().unwrap();
    // The next one takes over without a request.
    assert_eq!(kinds(&ensemble, &other, before), [""; 0]);
    pass(Duration::from_millis(50)).await;
    let sent = kinds(&ensemble, &one, before);
    // Then it watches its predecessor and its own node, as every next in line does.
    assert_eq!(sent, ["list", "transaction", "list", "get", "exists"]);
    next.release().await.unwrap();
    let guard = soon("it is granted again", again).await.unwrap().unwrap();
    assert_eq!(left(&ensemble), [guard.path().name().unwrap()]);
}

/// Others were behind it when it last listed the queue. They are not looked for again, also if they have left.
#[tokio::test(start_paused = true)]
async fn yield_of_a_guard_that_saw_waiters_costs_no_read_before() {
    let ensemble = Ensemble::new(3);
    let (one, other) = (ensemble.connect().await, ensemble.connect().await);
    let (third, fourth) = (ensemble.connect().await, ensemble.connect().await);
    for leaves in [false, true] {
        let (guard, next) = held_and_waited_for(&one, &other).await;
        let mut behind = Vec::new();
        for session in [&third, &fourth] {
            let lock = lock(session);
            behind.push(tokio::spawn(async move { lock.acquire().await.unwrap() }));
            pass(Duration::from_millis(100)).await;
        }
        let (last, waiting) = (behind.pop().unwrap(), behind.pop().unwrap());
        guard.release().await.unwrap();
        let next = soon("the next one is granted", next).await.unwrap();
        // Meanwhile the third one lists the queue.
        pass(Duration::from_millis(100)).await;
        next.unwrap().release().await.unwrap();
        let guard = soon("the third one is granted", waiting).await.unwrap();
        if leaves {
            last.abort();
            pass(Duration::from_millis(100)).await;
            soon("the last one has left", fourth.settled()).await;
            assert_eq!(left(&ensemble).len(), 1);
        }
        let token = guard.fencing_token();
        let before = ensemble.requests().len();
        let again = yielding(guard);
        if !leaves {
            let last = soon("the last one is granted", last).await.unwrap();
            last.release().await.unwrap();
        }
        let guard = soon("it is granted again", again).await.unwrap().unwrap();
        let sent = kinds(&ensemble, &third, before);
        assert_eq!(sent[..2], ["transaction", "list"], "{leaves}");
        assert!(guard.is_valid() && guard.fencing_token() > token);
        guard.release().await.unwrap();
        assert!(left(&ensemble).is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn foreign_child_counts_as_a_waiter() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let guard = lock(&session).acquire().await.unwrap();
    let token = guard.fencing_token();
    let foreign = format!("{PATH}/theirs");
    session.create(&foreign, "").await.unwrap();
    let guard = soon("it is granted again", guard.yield_now())
        .await
        .unwrap();
    assert!(guard.is_valid() && guard.fencing_token() > token);
    assert_eq!(left(&ensemble).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn reader_yields_to_writers_and_keeps_among_readers() {
    let ensemble = Ensemble::new(3);
    let (one, other) = (ensemble.connect().await, ensemble.connect().await);
    let [readers, writers] = [&one, &other].map(|session| RwLock::new(session, PATH).unwrap());
    let first = readers.reader().acquire().await.unwrap();
    let second = readers.reader().acquire().await.unwrap();
    let token = first.fencing_token();
    let before = ensemble.requests().len();
    let first = first.yield_now().await.unwrap();
    assert_eq!(kinds(&ensemble, &one, before), ["list"]);
    assert_eq!(first.fencing_token(), token);

    let writing = tokio::spawn(async move { writers.writer().acquire().await.unwrap() });
    pass(Duration::from_millis(50)).await;
    second.release().await.unwrap();
    let again = tokio::spawn(first.yield_now());
    let writer = soon("the writer is granted the lock", writing)
        .await
        .unwrap();
    pass(Duration::from_millis(50)).await;
    assert!(!again.is_finished());
    // And a writer yields to readers.
    let writing = tokio::spawn(writer.yield_now());
    let first = soon("the reader is granted again", again)
        .await
        .unwrap()
        .unwrap();
    assert!(first.fencing_token() > token);
    pass(Duration::from_millis(50)).await;
    assert!(!writing.is_finished());
    let token = first.fencing_token();
    first.release().await.unwrap();
    let writer = soon("the writer is granted again", writing).await;
    let writer = writer.unwrap().unwrap();
    assert!(writer.is_valid() && writer.fencing_token() > token);
}

/// Each request of a yield is hit by each fault, one at a time.
#[tokio::test(start_paused = true)]
async fn fault_at_any_request_of_a_yield_lets_every_contender_have_its_turn() {
    for (name, strike) in STRIKES {
        for nth in 1.. {
            let what = format!("{name}, request {nth}");
            let ensemble = Ensemble::new(3);
            let session = ensemble.connect().server(1).await;
            let other = ensemble.connect().server(3).await;
            let (guard, waiting) = held_and_waited_for(&session, &other).await;
            let token = guard.fencing_token();
            let on = ensemble.on(matching::anything()).session(session.id());
            let struck = strike(on.nth(nth));
            let again = yielding(guard);
            let next = soon(&what, waiting).await.unwrap().expect(&what);
            assert!(next.is_valid() && next.fencing_token() > token, "{what}");
            let token = next.fencing_token();
            pass(Duration::from_millis(500)).await;
            assert!(!again.is_finished(), "{what}");
            assert!(next.is_valid(), "{what}");
            next.release().await.unwrap();
            let guard = soon(&what, again).await.unwrap().expect(&what);
            struck.release();
            assert!(guard.is_valid(), "{what}");
            // It joined before or after the other one was granted the lock, but with another node.
            assert_ne!(guard.fencing_token(), token, "{what}");
            pass(Duration::from_secs(1)).await;
            assert_eq!(left(&ensemble), [guard.path().name().unwrap()], "{what}");
            guard.release().await.expect(&what);
            soon(&what, session.settled()).await;
            assert!(left(&ensemble).is_empty(), "{what}");
            if struck.count() == 0 {
                assert!(nth > 4, "{what}");
                break;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn yield_without_a_connection_gives_the_lock_up() {
    for nth in [1, 2] {
        let ensemble = Ensemble::new(3);
        let (one, other) = (ensemble.connect().await, ensemble.connect().await);
        let one = one.with_operation_timeout(Duration::from_secs(2));
        let (guard, waiting) = held_and_waited_for(&one, &other).await;
        let on = ensemble.on(matching::with_path("/locks/**", matching::anything()));
        let silenced = on.session(one.id()).nth(nth).lose_request();
        let link = ensemble.session(one.id());
        let started = Instant::now();
        let again = yielding(guard);
        silenced.happened().await;
        link.partition();
        let error = soon("it is given up", again).await.unwrap().unwrap_err();
        let taken = started.elapsed();
        link.heal();
        assert!(taken >= Duration::from_secs(2), "{nth}: {taken:?}");
        assert!(taken < Duration::from_millis(2200), "{nth}: {taken:?}");
        assert!(matches!(error, YieldError::GivenUp { .. }), "{error:?}");
        assert_eq!(
            (error.class(), error.loss()),
            (ErrorClass::Recoverable, None)
        );
        let next = soon("the waiter is granted the lock", waiting).await;
        let next = next.unwrap().unwrap();
        soon("both nodes are removed", one.settled()).await;
        assert_eq!(left(&ensemble), [next.path().name().unwrap()]);
    }
}

#[tokio::test(start_paused = true)]
async fn yield_of_a_lost_lock_reports_the_loss() {
    for is_waited_for in [false, true] {
        for is_ended in [false, true] {
            let what = format!("waited for: {is_waited_for}, session ended: {is_ended}");
            let ensemble = Ensemble::new(3);
            let (one, other) = (ensemble.connect().await, ensemble.connect().await);
            let guard = lock(&one).acquire().await.unwrap();
            if is_waited_for {
                let lock = lock(&other);
                tokio::spawn(async move { lock.acquire().await });
                pass(Duration::from_millis(50)).await;
            }
            let path = guard.path().clone();
            let expected = if is_ended {
                ensemble.expire(one.id());
                LockLoss::SessionLost
            } else {
                other.delete(guard.path()).await.unwrap();
                one.sync(PATH).await.unwrap();
                LockLoss::NodeDeleted
            };
            let error = soon(&what, guard.yield_now()).await.unwrap_err();
            assert!(
                matches!(&error, YieldError::Lost { path: at, loss } if *at == path && *loss == expected),
                "{what}: {error:?}"
            );
            assert_eq!(error.loss(), Some(expected));
            assert_eq!(error.class(), expected.class());
        }
    }
}

/// The list says that no contender waits, but its reply comes when the session may be over.
#[tokio::test(start_paused = true)]
async fn lock_is_kept_only_if_it_is_valid_when_the_list_arrives() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let session = session.with_operation_timeout(Duration::from_secs(60));
    let guard = lock(&session).acquire().await.unwrap();
    let lists = ensemble.on(matching::lists(PATH)).session(session.id());
    let held = lists.hold();
    let lost = guard.lost();
    let again = yielding(guard);
    held.happened().await;
    let loss = soon("the lease runs out", lost).await;
    assert_eq!(loss, LockLoss::SessionLeaseExpired);
    held.release();
    match soon("it is over", again).await.unwrap() {
        Ok(guard) => assert!(guard.is_valid()),
        Err(error) => assert_eq!(error.loss(), Some(LockLoss::SessionLost), "{error:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn yielding_contender_is_a_waiter_like_any_other() {
    let ensemble = Ensemble::new(3);
    let (one, other) = (ensemble.connect().await, ensemble.connect().await);
    let (guard, waiting) = held_and_waited_for(&one, &other).await;
    let again = yielding(guard);
    let next = soon("the waiter is granted the lock", waiting).await;
    let next = next.unwrap().unwrap();
    pass(Duration::from_millis(50)).await;
    // An operator removes it.
    let mut names = left(&ensemble);
    names.retain(|name| Some(name.as_str()) != next.path().name());
    other.delete(format!("{PATH}/{}", names[0])).await.unwrap();
    let error = soon("it is over", again).await.unwrap().unwrap_err();
    let YieldError::NotReacquired { source } = error else {
        panic!("{error:?}");
    };
    assert!(matches!(source, AcquireError::NodeDeleted { .. }));
}

#[tokio::test(start_paused = true)]
async fn yield_dropped_at_any_await_leaves_nothing() {
    let hold = async |session: Session| lock(&session).acquire().await.unwrap();
    let kept = async |session: Session| {
        let guard = lock(&session).acquire().await.unwrap();
        drop(guard.yield_now().await.unwrap());
    };
    dropped::everywhere(None, hold, kept).await;
    let exchanged = async |session: Session| {
        let guard = lock(&session).acquire().await.unwrap();
        // A waiter of the same session, which is granted the lock in between.
        let lock = lock(&session);
        let waiter = async {
            let guard = lock.acquire().await.unwrap();
            pass(Duration::from_millis(30)).await;
            drop(guard);
        };
        let yielding = async {
            pass(Duration::from_millis(30)).await;
            drop(guard.yield_now().await.unwrap());
        };
        tokio::join!(waiter, yielding);
    };
    dropped::everywhere(Some(Duration::from_millis(100)), hold, exchanged).await;
}

#[tokio::test(start_paused = true)]
async fn listeners_see_a_release_and_a_grant() {
    let ensemble = Ensemble::new(3);
    let (one, other) = (ensemble.connect().await, ensemble.connect().await);
    let lock = FairLock::new(&one, PATH).unwrap();
    let mut events = lock.events();
    let guard = lock.acquire().await.unwrap();
    let first = guard.fencing_token();
    let guard = guard.yield_now().await.unwrap();
    let theirs = crate::lock(&other);
    let waiting = tokio::spawn(async move { theirs.run(async |_| ()).await });
    pass(Duration::from_millis(50)).await;
    let guard = guard.yield_now().await.unwrap();
    waiting.await.unwrap().unwrap();
    let second = guard.fencing_token();
    let mut seen = Vec::new();
    for _ in 0..3 {
        seen.push(match soon("an event is received", events.next()).await {
            Some(LockEvent::Acquired { fencing_token, .. }) => ("acquired", fencing_token),
            Some(LockEvent::Released { fencing_token, .. }) => ("released", fencing_token),
            other => panic!("{other:?}"),
        });
    }
    let expected: [(&str, FencingToken); 3] = [
        ("acquired", first),
        ("released", first),
        ("acquired", second),
    ];
    assert_eq!(seen, expected);
}
