//! The cohort lock on real servers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use zk_lock::{CohortLimits, CohortLock, FairLock, LockOptions};

use crate::{connect, names, soon, with_ensemble};

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_cohort_gives_the_lock_to_another_session() {
    with_ensemble(async |ensemble| {
        let (one, other) = (connect(ensemble).await, connect(ensemble).await);
        let bound = Duration::from_millis(200);
        let limits = CohortLimits::default()
            .with_handovers(u64::MAX)
            .with_time(bound);
        let lock =
            CohortLock::with_options(&one, "/cohort", LockOptions::default(), limits).unwrap();
        let turns = Arc::new(AtomicU64::new(0));
        let mut crowd = tokio::task::JoinSet::new();
        for _ in 0..20 {
            let (lock, turns) = (lock.clone(), Arc::clone(&turns));
            crowd.spawn(async move {
                loop {
                    let guard = lock.acquire().await.unwrap();
                    turns.fetch_add(1, Ordering::SeqCst);
                    guard.release().await.unwrap();
                    tokio::task::yield_now().await;
                }
            });
        }
        // Without limits it would wait forever; `sim` measures how long it waits.
        let stranger = FairLock::new(&other, "/cohort").unwrap();
        for _ in 0..5 {
            let before = turns.load(Ordering::SeqCst);
            soon("the crowd is busy", async {
                while turns.load(Ordering::SeqCst) < before + 100 {
                    tokio::task::yield_now().await;
                }
            })
            .await;
            let guard = soon("the other one gets the lock", stranger.acquire())
                .await
                .unwrap();
            let held = turns.load(Ordering::SeqCst);
            guard.release().await.unwrap();
            assert!(held >= before + 100);
        }
        crowd.shutdown().await;
        soon("nothing is left", one.settled()).await;
        assert!(names(&other, "/cohort").await.is_empty());
    })
    .await;
}
