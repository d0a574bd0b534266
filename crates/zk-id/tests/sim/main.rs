//! Ids on a simulated ensemble, under paused time: each failure happens exactly where the test wants it.

#![cfg(test)]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime};

use zk_id::{Clock, Id};
use zk_sim::Ensemble;
use zk_sim::wait::{pass, polled};
use zk_testkit::sim::children;
use zk_testkit::within;

mod blocking;
mod blocks;
mod cancellation;
mod chaos;
mod clocks;
mod generator;
mod layout;
mod loss;
mod sequences;
mod starved;
mod time_units;
mod workers;
mod zxids;

/// The path of the tests.
const PATH: &str = "/ids/a";

/// A clock that goes with Tokio's, which tests pause, and can be set. It shows what the servers' clock does, or a little less.
#[derive(Debug, Clone)]
struct TestClock {
    start: tokio::time::Instant,
    /// How far it was set forwards, in milliseconds.
    set: Arc<AtomicI64>,
}

impl TestClock {
    fn new() -> Self {
        Self {
            start: tokio::time::Instant::now(),
            set: Arc::default(),
        }
    }

    fn forwards(&self, by: Duration) {
        self.set.fetch_add(millis(by), Ordering::SeqCst);
    }

    fn back(&self, by: Duration) {
        self.set.fetch_sub(millis(by), Ordering::SeqCst);
    }
}

impl Clock for TestClock {
    fn now(&self) -> SystemTime {
        let base = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let set = self.set.load(Ordering::SeqCst);
        let by = Duration::from_millis(set.unsigned_abs());
        let elapsed = base + self.start.elapsed();
        if set < 0 { elapsed - by } else { elapsed + by }
    }
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).expect("not that long")
}

/// Ids that were given out, each of which must be new.
#[derive(Debug, Default)]
struct Seen(BTreeSet<Id>);

impl Seen {
    fn add(&mut self, ids: impl IntoIterator<Item = Id>) {
        for id in ids {
            assert!(self.0.insert(id), "{id} was given out twice");
        }
    }
}

/// The nodes of claimed worker numbers.
fn taken(ensemble: &Ensemble) -> Vec<String> {
    let mut names = children(ensemble, PATH);
    names.retain(|name| name.starts_with("worker-"));
    names
}

/// Waits at most two hours of the paused clock.
async fn soon<T>(what: &str, happening: impl Future<Output = T>) -> T {
    within(Duration::from_secs(7200), what, happening).await
}
