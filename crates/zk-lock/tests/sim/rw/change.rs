//! Writers that become readers, and readers that become writers.

use std::time::Duration;

use futures_util::future;
use zk_core::transport::TransportError;
use zk_core::{ErrorClass, ErrorKind, Session};
use zk_lock::{DowngradeError, FairLock, LockLoss, UpgradeError};
use zk_sim::{Ensemble, matching};

use super::{READERS, granted, reader, reads, rw, sessions, writer, writes};
use crate::{left, pass, soon};

/// Curator before 5.5.0 let a writer in that was waiting.
#[tokio::test(start_paused = true)]
async fn a_downgrade_lets_the_next_readers_in_and_no_writer() {
    let ensemble = Ensemble::new(3);
    let [a, b, c, d] = sessions(&ensemble).await;
    let writing = writes(&a).await;
    let (next, later) = (reader(&b).await, writer(&c).await);
    let last = reader(&d).await;
    let lost = writing.lost();
    let token = writing.fencing_token();
    let reading = soon("nothing is in the way", writing.downgrade())
        .await
        .unwrap();
    assert_eq!(lost.await, LockLoss::Released);
    assert!(reading.is_valid());
    assert_eq!(reading.fencing_token(), token);
    let next = granted(next).await;
    assert!(next.fencing_token() > token);
    pass(Duration::from_secs(1)).await;
    assert!(!later.is_finished() && !last.is_finished());
    next.release().await.unwrap();
    pass(Duration::from_secs(1)).await;
    assert!(!later.is_finished(), "the first one reads");
    reading.release().await.unwrap();
    // A resource that has seen the reader's token accepts the writer's.
    let later = granted(later).await;
    assert!(later.fencing_token() > token);
    later.release().await.unwrap();
    granted(last).await.release().await.unwrap();
    assert!(left(&ensemble).is_empty());
}

/// The token of a downgraded writer is below those of the waiting writers, which a resource would refuse otherwise.
#[tokio::test(start_paused = true)]
async fn a_writer_behind_a_downgrade_has_a_higher_token() {
    let ensemble = Ensemble::new(3);
    let [a, b] = sessions(&ensemble).await;
    let writing = writes(&a).await;
    let waiting = writer(&b).await;
    let reading = writing.downgrade().await.unwrap();
    let token = reading.fencing_token();
    reading.release().await.unwrap();
    assert!(granted(waiting).await.fencing_token() > token);
}

#[tokio::test(start_paused = true)]
async fn a_downgrade_that_is_refused_gives_the_writer_back() {
    let ensemble = Ensemble::new(3);
    let [a, b] = sessions(&ensemble).await;
    let writing = writes(&a).await;
    let refused = TransportError::Refused(ErrorKind::NoAuth, None);
    ensemble
        .on(matching::creates(READERS))
        .refuse(refused.clone());
    let error = writing.downgrade().await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Outcome);
    let DowngradeError::Failed { guard, .. } = error else {
        panic!("{error:?}");
    };
    assert!(guard.is_valid());
    assert_eq!(left(&ensemble), [guard.path().name().unwrap()]);
    assert!(rw(&b).reader().try_acquire().await.unwrap().is_none());

    // A writer that may create but not delete is a reader that excludes other readers.
    ensemble
        .on(matching::deletes(super::WRITERS))
        .every()
        .refuse(refused);
    let error = guard.downgrade().await.unwrap_err();
    let DowngradeError::Refused { guard, .. } = error else {
        panic!("{error:?}");
    };
    assert!(guard.is_valid());
    assert!(rw(&b).reader().try_acquire().await.unwrap().is_none());
    guard.release().await.unwrap();
}

/// An upgrade that waits for its own reader.
#[tokio::test(start_paused = true)]
async fn the_only_reader_becomes_a_writer_at_once() {
    let ensemble = Ensemble::new(3);
    let [a, b] = sessions(&ensemble).await;
    let reading = reads(&a).await;
    let token = reading.fencing_token();
    let writing = soon("there is no other reader", reading.upgrade())
        .await
        .unwrap();
    assert!(writing.is_valid() && writing.fencing_token() > token);
    assert_eq!(left(&ensemble), [writing.path().name().unwrap()]);
    assert!(rw(&b).reader().try_acquire().await.unwrap().is_none());
    // And back, and forth again.
    let reading = writing.downgrade().await.unwrap();
    let writing = reading.upgrade().await.unwrap();
    writing.release().await.unwrap();
    assert!(left(&ensemble).is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_waits_for_readers_and_blocks_new_ones() {
    let ensemble = Ensemble::new(3);
    let [a, b, c] = sessions(&ensemble).await;
    let (reading, other) = (reads(&a).await, reads(&b).await);
    let upgrading = tokio::spawn(reading.upgrade());
    let late = reader(&c).await;
    assert!(!upgrading.is_finished() && !late.is_finished());
    assert!(other.is_valid());
    other.release().await.unwrap();
    let writing = soon("the other reader has ended", upgrading)
        .await
        .unwrap()
        .unwrap();
    pass(Duration::from_secs(1)).await;
    assert!(writing.is_valid() && !late.is_finished());
    writing.release().await.unwrap();
    granted(late).await.release().await.unwrap();
    assert!(left(&ensemble).is_empty());
}

#[tokio::test(start_paused = true)]
async fn of_two_upgrades_one_fails_at_once_and_still_reads() {
    let ensemble = Ensemble::new(3);
    let [a, b] = sessions(&ensemble).await;
    let (one, other) = (reads(&a).await, reads(&b).await);
    let upgrading = tokio::spawn(one.upgrade());
    pass(Duration::from_millis(100)).await;
    let started = tokio::time::Instant::now();
    let error = soon("no wait", other.upgrade()).await.unwrap_err();
    assert!(started.elapsed() < Duration::from_millis(20));
    assert_eq!(error.class(), ErrorClass::Recoverable);
    assert!(
        matches!(&error, UpgradeError::Contended { writer, .. } if writer.contains("__WRIT__")),
        "{error:?}"
    );
    let other = error.into_guard().expect("it reads as before");
    assert!(other.is_valid() && !upgrading.is_finished());
    assert_eq!(left(&ensemble).len(), 3);
    other.release().await.unwrap();
    let writing = soon("there is no other reader", upgrading)
        .await
        .unwrap()
        .unwrap();
    assert!(writing.is_valid());
}

/// Whatever their timing, they are neither both granted nor both waiting.
#[tokio::test(start_paused = true)]
async fn exactly_one_of_concurrent_upgrades_succeeds() {
    for between in 0..12 {
        let ensemble = Ensemble::new(3);
        let [a, b] = sessions(&ensemble).await;
        let (one, other) = (reads(&a).await, reads(&b).await);
        let later = async {
            pass(Duration::from_micros(between * 500)).await;
            match other.upgrade().await {
                // As the error advises.
                Err(error) => error.into_guard().unwrap().release().await.map(|()| None),
                Ok(writing) => Ok(Some(writing)),
            }
        };
        let now = async {
            match one.upgrade().await {
                Err(error) => error.into_guard().unwrap().release().await.map(|()| None),
                Ok(writing) => Ok(Some(writing)),
            }
        };
        let (one, other) = soon("one continues", Box::pin(future::join(now, later))).await;
        let (one, other) = (one.unwrap(), other.unwrap());
        assert_ne!(one.is_some(), other.is_some(), "{between}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_with_a_writer_in_the_queue_is_refused_at_once() {
    let ensemble = Ensemble::new(3);
    let [a, b] = sessions(&ensemble).await;
    let reading = reads(&a).await;
    let waiting = writer(&b).await;
    let error = soon("no wait", reading.upgrade()).await.unwrap_err();
    let reading = error.into_guard().expect("it reads as before");
    assert!(!waiting.is_finished());
    assert_eq!(left(&ensemble).len(), 2);
    reading.release().await.unwrap();
    granted(waiting).await.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_that_times_out_returns_the_reader() {
    let ensemble = Ensemble::new(3);
    let [a, b, c] = sessions(&ensemble).await;
    let (mut reading, other) = (reads(&a).await, reads(&b).await);
    for limit in [0, 1, 3, 500] {
        let error = reading
            .upgrade_timeout(Duration::from_millis(limit))
            .await
            .unwrap_err();
        let UpgradeError::TimedOut { guard, timed_out } = error else {
            panic!("{error:?}");
        };
        assert!(guard.is_valid());
        if limit == 500 {
            assert_eq!(timed_out.ahead().unwrap().count(), 1, "{timed_out}");
        }
        reading = *guard;
        soon("the leftover is deleted", a.settled()).await;
        assert_eq!(left(&ensemble).len(), 2, "{limit} ms");
    }
    // New readers are granted again.
    reads(&c).await.release().await.unwrap();
    other.release().await.unwrap();
    let writing = reading.upgrade_timeout(Duration::from_secs(1)).await;
    writing.unwrap().release().await.unwrap();
}

/// The composition of the page of `RwLock`: a lock for those who write, and readers beside.
#[tokio::test(start_paused = true)]
async fn upgrades_of_those_who_hold_the_writers_lock_are_never_contended() {
    let ensemble = Ensemble::new(3);
    let plain = async |session: &Session| {
        for _ in 0..20 {
            let reading = reads(session).await;
            pass(Duration::from_millis(3)).await;
            reading.release().await.unwrap();
        }
    };
    let upgrades = async |session: &Session| {
        let writers = FairLock::new(session, "/writers").unwrap();
        for at in 0..20 {
            let only_writer = writers.acquire().await.unwrap();
            if at % 3 == 0 {
                let writing = rw(session).writer().acquire().await.unwrap();
                writing.release().await.unwrap();
            } else {
                let writing = reads(session).await.upgrade().await.unwrap();
                writing.release().await.unwrap();
            }
            only_writer.release().await.unwrap();
        }
    };
    let [a, b, c, d] = sessions(&ensemble).await;
    let all = async { tokio::join!(plain(&a), plain(&b), upgrades(&c), upgrades(&d)) };
    soon("none waits for ever", Box::pin(all)).await;
    assert_eq!(left(&ensemble).len(), 0);
}
