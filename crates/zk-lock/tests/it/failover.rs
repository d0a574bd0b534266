//! Losing servers.

use zk_lock::FairLock;

use crate::{LONG, connect, names, soon, until_enlisted, with_servers};

#[tokio::test(flavor = "multi_thread")]
async fn holders_and_waiters_keep_their_places_when_the_leader_dies() {
    with_servers(3, async |ensemble| {
        let mut sessions = Vec::new();
        for _ in 0..4 {
            sessions.push(connect(ensemble).await);
        }
        let guard = FairLock::new(&sessions[0], "/a")
            .unwrap()
            .acquire()
            .await
            .unwrap();
        let mut waiting = Vec::new();
        for (at, session) in sessions.iter().enumerate().skip(1) {
            let lock = FairLock::new(session, "/a").unwrap();
            waiting.push(tokio::spawn(async move { lock.acquire().await.unwrap() }));
            until_enlisted(&sessions[0], "/a", at + 1).await;
        }
        let leader = ensemble.wait_leader(LONG).await.unwrap();
        leader.kill().await.unwrap();
        ensemble.wait_quorum().await.unwrap();
        assert!(waiting.iter().all(|waiter| !waiter.is_finished()));

        let mut last = guard.fencing_token();
        soon("the release is carried out", guard.release())
            .await
            .unwrap();
        for waiter in waiting {
            let guard = soon("the next one is granted", waiter).await.unwrap();
            assert!(guard.is_valid());
            assert!(guard.fencing_token() > last);
            last = guard.fencing_token();
            guard.release().await.unwrap();
        }
        assert!(names(&sessions[0], "/a").await.is_empty());
    })
    .await;
}
