//! Summarises the alternating rounds of a workload and its reference.

use std::time::Duration;

use serde::Deserialize;
use serde::Serialize;

use crate::round::Latencies;
use crate::round::Round;

/// The result of one workload, and the comparison with its reference.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WorkloadResult {
    /// `group/side`.
    pub workload: String,
    /// What `rate` counts.
    pub unit: String,
    /// Operations per second, over the rounds.
    pub rate: Spread,
    /// The number of rounds.
    pub rounds: usize,
    /// The number of timed operations.
    pub operations: u64,
    /// The median latency.
    pub p50_micros: f64,
    /// The 99th percentile of the latency.
    pub p99_micros: f64,
    /// The comparison with the reference; `None` for a reference.
    pub reference: Option<Reference>,
}

/// The comparison with the reference.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Reference {
    /// `group/side`.
    pub workload: String,
    /// The rate of a round divided by that of the reference's round directly after it.
    pub ratio: Spread,
}

/// Median, minimum and maximum of some numbers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Spread {
    /// The median.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

impl Spread {
    /// Computes the spread; all zero without numbers.
    pub fn of(numbers: impl IntoIterator<Item = f64>) -> Self {
        let mut sorted: Vec<f64> = numbers.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let at = |index: usize| sorted.get(index).copied().unwrap_or_default();
        let half = sorted.len() / 2;
        let median = if sorted.len().is_multiple_of(2) && half > 0 {
            f64::midpoint(at(half - 1), at(half))
        } else {
            at(half)
        };
        Self {
            median,
            min: at(0),
            max: at(sorted.len().saturating_sub(1)),
        }
    }
}

/// Summarises one group: pairs of a workload's round and the reference's round directly after it.
///
/// The ratio is computed pair by pair, because a short slowdown of the machine affects both rounds of a pair.
pub(crate) fn results(
    group: &str,
    unit: &str,
    names: [&str; 2],
    pairs: &[[Round; 2]],
) -> [WorkloadResult; 2] {
    let result = |side: usize| {
        let mut latencies = Latencies::default();
        for pair in pairs {
            latencies.merge(&pair[side].latencies);
        }
        WorkloadResult {
            workload: format!("{group}/{}", names[side]),
            unit: unit.to_owned(),
            rate: Spread::of(pairs.iter().map(|pair| pair[side].rate())),
            rounds: pairs.len(),
            operations: pairs.iter().map(|pair| pair[side].operations).sum(),
            p50_micros: micros(latencies.percentile(50.0)),
            p99_micros: micros(latencies.percentile(99.0)),
            reference: None,
        }
    };
    let (mut ours, reference) = (result(0), result(1));
    ours.reference = Some(Reference {
        workload: reference.workload.clone(),
        ratio: Spread::of(pairs.iter().map(|pair| pair[0].rate() / pair[1].rate())),
    });
    [ours, reference]
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(millis: u64, each: Duration) -> Round {
        let mut latencies = Latencies::default();
        for _ in 0..100 {
            latencies.record(each);
        }
        Round::new(Duration::from_millis(millis), latencies)
    }

    #[test]
    fn the_middle_of_an_odd_and_an_even_number() {
        let spread = Spread::of([3.0, 1.0, 2.0]);
        assert_eq!((spread.median, spread.min, spread.max), (2.0, 1.0, 3.0));
        let spread = Spread::of([4.0, 1.0, 2.0, 100.0]);
        assert_eq!((spread.median, spread.min, spread.max), (3.0, 1.0, 100.0));
        assert_eq!(Spread::of([]).median.to_bits(), 0);
    }

    #[test]
    fn a_slow_moment_that_hits_both_does_not_change_the_ratio() {
        let each = Duration::from_micros(500);
        // 1000/s against 2000/s, and in a bad moment a tenth of both.
        let pairs = [
            [round(100, each), round(50, each)],
            [round(1000, each), round(500, each)],
            [round(1000, each), round(500, each)],
        ];
        let [ours, reference] = results("group", "operations", ["ours", "theirs"], &pairs);
        assert_eq!(
            (ours.workload.as_str(), reference.workload.as_str()),
            ("group/ours", "group/theirs")
        );
        let ratio = ours.reference.unwrap().ratio;
        assert_eq!((ratio.median, ratio.min, ratio.max), (0.5, 0.5, 0.5));
        assert_eq!((ours.rate.min, ours.rate.max), (100.0, 1000.0));
        assert_eq!((ours.rounds, ours.operations), (3, 300));
        assert!((ours.p50_micros - 500.0).abs() < 1.0, "{}", ours.p50_micros);
        assert!(reference.reference.is_none());
    }
}
