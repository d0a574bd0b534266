//! Futures dropped at every await.

use std::time::Duration;

use zk_lock::UpgradeError;

use super::rw;
use crate::cancellation::{Other, all_dropped_everywhere};

const A_WHILE: Duration = Duration::from_millis(200);

#[tokio::test(start_paused = true)]
async fn readers_and_writers_dropped_at_any_await_leave_nothing() {
    for other in [Other::Nobody, Other::Holds(A_WHILE), Other::Reads(A_WHILE)] {
        all_dropped_everywhere(other, async |session| {
            drop(rw(&session).reader().acquire().await.unwrap());
        })
        .await;
        all_dropped_everywhere(other, async |session| {
            drop(rw(&session).writer().acquire().await.unwrap());
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn tries_and_timeouts_dropped_anywhere_leave_nothing() {
    for other in [Other::Holds(A_WHILE), Other::Reads(A_WHILE)] {
        all_dropped_everywhere(other, async |session| {
            drop(rw(&session).reader().try_acquire().await);
            drop(rw(&session).writer().try_acquire().await);
        })
        .await;
        let limit = A_WHILE / 2;
        all_dropped_everywhere(other, async |session| {
            drop(rw(&session).reader().acquire_timeout(limit).await);
            drop(rw(&session).writer().acquire_timeout(limit).await);
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_downgrade_dropped_at_any_await_releases_the_lock() {
    for other in [Other::Nobody, Other::Holds(A_WHILE)] {
        all_dropped_everywhere(other, async |session| {
            let writing = rw(&session).writer().acquire().await.unwrap();
            let reading = writing.downgrade().await.unwrap();
            reading.release().await.unwrap();
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_dropped_at_any_await_releases_the_lock() {
    for other in [Other::Nobody, Other::Reads(A_WHILE)] {
        all_dropped_everywhere(other, async |session| {
            let reading = rw(&session).reader().acquire().await.unwrap();
            reading.upgrade().await.unwrap().release().await.unwrap();
        })
        .await;
    }
    Box::pin(all_dropped_everywhere(
        Other::Reads(A_WHILE),
        async |session| {
            let reading = rw(&session).reader().acquire().await.unwrap();
            match reading.upgrade_timeout(A_WHILE / 2).await {
                Ok(writing) => drop(writing),
                Err(error) => {
                    assert!(matches!(error, UpgradeError::TimedOut { .. }), "{error:?}");
                    drop(error.into_guard());
                }
            }
        },
    ))
    .await;
}
