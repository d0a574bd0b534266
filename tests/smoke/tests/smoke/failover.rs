//! What a session holds when the leader of the ensemble dies.

use zk_core::codec::Text;
use zk_leader::LeaderLatch;
use zk_lock::FairLock;
use zk_queue::WorkQueue;

use super::{connect, soon, three_servers};

/// A holder, a leader and a consumer keep what they have, and what they release goes to those who waited meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_held_is_kept_when_the_leader_dies() {
    let ensemble = three_servers().await;
    let (holder, waiter) = (connect(&ensemble).await, connect(&ensemble).await);

    let lock = FairLock::new(&holder, "/lock").unwrap();
    let guard = lock.acquire().await.unwrap();
    let leader = LeaderLatch::new(&holder, "/election").unwrap().join();
    soon("it leads", leader.handle().leading()).await.unwrap();
    let queue = WorkQueue::new(&holder, "/work", Text).unwrap();
    queue.offer(&"item".to_owned()).await.unwrap();
    let claim = queue.claim().await.unwrap();

    let next = FairLock::new(&waiter, "/lock").unwrap();
    let next = tokio::spawn(async move { next.acquire().await });
    let successor = LeaderLatch::new(&waiter, "/election").unwrap().join();

    ensemble.leader().await.unwrap().kill().await.unwrap();
    ensemble.wait_quorum().await.unwrap();

    let guarded = guard.txn().create("/guarded", "by the lock").commit();
    soon("a write under the lock", guarded).await.unwrap();
    assert!(guard.is_valid() && leader.handle().is_leader());
    assert!(!next.is_finished(), "the lock is held");
    claim.acknowledge().await.unwrap();

    let token = guard.fencing_token();
    guard.release().await.unwrap();
    let next = soon("the waiter has the lock", next)
        .await
        .unwrap()
        .unwrap();
    assert!(next.fencing_token() > token);
    next.release().await.unwrap();
    leader.leave().await;
    soon("the other one leads", successor.handle().leading())
        .await
        .unwrap();
    successor.leave().await;
    let queue = WorkQueue::new(&waiter, "/work", Text).unwrap();
    assert!(queue.try_claim().await.unwrap().is_none(), "it is done");

    holder.close().await.unwrap();
    waiter.close().await.unwrap();
    ensemble.down().await.unwrap();
}
