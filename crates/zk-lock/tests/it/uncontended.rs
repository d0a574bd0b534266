//! Locks that one session takes again and again, without a list, and what ends that.

use zk_core::Session;
use zk_fault_proxy::{Clients, Close, FaultProxy, Match, Route};
use zk_harness::Ensemble;
use zk_lock::{FairLock, Guard};

use crate::{connect, eventually, names, soon};

/// How often each interference is tried: what the servers do first is theirs to decide.
const TIMES: u32 = 8;

/// What happens between two turns of a session that has been alone.
#[derive(Debug, Clone, Copy)]
enum Meanwhile {
    /// Another session takes the lock.
    Taken,
    /// Another session makes the path anew, and holds the lock with the number that the first one had last, so that the
    /// first one joins with its next number.
    NewPath,
    /// The same, while the first session has no connection.
    NewPathBehindACut,
}

async fn turn(lock: &FairLock) {
    let guard = lock.acquire().await.unwrap();
    assert!(guard.is_valid());
    guard.release().await.unwrap();
}

/// How many lists a session has asked for.
fn lists(proxy: &FaultProxy, session: &Session, path: &str) -> usize {
    let lists = Match::children(path).session(session.id().as_i64());
    proxy.log().count(&lists)
}

/// Takes the lock by turns until that needs no list.
async fn used_alone(proxy: &FaultProxy, session: &Session, path: &str) -> FairLock {
    let lock = FairLock::new(session, path).unwrap();
    for _ in 0..3 {
        turn(&lock).await;
    }
    let before = lists(proxy, session, path);
    assert!(before > 0, "the first turns list the queue");
    for _ in 0..5 {
        turn(&lock).await;
    }
    assert_eq!(lists(proxy, session, path), before, "{path}");
    lock
}

/// Makes the path anew, and takes the lock with this number.
async fn take_in_new_path(other: &Session, path: &str, number: u32) -> Guard {
    other.delete(path).await.unwrap();
    other.create(path, "").await.unwrap();
    let lock = FairLock::new(other, path).unwrap();
    for _ in 0..number {
        turn(&lock).await;
    }
    lock.acquire().await.unwrap()
}

async fn interfere(
    proxy: &FaultProxy,
    one: &Session,
    other: &Session,
    meanwhile: Meanwhile,
    path: &str,
) {
    // Not a container, which the servers may delete at any time between two turns.
    other.create(path, "").await.unwrap();
    let ours = used_alone(proxy, one, path).await;
    // Eight turns have the numbers from 0 on.
    let last = 7;
    let held = match meanwhile {
        Meanwhile::Taken => {
            let lock = FairLock::new(other, path).unwrap();
            lock.acquire().await.unwrap()
        }
        Meanwhile::NewPath => take_in_new_path(other, path, last).await,
        Meanwhile::NewPathBehindACut => {
            let clients = Clients::Session(one.id().as_i64());
            proxy.route(clients, Route::Refuse).unwrap();
            assert_eq!(proxy.cut(clients, Close::Rst).await, 1);
            let held = take_in_new_path(other, path, last).await;
            proxy.route(clients, Route::SameServer).unwrap();
            held
        }
    };
    let number = match meanwhile {
        Meanwhile::Taken => last + 1,
        Meanwhile::NewPath | Meanwhile::NewPathBehindACut => last,
    };
    let number = format!("{number:010}");
    assert!(held.path().as_str().ends_with(&number), "{}", held.path());
    let waiting = tokio::spawn(async move { ours.acquire().await });
    eventually("the first one waits, or holds the lock too", async || {
        waiting.is_finished() || names(other, path).await.len() == 2
    })
    .await;
    // A contender that does not list the queue is granted the lock by the reply to its create, which comes before these.
    for _ in 0..3 {
        one.sync(path).with_quorum().await.unwrap();
    }
    assert!(!waiting.is_finished(), "{path}: two hold the lock");
    assert!(held.is_valid());
    held.release().await.unwrap();
    let guard = soon("the waiter is granted the lock", waiting).await;
    guard.unwrap().unwrap().release().await.unwrap();
    assert_eq!(names(other, path).await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_alone_needs_no_list_and_notices_what_ends_that() {
    // Servers that stand still for a moment break no connection.
    let ensemble = Ensemble::builder().servers(3).proxied(true).sync_limit(50);
    let ensemble = ensemble.start().await.expect("the servers start");
    let proxy = ensemble.proxy().expect("it has a proxy");
    for meanwhile in [
        Meanwhile::Taken,
        Meanwhile::NewPath,
        Meanwhile::NewPathBehindACut,
    ] {
        for time in 0..TIMES {
            let (one, other) = (connect(&ensemble).await, connect(&ensemble).await);
            let path = format!("/{meanwhile:?}-{time}");
            interfere(&proxy, &one, &other, meanwhile, &path).await;
            one.close().await.unwrap();
            other.close().await.unwrap();
        }
    }
    ensemble.down().await.expect("the servers go down");
}
