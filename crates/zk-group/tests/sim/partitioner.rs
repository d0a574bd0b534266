//! Partitioners on a simulated ensemble.

mod chaos;
mod failures;
#[path = "../shared/oracle.rs"]
mod oracle;
mod sharing;

use std::collections::BTreeMap;
use std::time::Duration;

use zk_core::SessionSource;
use zk_group::partitioner::{ItemGuard, Partitioner, PartitionerOptions};
use zk_sim::wait::{pass, soon, until};

const PATH: &str = "/groups/shards";
const SETTLE: Duration = Duration::from_secs(1);

fn start(sessions: impl Into<SessionSource>, id: &str, items: &[&str]) -> Partitioner {
    let options = PartitionerOptions::default().with_settle_time(SETTLE);
    Partitioner::start_with(sessions, PATH, id, items.iter().copied(), options)
        .expect("good arguments")
}

/// Waits until these items are allocated to a member.
async fn allocated(partitioner: &Partitioner, count: usize) -> Vec<String> {
    let what = format!("{count} items are allocated");
    until(&what, async || partitioner.share().len() == count).await;
    partitioner.share()
}

/// Takes so many items.
async fn owned(partitioner: &Partitioner, count: usize) -> BTreeMap<String, ItemGuard> {
    let mut owned = BTreeMap::new();
    while owned.len() < count {
        let guard = soon(
            &format!("item {} of {count}", owned.len()),
            partitioner.next(),
        )
        .await;
        let guard = guard.expect("there are sessions");
        let twin = owned.insert(guard.item().to_owned(), guard);
        assert!(twin.is_none(), "{twin:?}");
    }
    owned
}

/// Checks that a member gets no item for some time.
async fn gets_nothing(partitioner: &Partitioner) {
    let next = tokio::time::timeout(10 * SETTLE, partitioner.next()).await;
    assert!(next.is_err(), "{next:?}");
}

/// Lets members see each other, and changes be acted on.
async fn settled() {
    pass(3 * SETTLE).await;
}
