//! An HTTP endpoint from which Prometheus reads the metrics of a process.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};
use zk_queue::WorkQueue;

use crate::member::Member;
use crate::pause::pause;
use crate::submit::inbox;

/// Collects the metrics of this process from now on, and serves them at `address`, on the current runtime.
///
/// The crates report to whatever recorder there is, so nothing else changes. Call it before the first session.
///
/// # Errors
///
/// If the address is in use, or the process has another recorder.
///
/// # Panics
///
/// Panics if called outside a Tokio runtime.
pub fn serve_metrics(address: SocketAddr) -> anyhow::Result<()> {
    PrometheusBuilder::new()
        // Without buckets it would report quantiles, which cannot be summed over processes.
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &SECONDS)?
        .with_http_listener(address)
        .install()
        .with_context(|| format!("metrics cannot be served at {address}"))?;
    zk_cache::describe_metrics();
    zk_core::describe_metrics();
    zk_leader::describe_metrics();
    zk_lock::describe_metrics();
    zk_queue::describe_metrics();
    Ok(())
}

impl Member {
    /// Counts the texts in the inbox from time to time. The master does it, so that they are counted once.
    pub(crate) async fn count_inbox(&self) -> Infallible {
        let inbox: WorkQueue<String> = inbox(&self.session, &self.tree);
        loop {
            // Without a reply the last counts stay.
            if let Ok(counts) = inbox.counts().await {
                counts.record("inbox");
            }
            pause(COUNT_EVERY).await;
        }
    }
}

/// The upper bounds of the buckets of all durations, in seconds.
const SECONDS: [f64; 13] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 300.0,
];
/// A count costs a round trip, and about as much time as Prometheus waits between two reads is enough.
const COUNT_EVERY: Duration = Duration::from_secs(10);
