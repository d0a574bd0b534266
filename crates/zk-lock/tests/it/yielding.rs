//! Guards that are yielded.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use zk_fault_proxy::{Match, Rule};
use zk_harness::Ensemble;
use zk_lock::{FairLock, Guard, LockLoss, RwLock};

use crate::{connect, names, soon, until_enlisted};

const PATH: &str = "/yielding";

/// The fencing token of the holder; zero while there is none.
#[derive(Debug, Clone, Default)]
struct Resource(Arc<AtomicU64>);

impl Resource {
    /// Works with the lock for a while, alone.
    async fn work(&self, guard: &Guard) {
        assert!(guard.is_valid());
        let token = guard.fencing_token().as_u64();
        assert_eq!(self.0.swap(token, Ordering::SeqCst), 0, "another one works");
        zk_sim::wait::pass(Duration::from_millis(3)).await;
        assert_eq!(self.0.swap(0, Ordering::SeqCst), token, "another one works");
    }
}

/// Five sessions work in pieces, and the connection of each breaks at the request or the reply of every few yields.
#[tokio::test(flavor = "multi_thread")]
async fn lock_goes_round_while_requests_and_replies_of_yields_are_cut() {
    let ensemble = Ensemble::builder().servers(3).proxied(true);
    let ensemble = ensemble.start().await.expect("the servers start");
    let proxy = ensemble.proxy().expect("it has a proxy");
    let observer = connect(&ensemble).await;
    let resource = Resource::default();
    let held = FairLock::new(&observer, PATH).unwrap();
    let held = held.acquire().await.unwrap();
    let (mut working, mut cuts) = (Vec::new(), Vec::new());
    for at in 0..5 {
        let session = connect(&ensemble).await;
        let yields = || Match::multi(format!("{PATH}/**")).session(session.id().as_i64());
        for nth in [2, 5] {
            cuts.push(proxy.on(yields()).nth(nth).drop_then_cut());
            cuts.push(proxy.on(yields()).nth(nth + 1).cut_on_reply());
        }
        let resource = resource.clone();
        working.push(tokio::spawn(async move {
            let lock = FairLock::new(&session, PATH).unwrap();
            let mut guard = lock.acquire().await.unwrap();
            for _ in 0..10 {
                resource.work(&guard).await;
                let token = guard.fencing_token();
                guard = guard.yield_now().await.unwrap();
                assert!(guard.fencing_token() >= token);
            }
            resource.work(&guard).await;
            guard.release().await.unwrap();
            session
        }));
        until_enlisted(&observer, PATH, at + 2).await;
    }
    held.release().await.unwrap();
    for working in working {
        let session = soon("it has had its turns", working).await.unwrap();
        soon("nothing is left to clean up", session.settled()).await;
    }
    assert_eq!(names(&observer, PATH).await, [""; 0]);
    let struck: u64 = cuts.iter().map(Rule::count).sum();
    assert!(struck > 12, "only {struck} of {} cuts", cuts.len());
    ensemble.down().await.expect("the servers go down");
}

#[tokio::test(flavor = "multi_thread")]
async fn reader_yields_to_a_writer_and_back() {
    crate::with_servers(3, async |ensemble| {
        let (one, other) = (connect(ensemble).await, connect(ensemble).await);
        let reading = RwLock::new(&one, PATH).unwrap();
        let writing = RwLock::new(&other, PATH).unwrap();
        let mut reader = reading.reader().acquire().await.unwrap();
        let token = reader.fencing_token();
        reader = reader.yield_now().await.unwrap();
        assert_eq!(reader.fencing_token(), token, "there is no waiter");
        let waiting = tokio::spawn(async move { writing.writer().acquire().await.unwrap() });
        until_enlisted(&one, PATH, 2).await;
        let again = tokio::spawn(reader.yield_now());
        let writer = soon("the writer is granted the lock", waiting)
            .await
            .unwrap();
        let token = writer.fencing_token();
        until_enlisted(&one, PATH, 2).await;
        assert!(!again.is_finished());
        let writer = tokio::spawn(writer.yield_now());
        let reader = soon("the reader is granted again", again).await;
        let reader = reader.unwrap().unwrap();
        assert!(reader.fencing_token() > token);
        assert!(!writer.is_finished());
        reader.release().await.unwrap();
        let writer = soon("the writer is granted again", writer).await;
        writer.unwrap().unwrap().release().await.unwrap();
        assert_eq!(names(&one, PATH).await, [""; 0]);
    })
    .await;
}

/// The holder is notified before another contender can have the lock, however late the reply is.
#[tokio::test(flavor = "multi_thread")]
async fn a_guard_is_lost_before_its_yield_is_answered() {
    let ensemble = Ensemble::builder().servers(1).proxied(true);
    let ensemble = ensemble.start().await.expect("the servers start");
    let proxy = ensemble.proxy().expect("it has a proxy");
    let (one, other) = (connect(&ensemble).await, connect(&ensemble).await);
    let guard = FairLock::new(&one, PATH).unwrap().acquire().await.unwrap();
    let lock = FairLock::new(&other, PATH).unwrap();
    let waiting = tokio::spawn(async move { lock.acquire().await.unwrap() });
    until_enlisted(&one, PATH, 2).await;
    let replies = Match::multi(format!("{PATH}/**")).session(one.id().as_i64());
    let held = proxy.on(replies.reply()).hold();
    let lost = guard.lost();
    let again = tokio::spawn(guard.yield_now());
    let theirs = soon("the other one is granted the lock", waiting).await;
    let loss = soon("the first one is notified", lost).await;
    assert_eq!(loss, LockLoss::Released);
    assert!(!again.is_finished());
    held.remove();
    theirs.unwrap().release().await.unwrap();
    let guard = soon("it is granted again", again).await.unwrap();
    guard.unwrap().release().await.unwrap();
    ensemble.down().await.expect("the servers go down");
}
