//! The stored limit.

use std::time::Duration;

use zk_core::ErrorClass;
use zk_core::transport::Request;
use zk_lock::{AcquireError, LimitError};
use zk_sim::{Ensemble, Kind, matching};

use super::{PATH, granted, semaphore, waiting};
use crate::{pass, soon};

/// Kazoo creates the node, writes the number in a second step, and reads once.
#[tokio::test(start_paused = true)]
async fn the_limit_is_made_with_the_node_that_has_it() {
    let ensemble = Ensemble::new(3);
    let mut tasks = Vec::new();
    for _ in 0..5 {
        tasks.push(waiting(&ensemble.connect().await, 5, 1).await);
    }
    let mut held = Vec::new();
    for task in tasks {
        held.push(granted("there are as many", task).await);
    }
    assert_eq!(ensemble.arrived(matching::sets(PATH)), 0);
    for seen in ensemble.requests() {
        if let Request::Create2(create) = &seen.request
            && create.path.as_str() == PATH
        {
            assert_eq!(create.data.as_slice(), b"5");
        }
    }
    let tree = ensemble.tree();
    let node = tree.node(PATH).unwrap();
    assert_eq!((node.data(), node.kind()), (&b"5"[..], Kind::Persistent));
    assert_eq!(
        semaphore(&ensemble.connect().await, 9)
            .limit()
            .await
            .unwrap(),
        Some(5)
    );
}

#[tokio::test(start_paused = true)]
async fn a_handle_with_another_limit_fails_or_adopts() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    assert_eq!(semaphore(&session, 2).limit().await.unwrap(), None);
    let _one = semaphore(&session, 2).acquire().await.unwrap();
    for error in [
        semaphore(&session, 3).acquire().await.unwrap_err(),
        semaphore(&session, 3).try_acquire().await.unwrap_err(),
    ] {
        assert!(
            matches!(
                error,
                AcquireError::Limit(LimitError::Differs {
                    stored: 2,
                    own: 3,
                    ..
                })
            ),
            "{error:?}"
        );
        assert_eq!(error.class(), ErrorClass::Outcome);
    }
    let adopting = semaphore(&session, 3).adopting();
    let _two = adopting.try_acquire().await.unwrap().unwrap();
    assert!(adopting.try_acquire().await.unwrap().is_none());
    // A handle that has accepted the limit once follows changes.
    let agreed = semaphore(&session, 2);
    assert!(agreed.try_acquire().await.unwrap().is_none());
    assert_eq!(agreed.set_limit(3).await.unwrap(), Some(2));
    assert!(agreed.try_acquire().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_raised_limit_wakes_a_waiter_and_a_lowered_revokes_none() {
    let ensemble = Ensemble::new(3);
    let (one, other) = (ensemble.connect().await, ensemble.connect().await);
    let first = semaphore(&one, 1).acquire().await.unwrap();
    let second = waiting(&other, 1, 1).await;
    let third = waiting(&other, 1, 1).await;
    let admin = semaphore(&ensemble.connect().await, 0);
    assert_eq!(admin.set_limit(2).await.unwrap(), Some(1));
    let second = granted("there are two now", second).await;
    assert_eq!(admin.set_limit(1).await.unwrap(), Some(2));
    pass(Duration::from_secs(30)).await;
    assert!(first.is_valid() && second.is_valid() && !third.is_finished());
    first.release().await.unwrap();
    pass(Duration::from_secs(30)).await;
    assert!(!third.is_finished(), "one holds one of one");
    second.release().await.unwrap();
    granted("now there is room", third)
        .await
        .release()
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_waiter_for_more_than_a_lowered_limit_fails() {
    let ensemble = Ensemble::new(3);
    let (one, other) = (ensemble.connect().await, ensemble.connect().await);
    let _held = semaphore(&one, 3).with_count(2).acquire().await.unwrap();
    let three = waiting(&other, 3, 3).await;
    let next = waiting(&one, 3, 1).await;
    semaphore(&one, 3).set_limit(2).await.unwrap();
    let error = soon("it is notified", three).await.unwrap().unwrap_err();
    assert!(
        matches!(
            error,
            AcquireError::Limit(LimitError::TooMany {
                wanted: 3,
                limit: 2,
                ..
            })
        ),
        "{error:?}"
    );
    pass(Duration::from_secs(1)).await;
    assert!(!next.is_finished());
    semaphore(&one, 3).set_limit(3).await.unwrap();
    drop(granted("the next one is first now", next).await);
}

#[tokio::test(start_paused = true)]
async fn a_path_with_other_data_is_no_semaphore() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    session.create(PATH, "host:port").parents().await.unwrap();
    let error = semaphore(&session, 2).acquire().await.unwrap_err();
    let AcquireError::Limit(LimitError::NotANumber { path }) = &error else {
        panic!("{error:?}")
    };
    assert_eq!(path.as_str(), PATH);
    assert!(semaphore(&session, 2).limit().await.is_err());
    assert_eq!(semaphore(&session, 2).set_limit(2).await.unwrap(), None);
    drop(semaphore(&session, 2).acquire().await.unwrap());
}

/// As Curator creates it: the parent of its queue, without data.
#[tokio::test(start_paused = true)]
async fn a_node_without_a_limit_is_given_one() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    session
        .create(PATH, "")
        .container()
        .parents()
        .await
        .unwrap();
    assert_eq!(semaphore(&session, 2).limit().await.unwrap(), None);
    drop(semaphore(&session, 2).acquire().await.unwrap());
    assert_eq!(semaphore(&session, 2).limit().await.unwrap(), Some(2));
}

#[tokio::test(start_paused = true)]
async fn concurrent_limit_changes_each_return_the_previous_one() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    semaphore(&session, 1).set_limit(1).await.unwrap();
    let mut tasks = Vec::new();
    for limit in 2..8 {
        let semaphore = semaphore(&ensemble.connect().await, 1);
        tasks.push(tokio::spawn(
            async move { semaphore.set_limit(limit).await },
        ));
    }
    let mut before = Vec::new();
    for task in tasks {
        before.push(task.await.unwrap().unwrap().unwrap());
    }
    before.push(semaphore(&session, 1).limit().await.unwrap().unwrap());
    before.sort_unstable();
    assert_eq!(before, [1, 2, 3, 4, 5, 6, 7]);
}

#[tokio::test(start_paused = true)]
async fn a_limit_of_zero_grants_no_lease() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let error = semaphore(&session, 0).acquire().await.unwrap_err();
    assert!(
        matches!(
            error,
            AcquireError::Limit(LimitError::TooMany {
                wanted: 1,
                limit: 0,
                ..
            })
        ),
        "{error:?}"
    );
}
