//! Elections without failures.

use std::ops::ControlFlow;
use std::time::Duration;

use zk_core::Acl;
use zk_leader::{ElectionOptions, LeaderLatch, LeaderLease, ParticipantEnd, Selector};
use zk_sim::wait::until;

use crate::{connect, leading, soon, until_waiting, with_servers};

#[tokio::test(flavor = "multi_thread")]
async fn leadership_goes_round_among_latches_and_leaves_nothing() {
    with_servers(1, async |ensemble| {
        let (one, other) = (connect(ensemble).await, connect(ensemble).await);
        let options = ElectionOptions::default().with_acl(Acl::open());
        let latches = [
            LeaderLatch::with_options(&one, "/a/b", &options).unwrap(),
            LeaderLatch::new(&other, "/a/b").unwrap(),
        ];
        let first = latches[0].join();
        let mut last = leading(&first).await.fencing_token();
        let second = latches[1].join();
        until_waiting(&second).await;
        for turn in 0..6 {
            let (leader, next) = match turn % 2 {
                0 => (&first, &second),
                _ => (&second, &first),
            };
            let lease = leading(leader).await;
            lease
                .txn()
                .create(format!("/turn-{turn}"), "")
                .commit()
                .await
                .unwrap();
            until_waiting(next).await;
            soon("it resigns", leader.resign()).await.unwrap();
            let lease = leading(next).await;
            assert!(lease.fencing_token() > last);
            last = lease.fencing_token();
        }
        // The last leader has joined again only when it reports that it waits.
        until_waiting(&second).await;
        assert_eq!(latches[0].participants().await.unwrap().len(), 2);
        for participant in [first, second] {
            assert!(matches!(
                soon("it leaves", participant.leave()).await,
                ParticipantEnd::Left
            ));
        }
        assert!(latches[0].participants().await.unwrap().is_empty());
        let server = ensemble.server(1).unwrap();
        until("the server has no watch", async || {
            server.wchs().await.is_ok_and(|wchs| wchs.watches == 0)
        })
        .await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn selectors_run_their_tasks_one_at_a_time() {
    with_servers(1, async |ensemble| {
        let at_once = std::sync::Arc::new(tokio::sync::Semaphore::new(1));
        let mut running = tokio::task::JoinSet::new();
        for _ in 0..4 {
            let session = connect(ensemble).await;
            let at_once = std::sync::Arc::clone(&at_once);
            let mut turns = 0;
            let selector = Selector::new(&session, "/a").unwrap();
            running.spawn(selector.run(move |lease: LeaderLease| {
                turns += 1;
                let is_last = turns == 5;
                let at_once = std::sync::Arc::clone(&at_once);
                async move {
                    let _one = at_once.try_acquire().expect("no other participant leads");
                    drop(tokio::time::timeout(Duration::from_millis(5), lease.lost()).await);
                    if is_last {
                        ControlFlow::Break(())
                    } else {
                        ControlFlow::Continue(())
                    }
                }
            }));
        }
        for ended in soon("all have their turns", running.join_all()).await {
            ended.unwrap();
        }
    })
    .await;
}
