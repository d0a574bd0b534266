//! Granting leases.

use std::time::Duration;

use zk_core::ErrorKind;
use zk_core::transport::Request;
use zk_lock::{AcquireError, LimitError, ReleaseError};
use zk_sim::{Ensemble, matching};

use super::{LEASES, PATH, QUEUE, count, granted, semaphore, waiting};
use crate::events::Warnings;
use crate::{pass, soon};

#[tokio::test(start_paused = true)]
async fn leases_are_granted_up_to_the_limit_and_the_next_waits() {
    let ensemble = Ensemble::new(3);
    let (one, other) = (ensemble.connect().await, ensemble.connect().await);
    let ours = semaphore(&one, 3);
    let first = ours.acquire().await.unwrap();
    // No leftover is in the way of an attempt, although the end of the cleanup was not awaited.
    let second = ours.try_acquire().await.unwrap().unwrap();
    assert!(ours.with_count(2).try_acquire().await.unwrap().is_none());
    let third = ours.try_acquire().await.unwrap().unwrap();
    assert!(third.token() > second.token() && second.token() > first.token());
    let semaphore = semaphore(&other, 3);
    assert!(semaphore.try_acquire().await.unwrap().is_none());
    let fourth = waiting(&other, 3, 1).await;
    assert!(!fourth.is_finished());
    assert_eq!(semaphore.inspector().contenders().await.unwrap().len(), 4);
    assert_eq!(semaphore.waiters().contenders().await.unwrap().len(), 1);
    first.release().await.unwrap();
    let fourth = granted("there is room", fourth).await;
    assert!(fourth.token() > third.token());
    assert_eq!(semaphore.waiters().contenders().await.unwrap().len(), 0);
    drop((second, third, fourth));
    soon("all is given back", async {
        one.settled().await;
        other.settled().await;
    })
    .await;
    assert_eq!((count(&ensemble, QUEUE), count(&ensemble, LEASES)), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_try_without_room_or_behind_a_waiter_writes_nothing() {
    let ensemble = Ensemble::new(3);
    let (one, other) = (ensemble.connect().await, ensemble.connect().await);
    let (ours, theirs) = (semaphore(&one, 3), semaphore(&other, 3));
    drop(theirs.try_acquire().await.unwrap().unwrap());
    soon("it is given back", other.settled()).await;
    let tried_in_vain = async |count: u32| {
        let before = ensemble.requests().len();
        let tried = theirs.with_count(count).try_acquire().await.unwrap();
        assert!(tried.is_none());
        for seen in ensemble.requests().drain(before..) {
            let request = seen.request;
            let reads = matches!(
                request,
                Request::Sync { .. } | Request::GetData { .. } | Request::GetChildren2 { .. }
            );
            assert!(reads, "{request:?}");
        }
    };
    let two = ours.with_count(2).acquire().await.unwrap();
    tried_in_vain(2).await;
    let third = ours.acquire().await.unwrap();
    tried_in_vain(1).await;
    let fourth = waiting(&one, 3, 1).await;
    drop(third);
    drop(granted("there is room", fourth).await);
    soon("it is given back", one.settled()).await;
    let waits_for_two = waiting(&one, 3, 2).await;
    tried_in_vain(1).await;
    drop(two);
    drop(granted("there is room", waits_for_two).await);
    soon("it is given back", one.settled()).await;
    let all = ours.with_count(3).acquire().await.unwrap();
    for impossible in [0, 4] {
        let error = theirs
            .with_count(impossible)
            .try_acquire()
            .await
            .unwrap_err();
        assert!(matches!(error, AcquireError::Limit(_)), "{error:?}");
    }
    all.release().await.unwrap();
    assert!(theirs.try_acquire().await.unwrap().is_some());
}

/// Curator acquires leases one at a time and leaves the queue in between, so that each client gets one and
/// waits for the other's forever.
#[tokio::test(start_paused = true)]
async fn two_waiters_for_two_of_two_leases_do_not_deadlock() {
    let ensemble = Ensemble::new(3);
    let mut tasks = Vec::new();
    for _ in 0..2 {
        let semaphore = semaphore(&ensemble.connect().await, 2);
        tasks.push(tokio::spawn(async move {
            for _ in 0..50 {
                let both = semaphore.with_count(2).acquire().await.unwrap();
                assert_eq!((both.count(), both.paths().count()), (2, 2));
                both.release().await.unwrap();
            }
        }));
    }
    for task in tasks {
        soon("everyone gets on", task).await.unwrap();
    }
    assert_eq!((count(&ensemble, QUEUE), count(&ensemble, LEASES)), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn several_leases_are_granted_together_in_order_of_arrival() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(semaphore(&session, 3).acquire().await.unwrap());
    }
    let many = waiting(&ensemble.connect().await, 3, 3).await;
    // One lease is free before three are, but the first waiter is granted first.
    let one = waiting(&ensemble.connect().await, 3, 1).await;
    for lease in held {
        assert!(!many.is_finished() && !one.is_finished());
        lease.release().await.unwrap();
        pass(Duration::from_secs(1)).await;
    }
    let many = granted("all three are free", many).await;
    assert!(!one.is_finished());
    many.release().await.unwrap();
    granted("it is next", one).await.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn leases_are_split_and_given_back_in_parts() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let mut three = semaphore(&session, 3)
        .with_count(3)
        .acquire()
        .await
        .unwrap();
    assert!(three.split(0).is_none() && three.split(3).is_none() && three.split(4).is_none());
    let two = three.split(2).unwrap();
    assert_eq!((three.count(), two.count()), (1, 2));
    two.release().await.unwrap();
    assert!(three.is_valid());
    let again = semaphore(&session, 3)
        .with_count(2)
        .try_acquire()
        .await
        .unwrap();
    assert_eq!(again.unwrap().count(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_free_semaphore_costs_two_round_trips() {
    let ensemble = Ensemble::builder()
        .servers(3)
        .latency(Duration::from_millis(10))
        .build();
    let session = ensemble.connect().await;
    let semaphore = semaphore(&session, 5);
    drop(semaphore.acquire().await.unwrap());
    soon("it is given back", session.settled()).await;
    let before = ensemble.requests().len();
    let started = tokio::time::Instant::now();
    let lease = semaphore.with_count(3).acquire().await.unwrap();
    let taken = started.elapsed();
    assert!(taken < Duration::from_millis(45), "{taken:?}");
    lease.release().await.unwrap();
    let (mut creates, mut deletes, mut reads) = (0, 0, 0);
    for seen in ensemble.requests().drain(before..) {
        match seen.request {
            Request::Create2(_) => creates += 1,
            Request::Delete { .. } => deletes += 1,
            Request::GetData { .. } | Request::GetChildren2 { .. } => reads += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((creates, deletes, reads), (4, 4, 4));
}

#[tokio::test(start_paused = true)]
async fn a_released_lease_wakes_one_waiter() {
    let ensemble = Ensemble::new(3);
    let held = semaphore(&ensemble.connect().await, 1).acquire().await;
    let mut waiters = Vec::new();
    for _ in 0..20 {
        waiters.push(waiting(&ensemble.connect().await, 1, 1).await);
    }
    // The first one watches the leases and the limit, each of the others the two ahead of it, the next in line the
    // first one and itself; the node monitor watches its lease.
    assert_eq!(ensemble.watch_count(), 2 + 2 * 19 + 1);
    let lists = || {
        let leases = ensemble.arrived(matching::lists(LEASES));
        (leases, ensemble.arrived(matching::lists(QUEUE)))
    };
    let mut before = lists();
    let mut lease = held.unwrap();
    for waiter in waiters {
        lease.release().await.unwrap();
        lease = granted("its turn has come", waiter).await;
        pass(Duration::from_millis(100)).await;
        let after = lists();
        // The granted waiter lists once when woken. The next first waiter lists the queue, the leases including its
        // own, and the leases again for the watch.
        assert!(
            after.0 - before.0 <= 3 && after.1 - before.1 <= 1,
            "{before:?} {after:?}"
        );
        before = after;
    }
    lease.release().await.unwrap();
    pass(Duration::from_millis(100)).await;
    assert_eq!(ensemble.watch_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn too_many_or_zero_leases_fail_at_once() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let semaphore = semaphore(&session, 2);
    for _ in 0..2 {
        let started = tokio::time::Instant::now();
        for error in [
            semaphore.with_count(3).acquire().await.unwrap_err(),
            semaphore.with_count(3).try_acquire().await.unwrap_err(),
            semaphore
                .with_count(3)
                .acquire_timeout(Duration::from_secs(9))
                .await
                .unwrap_err(),
        ] {
            let AcquireError::Limit(LimitError::TooMany { wanted, limit, .. }) = error else {
                panic!("{error:?}")
            };
            assert_eq!((wanted, limit), (3, 2));
            assert_eq!(
                error.to_string(),
                "3 leases of semaphore /semaphores/a were requested, but its limit is 2; \
                 request fewer or raise the limit"
            );
        }
        assert!(started.elapsed() < Duration::from_secs(1));
        soon("nothing is left", session.settled()).await;
        assert_eq!((count(&ensemble, QUEUE), count(&ensemble, LEASES)), (0, 0));
        // And again with a used handle.
        drop(semaphore.acquire().await.unwrap());
    }
    let error = semaphore.with_count(0).acquire().await.unwrap_err();
    assert!(
        matches!(error, AcquireError::Limit(LimitError::ZeroLeases)),
        "{error:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_timeout_says_what_was_waited_for() {
    let ensemble = Ensemble::new(3);
    let (one, other) = (ensemble.connect().await, ensemble.connect().await);
    let _held = semaphore(&one, 3).with_count(2).acquire().await.unwrap();
    let within = Duration::from_secs(1);
    let semaphore = semaphore(&other, 3);
    let error = semaphore
        .with_count(2)
        .acquire_timeout(within)
        .await
        .unwrap_err();
    let AcquireError::TimedOut(first) = &error else {
        panic!("{error:?}")
    };
    assert_eq!(
        (
            first.ahead().unwrap().leases(),
            first.ahead().unwrap().count()
        ),
        (Some((2, 3)), 0)
    );
    assert_eq!(
        error.to_string(),
        "/semaphores/a not acquired within 1s: others hold 2 leases of 3"
    );
    let _waiting = waiting(&one, 3, 2).await;
    let error = semaphore.acquire_timeout(within).await.unwrap_err();
    let AcquireError::TimedOut(second) = &error else {
        panic!("{error:?}")
    };
    assert_eq!(
        (
            second.ahead().unwrap().leases(),
            second.ahead().unwrap().count()
        ),
        (None, 1)
    );
    assert!(
        error.to_string().ends_with("which waits for leases"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn leases_of_others_count_and_foreign_children_do_not() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    drop(semaphore(&session, 2).acquire().await.unwrap());
    for name in ["0", "lease", "lease-", "_c_x-lock-0000000001", "0000000001"] {
        session
            .create(format!("{LEASES}/{name}"), "")
            .await
            .unwrap();
    }
    let both = semaphore(&session, 2)
        .with_count(2)
        .try_acquire()
        .await
        .unwrap();
    both.unwrap().release().await.unwrap();
    let theirs = format!("{LEASES}/_c_af1-lease-0000000077");
    session.create(&theirs, "").await.unwrap();
    assert!(
        semaphore(&session, 2)
            .with_count(2)
            .try_acquire()
            .await
            .unwrap()
            .is_none()
    );
    let one = semaphore(&session, 2).try_acquire().await.unwrap();
    assert!(one.is_some());
}

/// The order of leases is irrelevant, and so is the end of the counter of their numbers.
#[tokio::test(start_paused = true)]
async fn at_the_end_of_the_counter_the_limit_holds() {
    for counter in [i32::MAX - 1, i32::MAX, i32::MIN, -5] {
        let ensemble = Ensemble::new(3);
        let session = ensemble.connect().await;
        drop(semaphore(&session, 2).acquire().await.unwrap());
        session.settled().await;
        ensemble.set_counter(LEASES, counter);
        let mut held = Vec::new();
        for _ in 0..2 {
            held.push(semaphore(&session, 2).try_acquire().await.unwrap().unwrap());
        }
        assert!(
            semaphore(&session, 2)
                .try_acquire()
                .await
                .unwrap()
                .is_none()
        );
    }
}

#[tokio::test(start_paused = true)]
async fn idle_containers_are_reaped_and_the_limit_stays() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let semaphore = semaphore(&session, 4);
    for _ in 0..3 {
        semaphore.acquire().await.unwrap().release().await.unwrap();
        soon("there is no waiter", session.settled()).await;
        assert_eq!(ensemble.reap(), 2);
        assert_eq!(ensemble.tree().node(PATH).unwrap().data(), b"4");
        assert_eq!(count(&ensemble, PATH), 0);
    }
    session.delete(PATH).await.unwrap();
    semaphore.acquire().await.unwrap().release().await.unwrap();
    assert_eq!(ensemble.tree().node(PATH).unwrap().data(), b"4");
}

#[tokio::test(start_paused = true)]
async fn a_transaction_of_a_lease_that_is_gone_changes_nothing() {
    let ensemble = Ensemble::new(3);
    let (session, admin) = (ensemble.connect().await, ensemble.connect().await);
    let leases = semaphore(&session, 3)
        .with_count(2)
        .acquire()
        .await
        .unwrap();
    leases.txn().create("/done", "1").commit().await.unwrap();
    let last = leases.paths().last().unwrap().clone();
    admin.delete(&last).await.unwrap();
    let error = leases
        .txn()
        .create("/more", "1")
        .commit()
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind(), error.failed_part()),
        (ErrorKind::NoNode, Some(1))
    );
    let error = leases.release().await.unwrap_err();
    assert!(matches!(error, ReleaseError::Lost { .. }), "{error:?}");
}

/// Another client has created a lease as a persistent node: nothing but its deletion makes room.
#[tokio::test(start_paused = true)]
async fn a_lease_of_no_session_is_reported_to_its_waiter() {
    let ensemble = Ensemble::new(3);
    let (session, other) = (ensemble.connect().await, ensemble.connect().await);
    let semaphore = semaphore(&session, 2);
    let _one = semaphore.acquire().await.unwrap();
    let planted = "_c_e-lease-0000000000";
    other
        .create(format!("{LEASES}/{planted}"), "eve")
        .await
        .unwrap();
    let warnings = Warnings::default();
    let subscriber = tracing::subscriber::set_default(warnings.clone());
    let mut seen = Vec::new();
    let limit = Duration::from_secs(5);
    let acquiring = semaphore.acquire_with_progress(|ahead| {
        seen.push((ahead.to_string(), ahead.lasting_lease().map(str::to_owned)));
    });
    let acquiring = async {
        let acquired = tokio::time::timeout(limit, acquiring).await;
        assert!(acquired.is_err());
    };
    // A change of the others wakes the waiter, which has read this lease already.
    let second = async {
        pass(Duration::from_secs(1)).await;
        other
            .create(format!("{LEASES}/_c_f-lease-0000000001"), "")
            .ephemeral()
            .await
            .unwrap();
    };
    tokio::join!(biased; acquiring, second);
    drop(subscriber);
    let text = format!(
        "others hold 3 leases of 2, {planted:?} of no session: it stays until it is deleted"
    );
    assert_eq!(
        seen.last(),
        Some(&(text.clone(), Some(planted.to_owned()))),
        "{seen:?}"
    );
    let warnings = warnings.0.lock().unwrap().clone();
    assert!(
        warnings.len() == 1 && warnings[0].contains(planted),
        "{warnings:?}"
    );
    let error = semaphore
        .acquire_timeout(limit)
        .await
        .map(drop)
        .unwrap_err();
    assert!(error.to_string().contains(&text), "{error}");

    let inspector = semaphore.inspector();
    let all = inspector.contenders().await.unwrap();
    for lease in all.iter().filter(|lease| lease.name() == planted) {
        assert_eq!(lease.session(), None);
        inspector.remove(lease).await.unwrap();
    }
    other
        .delete(format!("{LEASES}/_c_f-lease-0000000001"))
        .await
        .unwrap();
    drop(soon("it is granted", semaphore.acquire()).await.unwrap());
}
