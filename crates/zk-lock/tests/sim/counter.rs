//! The end of the counter that orders the contenders.

use zk_core::ErrorClass;
use zk_lock::AcquireError;
use zk_sim::{Counters, Ensemble};

use crate::{PATH, held_and_waited_for, left, lock, soon};

#[tokio::test(start_paused = true)]
async fn near_the_end_of_the_counter_no_lock_is_granted() {
    for counter in [
        i32::MAX,
        i32::MAX - 1,
        i32::MAX - 500,
        i32::MIN,
        i32::MIN + 500,
    ] {
        let ensemble = Ensemble::new(3);
        let session = ensemble.connect().await;
        let token = {
            let guard = lock(&session).acquire().await.unwrap();
            guard.fencing_token()
        };
        soon("the node is deleted", session.settled()).await;
        ensemble.set_counter(PATH, counter);
        for _ in 0..3 {
            let error = lock(&session).acquire().await.unwrap_err();
            let AcquireError::SequenceExhausted(exhausted) = &error else {
                panic!("{error:?}")
            };
            assert_eq!(error.class(), ErrorClass::Outcome);
            assert_eq!(exhausted.path().as_str(), PATH);
            assert!(exhausted.sequence().unwrap().is_near_end());
            assert!(
                error
                    .to_string()
                    .ends_with("delete /locks/a once it is empty: a new node counts from zero"),
                "{error}"
            );
            let error = lock(&session).try_acquire().await.unwrap_err();
            assert!(matches!(error, AcquireError::SequenceExhausted(_)));
            assert!(left(&ensemble).is_empty());
        }
        // As the message advises.
        session.delete(PATH).await.unwrap();
        let guard = lock(&session).acquire().await.unwrap();
        assert!(guard.path().as_str().ends_with("-lock-0000000000"));
        assert!(guard.fencing_token() > token);
    }
}

/// Finding 1 of TRAPS: Curator grants the lock to two contenders with the same number.
#[tokio::test(start_paused = true)]
async fn of_two_contenders_with_one_number_none_is_granted() {
    let ensemble = Ensemble::new(3);
    let (session, other) = (ensemble.connect().await, ensemble.connect().await);
    let theirs = format!("{PATH}/_c_theirs-lock-0000000041");
    other.create(&theirs, "").ephemeral().await.unwrap_err();
    drop(lock(&session).acquire().await.unwrap());
    other.create(&theirs, "").ephemeral().await.unwrap();
    ensemble.set_counter(PATH, 41);
    let error = lock(&session).acquire().await.unwrap_err();
    let AcquireError::SequenceExhausted(exhausted) = &error else {
        panic!("{error:?}")
    };
    assert_eq!(exhausted.tied_with(), Some("_c_theirs-lock-0000000041"));
    assert_eq!(left(&ensemble), ["_c_theirs-lock-0000000041"]);
}

#[tokio::test(start_paused = true)]
async fn order_survives_the_wrap_of_servers_that_wrap() {
    let ensemble = Ensemble::builder()
        .servers(3)
        .counters(Counters::Wrap)
        .build();
    let (one, other) = (ensemble.connect().await, ensemble.connect().await);
    drop(lock(&one).acquire().await.unwrap());
    one.settled().await;
    ensemble.set_counter(PATH, i32::MAX - 1500);
    let guard = lock(&one).acquire().await.unwrap();
    ensemble.set_counter(PATH, i32::MIN + 1500);
    assert!(lock(&other).try_acquire().await.unwrap().is_none());
    let contender = lock(&other);
    let waiting = tokio::spawn(async move { contender.acquire().await.unwrap() });
    crate::pass(std::time::Duration::from_millis(100)).await;
    let listed = lock(&one).inspector().contenders().await.unwrap();
    assert_eq!(Some(listed[0].name()), guard.path().name());
    assert!(listed[1].sequence().number() < 0);
    guard.release().await.unwrap();
    let guard = soon("the one behind the wrap is granted", waiting)
        .await
        .unwrap();
    guard.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn foreign_children_are_ignored_wherever_they_come_from() {
    let ensemble = Ensemble::new(3);
    let (one, other) = (ensemble.connect().await, ensemble.connect().await);
    drop(lock(&one).acquire().await.unwrap());
    for name in [
        "0",
        "lock",
        "lock-12",
        "0000000000",
        "a-0000000000",
        "x-lock-00000000000",
    ] {
        other.create(format!("{PATH}/{name}"), "").await.unwrap();
    }
    let (held, waiting) = held_and_waited_for(&one, &other).await;
    assert_eq!(lock(&one).inspector().contenders().await.unwrap().len(), 2);
    held.release().await.unwrap();
    let guard = soon("the waiter is granted the lock", waiting)
        .await
        .unwrap()
        .unwrap();
    guard.release().await.unwrap();
}
