//! Generators whose runtime is not polled, or is gone: no task of theirs runs any more.

use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use zk_core::Session;
use zk_id::{Generator, Layout, NextError, Snowflake, Snowflakes};
use zk_sim::Ensemble;

use crate::{PATH, TestClock, pass};

const LEASE: Duration = Duration::from_secs(2);

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_time().build().unwrap()
}

/// Claims a number for ids of the real time, with so much reserved that only the lease ends it.
async fn claimed() -> (Session, Snowflake) {
    let ensemble = Ensemble::new(1);
    let session = ensemble.connect().timeout(LEASE).await;
    let ids = Snowflakes::new(&session, PATH, Layout::WIDE).unwrap();
    let ids = ids
        .with_clock(TestClock::new())
        .with_reserve(Duration::from_secs(3600));
    let ids = ids.claim().await.unwrap();
    // Its task runs by now.
    pass(Duration::from_millis(20)).await;
    ids.next().await.unwrap();
    (session, ids)
}

/// Lets the real clock reach a moment, while this thread does nothing.
fn reach(moment: Instant) {
    let (_sender, never) = channel::<()>();
    let left = moment.saturating_duration_since(Instant::now());
    never.recv_timeout(left).unwrap_err();
}

fn time(ids: &Generator, id: zk_id::Id) -> std::time::SystemTime {
    ids.layout().parts(id).time
}

#[test]
fn starved_runtime_lets_no_generator_outlive_its_lease() {
    let runtime = runtime();
    let (_session, ids) = runtime.block_on(claimed());
    // Nothing polls the runtime from here on.
    let since = Instant::now();
    let first = ids.try_next().unwrap();
    reach(since + Duration::from_millis(100));
    match ids.try_next() {
        Ok(second) => {
            let between = time(&ids, second).duration_since(time(&ids, first));
            let between = between.expect("they rise");
            assert!(between >= Duration::from_millis(50), "only {between:?}");
        }
        // This thread was stopped for as long as the lease.
        Err(error) => assert_eq!(error, NextError::SessionLeaseExpired),
    }
    reach(since + LEASE);
    assert_eq!(ids.try_next(), Err(NextError::SessionLeaseExpired));
    assert!(ids.try_next_many(10).is_err());
}

#[test]
fn dropped_runtime_lets_no_generator_outlive_its_lease() {
    let runtime = runtime();
    let (_session, ids) = runtime.block_on(claimed());
    let since = Instant::now();
    ids.try_next().unwrap();
    drop(runtime);
    reach(since + LEASE);
    assert!(ids.try_next().is_err(), "the number may be another one's");
}

#[test]
fn starved_runtime_keeps_no_millisecond_of_a_fixed_worker() {
    let runtime = runtime();
    let ids = runtime.block_on(async {
        let ids = Generator::spawn(Layout::WIDE, 1, TestClock::new());
        pass(Duration::from_millis(20)).await;
        ids.next().await.unwrap();
        ids
    });
    let first = ids.try_next().unwrap();
    reach(Instant::now() + Duration::from_millis(100));
    let second = ids.try_next().unwrap();
    assert!(time(&ids, second) >= time(&ids, first) + Duration::from_millis(50));
}
