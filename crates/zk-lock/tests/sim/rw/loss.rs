//! The session or a node is lost, in every state.

use std::time::Duration;

use zk_lock::{AcquireError, DowngradeError, LockLoss, UpgradeError};
use zk_sim::{Ensemble, matching};

use super::{READERS, WRITERS, granted, reader, reads, rw, sessions, writer, writes};
use crate::{left, pass, soon};

#[tokio::test(start_paused = true)]
async fn expired_waiters_fail_and_expired_holders_are_notified() {
    let ensemble = Ensemble::new(3);
    let [a, b, c, d] = sessions(&ensemble).await;
    let (one, other) = (reads(&a).await, reads(&b).await);
    let waiting = writer(&c).await;
    let behind = reader(&d).await;
    ensemble.expire(c.id());
    let error = soon("the writer ends", waiting).await.unwrap().unwrap_err();
    assert!(
        matches!(error, AcquireError::SessionLost { .. }),
        "{error:?}"
    );
    // The reader waits for no contender any more.
    granted(behind).await.release().await.unwrap();
    let waiting = writer(&d).await;
    ensemble.expire(a.id());
    assert_eq!(
        soon("it is notified", one.lost()).await,
        LockLoss::SessionLost
    );
    pass(Duration::from_secs(1)).await;
    assert!(other.is_valid() && !waiting.is_finished());
    ensemble.expire(b.id());
    granted(waiting).await.release().await.unwrap();
    assert!(left(&ensemble).is_empty());
    let error = rw(&a).reader().try_acquire().await.unwrap_err();
    assert!(
        matches!(error, AcquireError::SessionLost { .. }),
        "{error:?}"
    );
}

/// A reader that is cut off stops relying on its lock before a writer is granted it.
#[tokio::test(start_paused = true)]
async fn a_reader_that_is_cut_off_gives_up_before_a_writer_is_granted() {
    let ensemble = Ensemble::new(3);
    let [a, b] = sessions(&ensemble).await;
    let reading = reads(&a).await;
    let mut waiting = writer(&b).await;
    ensemble.session(a.id()).partition();
    tokio::select! {
        biased;
        guard = &mut waiting => panic!("granted while a reader relies on its lock: {guard:?}"),
        loss = reading.lost() => assert_eq!(loss, LockLoss::SessionLeaseExpired),
    }
    let writing = granted(waiting).await;
    assert!(writing.is_valid() && !reading.is_valid());
    assert!(writing.fencing_token() > reading.fencing_token());
}

/// The session expires before, while and after each request of a downgrade.
#[tokio::test(start_paused = true)]
async fn a_downgrade_is_lost_when_its_session_expires() {
    for (at, pattern) in [("create", READERS), ("delete", WRITERS)] {
        for carried_out in [false, true] {
            let what = format!("{at}, carried out: {carried_out}");
            let ensemble = Ensemble::new(3);
            let [a, b] = sessions(&ensemble).await;
            let writing = writes(&a).await;
            let waiting = writer(&b).await;
            let on = match at {
                "create" => ensemble.on(matching::creates(pattern)),
                _ => ensemble.on(matching::deletes(pattern)),
            };
            let script = if carried_out { on.hold() } else { on.stall() };
            let changing = tokio::spawn(writing.downgrade());
            script.happened().await;
            ensemble.expire(a.id());
            script.release();
            let loss = match soon(&what, changing).await.unwrap() {
                Err(DowngradeError::Lost { loss, .. }) => loss,
                // The reply to the last request came before the notification of the expiry.
                Ok(reading) if at == "delete" && carried_out => soon(&what, reading.lost()).await,
                other => panic!("{what}: {other:?}"),
            };
            assert_eq!(loss, LockLoss::SessionLost, "{what}");
            let writing = granted(waiting).await;
            assert_eq!(left(&ensemble), [writing.path().name().unwrap()], "{what}");
        }
    }
    let ensemble = Ensemble::new(3);
    let [a] = sessions(&ensemble).await;
    let writing = writes(&a).await;
    ensemble.expire(a.id());
    soon("it is notified", writing.lost()).await;
    let error = writing.downgrade().await.unwrap_err();
    assert!(matches!(error, DowngradeError::Lost { .. }), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_whose_session_expires_is_lost() {
    // While it joins the queue, while it waits for another reader, while it deletes the reader's node.
    for at in ["create", "wait", "delete"] {
        let ensemble = Ensemble::new(3);
        let [a, b] = sessions(&ensemble).await;
        let reading = reads(&a).await;
        let other = reads(&b).await;
        let script = match at {
            "create" => ensemble.on(matching::creates(WRITERS)).stall(),
            "wait" => ensemble.on(matching::gets(READERS)).lose_reply(),
            _ => {
                other.release().await.unwrap();
                ensemble.on(matching::deletes(READERS)).stall()
            }
        };
        let changing = tokio::spawn(reading.upgrade());
        script.happened().await;
        pass(Duration::from_millis(if at == "wait" { 100 } else { 5 })).await;
        ensemble.expire(a.id());
        script.release();
        let error = soon(at, changing).await.unwrap().expect_err(at);
        assert!(
            matches!(
                error,
                UpgradeError::Lost {
                    loss: LockLoss::SessionLost,
                    ..
                }
            ),
            "{at}: {error:?}"
        );
    }
}

/// Another client deletes the writer's node, and another writer is granted the lock; the downgrade comes too late, even
/// if the deletion was not noticed yet.
#[tokio::test(start_paused = true)]
async fn a_writer_whose_node_was_deleted_is_no_reader() {
    for noticed in [false, true] {
        let ensemble = Ensemble::new(3);
        let [a, b] = sessions(&ensemble).await;
        let writing = writes(&a).await;
        b.delete(writing.path()).await.unwrap();
        let second = rw(&b).writer().try_acquire().await.unwrap().expect("free");
        if noticed {
            assert_eq!(
                soon("it is notified", writing.lost()).await,
                LockLoss::NodeDeleted
            );
        }
        assert_eq!(writing.is_valid(), !noticed);
        let error = soon("it ends", writing.downgrade()).await.unwrap_err();
        assert!(
            matches!(
                error,
                DowngradeError::Lost {
                    loss: LockLoss::NodeDeleted,
                    ..
                }
            ),
            "{error:?}"
        );
        soon("nothing is left to do", a.settled()).await;
        assert_eq!(left(&ensemble), [second.path().name().unwrap()]);
        second.release().await.unwrap();
    }
}

/// Then others may have written since it read.
#[tokio::test(start_paused = true)]
async fn a_reader_whose_node_was_deleted_does_not_become_a_writer() {
    for noticed in [false, true] {
        let ensemble = Ensemble::new(3);
        let [a, b] = sessions(&ensemble).await;
        let reading = reads(&a).await;
        if noticed {
            pass(Duration::from_millis(100)).await;
        }
        b.delete(reading.path()).await.unwrap();
        writes(&b).await.release().await.unwrap();
        if noticed {
            assert_eq!(
                soon("it is notified", reading.lost()).await,
                LockLoss::NodeDeleted
            );
        }
        let error = reading.upgrade().await.unwrap_err();
        assert!(
            matches!(
                error,
                UpgradeError::Lost {
                    loss: LockLoss::NodeDeleted,
                    ..
                }
            ),
            "{error:?}"
        );
        soon("nothing is left to do", a.settled()).await;
        assert!(left(&ensemble).is_empty());
    }
}

/// Another client deletes the writer's node of an upgrade; the reader stays.
#[tokio::test(start_paused = true)]
async fn an_upgrade_whose_new_node_is_deleted_gives_the_reader_back() {
    let ensemble = Ensemble::new(3);
    let [a, b] = sessions(&ensemble).await;
    let (reading, other) = (reads(&a).await, reads(&b).await);
    let changing = tokio::spawn(reading.upgrade());
    pass(Duration::from_millis(100)).await;
    let name = left(&ensemble)
        .into_iter()
        .find(|name| name.contains("__WRIT__"))
        .unwrap();
    b.delete(format!("{}/{name}", crate::PATH)).await.unwrap();
    other.release().await.unwrap();
    let error = soon("it is notified", changing).await.unwrap().unwrap_err();
    assert!(
        matches!(
            error,
            UpgradeError::Failed {
                source: AcquireError::NodeDeleted { .. },
                ..
            }
        ),
        "{error:?}"
    );
    assert!(error.into_guard().unwrap().is_valid());
}
