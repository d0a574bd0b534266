//! What one go at a workload came to.

use std::time::Duration;

use anyhow::Context as _;
use hdrhistogram::Histogram;

/// One go at a workload: so many operations in so much time.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Round {
    /// How often the thing was done whose rate is of interest: a pair of requests, a hand-over.
    pub operations: u64,
    /// How often it was done in all, also while that was not measured; zero if that is not known.
    pub done: u64,
    /// The time that took, without the preparations.
    pub elapsed: Duration,
    /// How long the single ones took.
    pub latencies: Latencies,
}

impl Round {
    /// A round of as many operations as there are latencies.
    pub fn new(elapsed: Duration, latencies: Latencies) -> Self {
        Self {
            operations: latencies.len(),
            done: 0,
            elapsed,
            latencies,
        }
    }

    /// The same round, of which so much was done in all.
    #[must_use]
    pub fn of(self, done: u64) -> Self {
        Self { done, ..self }
    }

    /// Operations per second.
    #[expect(clippy::cast_precision_loss, reason = "no round has 2^53 operations")]
    pub fn rate(&self) -> f64 {
        self.operations as f64 / self.elapsed.as_secs_f64()
    }
}

/// A histogram of durations, to three digits.
#[derive(Clone, Debug)]
pub struct Latencies(Histogram<u64>);

impl Latencies {
    /// Adds one.
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

    /// How many were added.
    pub fn len(&self) -> u64 {
        self.0.len()
    }

    /// Whether none was added.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The duration that so many per cent do not exceed.
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

/// What tasks of one round measured, as one histogram; the first error ends the round.
pub(crate) async fn joined(
    mut tasks: tokio::task::JoinSet<anyhow::Result<Latencies>>,
) -> anyhow::Result<Latencies> {
    let mut all = Latencies::default();
    while let Some(ended) = tasks.join_next().await {
        // Dropping the set stops the others, which would wait for this one for ever.
        all.merge(&ended.context("a task of the round panicked")??);
    }
    Ok(all)
}

/// Whatever takes longer counts as this long.
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
