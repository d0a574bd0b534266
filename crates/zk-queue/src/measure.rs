//! Measures how old claimed items are, and how long deliveries last. Without the feature `metrics` it does nothing.

use std::time::{Duration, SystemTime};

use tokio::time::Instant;
use zk_core::Stat;

#[cfg(feature = "metrics")]
use crate::metrics::delivery_ended;
#[cfg(feature = "metrics")]
use crate::metrics::item_claimed;

/// How a delivery ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeliveryOutcome {
    Acknowledged,
    /// By the consumer, to be delivered again.
    Rejected,
    Buried,
    /// The claim was dropped.
    Released,
    /// The claim could no longer be relied on.
    Lost,
}

/// A delivery that is being measured. Dropping it records the delivery.
#[derive(Debug)]
pub(crate) struct DeliveryTime {
    pub(crate) outcome: DeliveryOutcome,
    since: Instant,
}

impl DeliveryTime {
    pub(crate) fn start() -> Self {
        Self {
            outcome: DeliveryOutcome::Released,
            since: Instant::now(),
        }
    }
}

impl Drop for DeliveryTime {
    fn drop(&mut self) {
        delivery_ended(self.outcome, self.since.elapsed());
    }
}

/// Records the age of a claimed item.
///
/// The stat is that of the write that claimed it, so both times are the leader's. `due` is the end of its delay in
/// milliseconds, or zero.
pub(crate) fn claimed(item: &Stat, due: u64) {
    let due = SystemTime::UNIX_EPOCH + Duration::from_millis(due);
    // The clock of the leader may have gone back.
    let age = item.mtime.duration_since(item.ctime.max(due));
    item_claimed(age.unwrap_or_default());
}

#[cfg(not(feature = "metrics"))]
const fn delivery_ended(_: DeliveryOutcome, _: Duration) {}

#[cfg(not(feature = "metrics"))]
const fn item_claimed(_: Duration) {}
