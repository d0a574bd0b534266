//! What work queues report to the facade of the crate `metrics`.

use std::time::Duration;

use metrics::{Unit, describe_gauge, describe_histogram, gauge, histogram};

use crate::measure::DeliveryOutcome;
use crate::work_queue::WorkCounts;

/// Gives the recorder of the process the units and descriptions of all metrics of this crate.
///
/// Call it once, after the recorder is installed. The metrics are reported without it, too.
/// Those of sessions are described by `zk_core::describe_metrics`.
///
/// | name | kind | unit | labels |
/// |---|---|---|---|
/// | `zk_queue_item_age_seconds` | histogram | seconds, by the leader's clock, from when an item could be claimed until it was: since it was offered or rejected with a delay, and its delay was over | |
/// | `zk_queue_delivery_duration_seconds` | histogram | seconds, from the claim until it ended | `outcome`: `acknowledged`, `rejected`, `buried`; `released`: dropped, and the item is delivered again; `lost`: the claim could no longer be relied on |
/// | `zk_queue_items` | gauge | items, when the application last called [`WorkCounts::record`](crate::WorkCounts::record) | `queue`: the name that the application gave; `state`: `ready`, `delayed`, `claimed`, `dead` |
///
/// - Items are not counted unless the application does: that costs requests, and every process would count the same
///   items.
/// - The age of an item that is delivered again counts from when it was offered, unless it was rejected with a delay.
///   There is no age if the reply to the claim was lost.
/// - A [`Queue`](crate::Queue) reports nothing: a take ends when it returns, and the reply does not contain the time of
///   the leader. Its requests are operations of the session.
///
/// No label contains a path, so the number of time series is bounded.
pub fn describe_metrics() {
    describe_histogram!(
        ITEM_AGE,
        Unit::Seconds,
        "Time from when an item could be claimed until it was"
    );
    describe_histogram!(
        DELIVERY_DURATION,
        Unit::Seconds,
        "Time from a claim until it ended"
    );
    describe_gauge!(ITEMS, Unit::Count, "Items at the last count");
}

impl WorkCounts {
    /// Records these counts as those of a queue, in the gauge `zk_queue_items`.
    ///
    /// The name becomes a label, and each name five time series; the path is not used, because an application may have
    /// any number of them.
    /// One process should count, for example the leader, every half minute.
    ///
    /// ```no_run
    /// # async fn demo(letters: zk_queue::WorkQueue<String>) -> Result<(), zk_core::Error> {
    /// letters.counts().await?.record("letters");
    /// # Ok(())
    /// # }
    /// ```
    pub fn record(&self, queue: &'static str) {
        let states = [
            ("ready", self.ready),
            ("delayed", self.delayed),
            ("claimed", self.claimed),
            ("dead", self.dead),
            ("stuck", self.stuck),
        ];
        for (state, items) in states {
            gauge!(ITEMS, "queue" => queue, "state" => state).set(count(items));
        }
    }
}

pub(crate) fn item_claimed(age: Duration) {
    histogram!(ITEM_AGE).record(age);
}

pub(crate) fn delivery_ended(outcome: DeliveryOutcome, lasted: Duration) {
    let outcome = match outcome {
        DeliveryOutcome::Acknowledged => "acknowledged",
        DeliveryOutcome::Rejected => "rejected",
        DeliveryOutcome::Buried => "buried",
        DeliveryOutcome::Released => "released",
        DeliveryOutcome::Lost => "lost",
    };
    histogram!(DELIVERY_DURATION, "outcome" => outcome).record(lasted);
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a queue has fewer than 2^52 items"
)]
const fn count(items: usize) -> f64 {
    items as f64
}

const ITEM_AGE: &str = "zk_queue_item_age_seconds";
const DELIVERY_DURATION: &str = "zk_queue_delivery_duration_seconds";
const ITEMS: &str = "zk_queue_items";
