//! Locks that threads without a runtime hold.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use zk_core::Session;
use zk_core::blocking::block_on;
use zk_harness::Ensemble;
use zk_lock::{AcquireError, FairLock, LockLoss, ReleaseError};

use crate::{connect, eventually, names, soon, until_enlisted};

#[test]
fn eight_threads_of_two_sessions_count_every_step_once() {
    let (ensemble, session) = started();
    let second = block_on(connect(&ensemble));
    block_on(session.create("/count", "0")).unwrap();
    let is_inside = std::sync::Arc::new(AtomicBool::new(false));
    let threads: Vec<_> = (0..8)
        .map(|number| {
            let session = [&session, &second][number % 2].clone();
            let is_inside = std::sync::Arc::clone(&is_inside);
            thread::spawn(move || {
                let lock = FairLock::new(&session, "/lock").unwrap();
                for step in 0..5 {
                    let guard = match step {
                        0 => block_on(lock.try_acquire()).unwrap(),
                        1 => Some(block_on(lock.acquire_timeout(LIMIT)).unwrap()),
                        _ => None,
                    };
                    let guard = guard.unwrap_or_else(|| block_on(lock.acquire()).unwrap());
                    assert!(
                        !is_inside.swap(true, Ordering::SeqCst),
                        "two threads hold it"
                    );
                    // Neither a version nor a transaction protects the count: the lock alone does.
                    let (data, _) = block_on(session.get("/count")).unwrap();
                    let count: u32 = std::str::from_utf8(&data).unwrap().parse().unwrap();
                    block_on(session.set("/count", (count + 1).to_string())).unwrap();
                    assert!(guard.is_valid());
                    is_inside.store(false, Ordering::SeqCst);
                    if step % 2 == 0 {
                        block_on(guard.release()).unwrap();
                    } else {
                        drop(guard);
                    }
                }
            })
        })
        .collect();
    for thread in threads {
        joined("a thread has counted", thread);
    }
    assert_eq!(block_on(session.get("/count")).unwrap().0, "40");
    block_on(session.settled());
    block_on(second.settled());
    assert!(block_on(names(&session, "/lock")).is_empty());
    block_on(ensemble.down()).unwrap();
}

#[test]
fn threads_are_notified_when_their_lock_or_session_is_lost() {
    let (ensemble, session) = started();
    let admin = block_on(connect(&ensemble));
    let lock = FairLock::new(&session, "/lock").unwrap();

    let guard = block_on(lock.acquire()).unwrap();
    let lost = guard.lost();
    let observer = thread::spawn(move || block_on(lost));
    block_on(admin.delete(guard.path())).unwrap();
    assert_eq!(
        joined("the deletion is noticed", observer),
        LockLoss::NodeDeleted
    );
    assert!(!guard.is_valid());
    assert_eq!(guard.loss(), Some(LockLoss::NodeDeleted));
    let error = block_on(guard.release()).unwrap_err();
    assert!(matches!(error, ReleaseError::Lost { .. }), "{error:?}");

    let guard = block_on(lock.acquire()).unwrap();
    let waiter = thread::spawn(move || block_on(lock.acquire()));
    block_on(until_enlisted(&admin, "/lock", 2));
    let lost = guard.lost();
    let observer = thread::spawn(move || block_on(lost));
    block_on(ensemble.expire(session.id().as_i64())).unwrap();
    // The end of the lease may be noticed first.
    let loss = joined("the loss is noticed", observer);
    assert!(
        matches!(
            loss,
            LockLoss::SessionLost | LockLoss::SessionLeaseExpired | LockLoss::NodeDeleted
        ),
        "{loss:?}"
    );
    assert!(!guard.is_valid());
    let error = joined("the waiter is notified", waiter).unwrap_err();
    assert!(
        matches!(error, AcquireError::SessionLost { .. }),
        "{error:?}"
    );
    drop(guard);
    block_on(ensemble.down()).unwrap();
}

#[test]
fn a_thread_that_panics_or_gives_up_leaves_the_lock_to_others() {
    let (ensemble, session) = started();
    let lock = FairLock::new(&session, "/lock").unwrap();
    let (theirs, session_of_holder) = (lock.clone(), session.clone());
    let holder = thread::spawn(move || {
        let _guard = block_on(theirs.acquire()).unwrap();
        let error = block_on(theirs.acquire_timeout(Duration::from_millis(50))).unwrap_err();
        assert!(matches!(error, AcquireError::TimedOut(_)), "{error:?}");
        assert!(block_on(theirs.try_acquire()).unwrap().is_none());
        block_on(session_of_holder.settled());
        assert_eq!(block_on(names(&session_of_holder, "/lock")).len(), 1);
        panic!("as the test wants it");
    });
    let panicked = joined("the holder panics", thread::spawn(move || holder.join()));
    let reason = panicked.unwrap_err();
    assert_eq!(reason.downcast_ref::<&str>(), Some(&"as the test wants it"));
    let guard = block_on(soon("the lock is free", lock.acquire())).unwrap();
    block_on(guard.release()).unwrap();

    // Sessions end when all of their handles are dropped, and no runtime is here.
    let guard = block_on(lock.acquire()).unwrap();
    let path = guard.path().clone();
    let admin = block_on(connect(&ensemble));
    let dropping = thread::spawn(move || {
        drop(session);
        drop(lock);
        drop(guard);
    });
    joined("all is dropped", dropping);
    block_on(eventually("the node is deleted", async || {
        admin.exists(&path).await.unwrap().is_none()
    }));
    block_on(ensemble.down()).unwrap();
}

fn started() -> (Ensemble, Session) {
    let ensemble = block_on(Ensemble::builder().servers(1).start()).expect("a server starts");
    let session = block_on(connect(&ensemble));
    (ensemble, session)
}

/// The result of a thread that ends within the limit of all waits.
fn joined<T: Send + 'static>(what: &str, thread: JoinHandle<T>) -> T {
    let (sender, ended) = std::sync::mpsc::channel();
    thread::spawn(move || sender.send(thread.join()));
    let result = ended.recv_timeout(LIMIT);
    let result = result.unwrap_or_else(|_| panic!("not within {LIMIT:?}: {what}"));
    result.expect("the thread does not panic")
}

const LIMIT: Duration = Duration::from_secs(120);
