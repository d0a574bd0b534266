//! The measurements of one round of a workload.

use std::time::Duration;

use anyhow::Context as _;
use hdrhistogram::Histogram;

use crate::cpu::cpu_time;

/// One round of a workload: a number of operations and the time they took.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Round {
    /// How many operations were measured: pairs of requests, or hand-overs.
    pub operations: u64,
    /// How many operations were done, including unmeasured ones; zero if that is unknown.
    pub done: u64,
    /// The time of the measured operations, without preparation.
    pub elapsed: Duration,
    /// The CPU time of this process per operation, including unmeasured ones; `None` if it was not measured.
    pub cpu_each: Option<Duration>,
    /// The latencies of the measured operations.
    pub latencies: Latencies,
    /// How long another session waited for the lock; empty if there was none.
    pub others: Latencies,
}

impl Round {
    /// Creates a round with one operation per latency.
    pub fn new(elapsed: Duration, latencies: Latencies) -> Self {
        Self {
            operations: latencies.len(),
            done: 0,
            elapsed,
            cpu_each: None,
            latencies,
            others: Latencies::default(),
        }
    }

    /// Sets how many operations were done, including unmeasured ones.
    #[must_use]
    pub fn of(self, done: u64) -> Self {
        Self { done, ..self }
    }

    /// Sets the CPU time of this process since `before`, a [`cpu_time`], in which it did `operations`.
    #[must_use]
    pub fn with_cpu_since(self, before: Duration, operations: u64) -> Self {
        let used = cpu_time().saturating_sub(before);
        let each = used.as_nanos() / u128::from(operations.max(1));
        let cpu_each = Some(Duration::from_nanos(
            u64::try_from(each).unwrap_or(u64::MAX),
        ));
        Self { cpu_each, ..self }
    }

    /// Returns the operations per second.
    #[expect(clippy::cast_precision_loss, reason = "no round has 2^53 operations")]
    pub fn rate(&self) -> f64 {
        self.operations as f64 / self.elapsed.as_secs_f64()
    }
}

/// A histogram of durations, to three digits.
#[derive(Clone, Debug)]
pub struct Latencies(Histogram<u64>);

impl Latencies {
    /// Adds a latency.
    pub fn record(&mut self, latency: Duration) {
        let nanos = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        self.0.saturating_record(nanos);
    }

    /// Adds all of another histogram.
    ///
    /// # Panics
    ///
    /// Never: all of them have the same bounds.
    pub fn merge(&mut self, other: &Self) {
        self.0
            .add(&other.0)
            .expect("all of them have the same bounds");
    }

    /// Returns the number of latencies.
    pub fn len(&self) -> u64 {
        self.0.len()
    }

    /// Returns whether the histogram is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the given percentile.
    pub fn percentile(&self, percent: f64) -> Duration {
        Duration::from_nanos(self.0.value_at_percentile(percent))
    }
}

impl Default for Latencies {
    fn default() -> Self {
        let longest = u64::try_from(LONGEST.as_nanos()).expect("a constant below 2^64");
        Self(Histogram::new_with_bounds(1, longest, 3).expect("constants that fit each other"))
    }
}

/// Waits for the tasks of one round and merges their histograms; the first error ends the round.
pub(crate) async fn joined(
    mut tasks: tokio::task::JoinSet<anyhow::Result<Latencies>>,
) -> anyhow::Result<Latencies> {
    let mut all = Latencies::default();
    while let Some(ended) = tasks.join_next().await {
        // Dropping the set aborts the other tasks, which would wait for this one forever.
        all.merge(&ended.context("a task of the round panicked")??);
    }
    Ok(all)
}

/// The largest latency of the histogram; longer ones count as this.
const LONGEST: Duration = Duration::from_secs(600);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_counts_what_it_timed() {
        let mut latencies = Latencies::default();
        for millis in 1..=200 {
            latencies.record(Duration::from_millis(millis));
        }
        let round = Round::new(Duration::from_secs(2), latencies);
        assert_eq!(round.operations, 200);
        assert!((round.rate() - 100.0).abs() < 1e-9);
        let p50 = round.latencies.percentile(50.0);
        assert!(
            p50.abs_diff(Duration::from_millis(100)) < Duration::from_millis(1),
            "{p50:?}"
        );
    }

    #[test]
    fn cpu_time_is_shared_among_the_operations() {
        let round = || Round::new(Duration::from_secs(1), Latencies::default());
        let each = |operations| {
            let round = round().with_cpu_since(Duration::ZERO, operations);
            round.cpu_each.expect("it was measured")
        };
        assert_eq!(round().cpu_each, None);
        let (all, tenth) = (each(1), each(10));
        assert!(all > Duration::ZERO);
        // The second reading is later; a share is rounded down to a nanosecond.
        let ten = tenth * 10 + Duration::from_nanos(10);
        assert!(ten >= all, "{tenth:?} of {all:?}");
        assert!(tenth < all, "{tenth:?} of {all:?}");
    }

    #[test]
    fn nothing_is_too_long_to_be_counted() {
        let mut latencies = Latencies::default();
        latencies.record(Duration::ZERO);
        latencies.record(Duration::MAX);
        assert_eq!(latencies.len(), 2);
        assert!(latencies.percentile(100.0) >= LONGEST);
    }

    #[tokio::test]
    async fn the_first_error_of_a_task_ends_the_round() {
        let mut tasks = tokio::task::JoinSet::new();
        tasks.spawn(std::future::pending());
        tasks.spawn(async { anyhow::bail!("lost the session") });
        let error = joined(tasks).await.unwrap_err();
        assert_eq!(error.to_string(), "lost the session");
    }
}
