//! Threads without a runtime.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use zk_core::blocking::{block_on, block_on_timeout};
use zk_core::{ErrorKind, Session, SessionEnd};
use zk_harness::Ensemble;

use crate::{MAX_WAIT, connect, until, with_ensemble};

#[test]
fn threads_share_a_session_without_a_runtime() {
    let (ensemble, session) = started();
    let threads: Vec<_> = (0..8)
        .map(|number| {
            let session = session.clone();
            thread::spawn(move || {
                let path = format!("/all/{number}");
                block_on(session.create(&path, "first").parents().ephemeral()).unwrap();
                for version in 0..10 {
                    let (_, stat) = block_on(session.get(&path)).unwrap();
                    assert_eq!(stat.version, version);
                    block_on(session.set(&path, "next").version(version)).unwrap();
                    block_on(session.update("/sum", add_one).or_create("0")).unwrap();
                }
                if number % 2 == 0 {
                    block_on(session.delete(&path)).unwrap();
                }
            })
        })
        .collect();
    for thread in threads {
        joined("a thread is done", thread);
    }
    let (mut names, _) = block_on(session.list("/all")).unwrap();
    names.sort();
    assert_eq!(names, ["1", "3", "5", "7"]);
    assert_eq!(block_on(session.get("/sum")).unwrap().0, "80");

    // The end of a session reaches the servers although no thread waits for anything.
    block_on(session.close()).unwrap();
    let other = block_on(connect(&ensemble));
    assert!(block_on(other.list("/all")).unwrap().0.is_empty());
    block_on(ensemble.down()).unwrap();
}

#[test]
fn a_session_dropped_by_a_thread_ends() {
    let (ensemble, session) = started();
    let other = block_on(connect(&ensemble));
    let (mine, _) = block_on(session.create("/mine", "").ephemeral()).unwrap();
    let node = block_on(session.create("/owned", "").owned()).unwrap();
    let owned = node.path().clone();
    let thread = thread::spawn(move || drop(node));
    joined("the handle is dropped", thread);
    block_on(other.wait_for_deletion(&owned)).unwrap();
    let thread = thread::spawn(move || drop(session));
    joined("the session is dropped", thread);
    block_on(until("the session is ended", async || {
        other.exists(&mine).await.unwrap().is_none()
    }));
    block_on(ensemble.down()).unwrap();
}

#[test]
fn threads_that_wait_are_notified_of_the_loss_of_their_session() {
    let (ensemble, session) = started();
    let (one, two) = (session.clone(), session.clone());
    let lost = thread::spawn(move || block_on(one.lost()));
    let waiting =
        thread::spawn(move || block_on(two.wait_for_creation("/never").timeout(MAX_WAIT)));
    block_on(until("a thread waits", async || {
        ensemble.server(1).unwrap().wchs().await.unwrap().watches == 1
    }));
    block_on(ensemble.expire(session.id().as_i64())).unwrap();
    let end = joined("a thread is notified", lost);
    assert_eq!(end, SessionEnd::Expired);
    let error = joined("a wait ends", waiting).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SessionExpired, "{error}");
    assert!(!session.keep_lease().is_valid());
    let error = block_on(session.get("/")).unwrap_err();
    assert!(error.is_fatal(), "{error}");
    // The next session of the application.
    let next = block_on(connect(&ensemble));
    block_on(next.get("/")).unwrap();
    block_on(ensemble.down()).unwrap();
}

#[test]
fn a_wait_is_given_up_at_its_limit_and_leaves_nothing() {
    let (ensemble, session) = started();
    let limit = Duration::from_millis(50);
    let waited = block_on_timeout(limit, session.wait_for_creation("/later"));
    assert!(waited.is_none(), "{waited:?}");
    assert!(block_on_timeout(limit, std::future::pending::<()>()).is_none());
    // A limit that the clock cannot represent is none.
    let read = block_on_timeout(Duration::MAX, session.get("/")).unwrap();
    read.unwrap();
    block_on(until("no watch is left", async || {
        ensemble.server(1).unwrap().wchs().await.unwrap().watches == 0
    }));
    block_on(ensemble.down()).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_would_block_panics_and_other_threads_may() {
    with_ensemble(async |ensemble| {
        // Of this runtime, which other threads may wait for as well.
        let session = connect(ensemble).await;
        for is_limited in [false, true] {
            let call = AssertUnwindSafe(|| {
                if is_limited {
                    block_on_timeout(MAX_WAIT, session.get("/")).unwrap()
                } else {
                    block_on(session.get("/"))
                }
            });
            let panicked = catch_unwind(call).unwrap_err();
            let message = panicked.downcast_ref::<String>().cloned();
            let message = message
                .or_else(|| {
                    panicked
                        .downcast_ref::<&str>()
                        .map(|text| (*text).to_owned())
                })
                .unwrap();
            assert!(message.contains("from within a runtime"), "{message}");
        }
        // Nothing is broken by that.
        let mine = session.clone();
        let read = tokio::task::spawn_blocking(move || block_on(mine.get("/")));
        read.await.unwrap().unwrap();
        let mine = session.clone();
        let thread = thread::spawn(move || {
            let within = || block_on(async { catch_unwind(|| block_on(async {})) });
            assert!(within().is_err());
            block_on(mine.get("/"))
        });
        let joined = tokio::task::spawn_blocking(move || thread.join().unwrap());
        joined.await.unwrap().unwrap();
    })
    .await;
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
    let result = ended.recv_timeout(MAX_WAIT);
    let result = result.unwrap_or_else(|_| panic!("waited {MAX_WAIT:?} for this: {what}"));
    result.expect("the thread does not panic")
}

#[expect(clippy::unnecessary_wraps, reason = "the signature of a change")]
fn add_one(data: &[u8]) -> Option<Vec<u8>> {
    let sum: u32 = std::str::from_utf8(data).unwrap().parse().unwrap();
    Some((sum + 1).to_string().into_bytes())
}
