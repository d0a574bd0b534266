//! Leaders that lose their servers, their connection or their session.

use zk_fault_proxy::{Clients, Close, Route};
use zk_leader::{LeaderLatch, LeadershipLoss, ParticipantEnd};

use crate::{LONG, connect, leading, soon, until_waiting, with_servers};

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_survives_the_death_of_the_leading_server() {
    with_servers(3, async |ensemble| {
        let (one, other) = (connect(ensemble).await, connect(ensemble).await);
        let first = LeaderLatch::new(&one, "/a").unwrap().join();
        let lease = leading(&first).await;
        let second = LeaderLatch::new(&other, "/a").unwrap().join();
        until_waiting(&second).await;
        let leader = ensemble.wait_leader(LONG).await.unwrap();
        leader.kill().await.unwrap();
        ensemble.wait_quorum().await.unwrap();
        soon("it resigns", first.handle().leave()).await;
        let next = leading(&second).await;
        assert!(next.fencing_token() > lease.fencing_token());
    })
    .await;
}

/// The ensemble expires the leader's session; the next participant leads, and a new session joins.
#[tokio::test(flavor = "multi_thread")]
async fn an_expired_leader_ends_and_joins_with_the_next_session() {
    with_servers(1, async |ensemble| {
        let (one, other) = (connect(ensemble).await, connect(ensemble).await);
        let first = LeaderLatch::new(&one, "/a").unwrap().join();
        let lease = leading(&first).await;
        let second = LeaderLatch::new(&other, "/a").unwrap().join();
        until_waiting(&second).await;
        ensemble.expire(one.id().as_i64()).await.unwrap();
        let end = soon("it ends", first.handle().ended()).await;
        assert!(matches!(end, ParticipantEnd::SessionLost), "{end:?}");
        assert_eq!(lease.lost().await, LeadershipLoss::SessionLost);
        let next = leading(&second).await;
        assert!(!lease.is_valid() && next.is_valid());

        let again = LeaderLatch::new(&connect(ensemble).await, "/a")
            .unwrap()
            .join();
        until_waiting(&again).await;
        second.leave().await;
        let again = leading(&again).await;
        assert!(again.fencing_token() > next.fencing_token());
    })
    .await;
}

/// Cut off from all servers, the leader steps down before the next one leads.
#[tokio::test(flavor = "multi_thread")]
async fn a_partitioned_leader_steps_down_before_the_next_one_leads() {
    with_servers(3, async |ensemble| {
        let (one, other) = (connect(ensemble).await, connect(ensemble).await);
        let first = LeaderLatch::new(&one, "/a").unwrap().join();
        let lease = leading(&first).await;
        let second = LeaderLatch::new(&other, "/a").unwrap().join();
        until_waiting(&second).await;
        let lost = tokio::spawn(lease.lost());
        let proxy = ensemble.proxy().unwrap();
        let session = Clients::Session(one.id().as_i64());
        proxy.route(session, Route::Refuse).unwrap();
        proxy.cut(session, Close::Rst).await;
        let next = leading(&second).await;
        // By the clock, however late this task is.
        assert!(!first.is_leader() && !lease.is_valid());
        let loss = soon("the loss is reported", lost).await.unwrap();
        assert_eq!(loss, LeadershipLoss::SessionLeaseExpired);
        assert!(next.fencing_token() > lease.fencing_token());
        proxy.heal();
        let end = soon("it learns the rest", first.handle().ended()).await;
        assert!(matches!(end, ParticipantEnd::SessionLost), "{end:?}");
        soon("it leaves", second.leave()).await;
    })
    .await;
}
