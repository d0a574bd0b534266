//! Runs a workload and its reference alternately under criterion.

use std::fmt;
use std::process;
use std::time::Duration;

use anyhow::ensure;
use criterion::{Criterion, SamplingMode, Throughput};

use crate::fixture::Fixture;
use crate::round::{Latencies, Round};
use crate::settings::Settings;
use crate::table::{Spread, table};

/// One side of a comparison: runs a round of the given number of operations.
pub type Side<'a> = Box<dyn FnMut(u64) -> anyhow::Result<Round> + 'a>;

/// Runs groups of two sides, and collects the rows of a table.
///
/// Criterion measures one function after the other.
/// Here each sample is a round of *both* sides, one directly after the other, and criterion gets the time of the
/// function that it measures. All rounds of both sides except the warm-up count for the table.
pub struct PairedBenchmark<'a> {
    fixture: &'a Fixture,
    settings: Settings,
    criterion: Criterion,
    rows: Vec<[String; 8]>,
}

impl<'a> PairedBenchmark<'a> {
    /// Creates a benchmark without rows.
    pub fn new(fixture: &'a Fixture, settings: Settings) -> Self {
        Self {
            fixture,
            settings,
            criterion: settings.criterion(),
            rows: Vec::new(),
        }
    }

    /// Measures a workload and its reference, in this order. Calls `prepare` only if criterion's filter selects one of
    /// them.
    ///
    /// An error ends the process, because criterion's functions cannot return one.
    pub fn pair(
        &mut self,
        group: &str,
        names: [&str; 2],
        prepare: impl Fn(&'a Fixture) -> anyhow::Result<[Side<'a>; 2]>,
    ) {
        let mut sides = None;
        let mut kept = Vec::new();
        let mut benchmarks = self.criterion.benchmark_group(group);
        benchmarks
            .sampling_mode(SamplingMode::Flat)
            .throughput(Throughput::Elements(1));
        for (asked, name) in names.iter().enumerate() {
            let mut pairs = Vec::new();
            benchmarks.bench_function(*name, |bencher| {
                bencher.iter_custom(|operations| {
                    let ready = match sides.take() {
                        Some(ready) => Ok(ready),
                        None => prepare(self.fixture).and_then(|cold| warmed(cold, self.settings)),
                    };
                    let pair = ready.and_then(|ready| both(sides.insert(ready), operations));
                    match pair {
                        Ok(pair) => {
                            let elapsed = pair[asked].elapsed;
                            pairs.push(pair);
                            // Criterion divides by it.
                            elapsed.max(Duration::from_nanos(1))
                        }
                        Err(error) => give_up(group, &error),
                    }
                });
            });
            // Criterion warms up with growing rounds, and then measures one round per sample.
            kept.extend(pairs.split_off(pairs.len().saturating_sub(self.settings.sample_size())));
        }
        benchmarks.finish();
        if !self.settings.smoke && !kept.is_empty() {
            self.rows.extend(rows(group, names, &kept));
        }
    }

    /// Returns the table of all groups in Markdown, or `None` if nothing was measured.
    pub fn finish(self) -> Option<String> {
        self.criterion.final_summary();
        let mut table = table(&[
            "workload",
            "rate /s",
            "min–max",
            "p50 ms",
            "p99 ms",
            "reference",
            "ratio",
            "min–max",
        ]);
        table.add_rows(&self.rows);
        (!self.rows.is_empty()).then(|| table.to_string())
    }
}

impl fmt::Debug for PairedBenchmark<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PairedBenchmark")
            .field("settings", &self.settings)
            .field("rows", &self.rows)
            .finish_non_exhaustive()
    }
}

/// Formats one group: pairs of a workload's round and the reference's round directly after it.
fn rows(group: &str, names: [&str; 2], pairs: &[[Round; 2]]) -> [[String; 8]; 2] {
    let workload = |side: usize| format!("{group}/{}", names[side]);
    let rates = |side: usize| pairs.iter().map(move |pair| pair[side].rate());
    let row = |side: usize, reference: String, ratio: [String; 2]| {
        let mut latencies = Latencies::default();
        for pair in pairs {
            latencies.merge(&pair[side].latencies);
        }
        let millis = |percent| {
            let latency = latencies.percentile(percent).as_secs_f64() * 1e3;
            format!("{latency:.2}")
        };
        let rate = Spread::of(rates(side));
        let [median, spread] = ratio;
        [
            workload(side),
            rate.middle(0),
            rate.range(0),
            millis(50.0),
            millis(99.0),
            reference,
            median,
            spread,
        ]
    };
    let ratio = Spread::of_ratios(rates(0), rates(1));
    [
        row(0, workload(1), [ratio.middle(2), ratio.range(2)]),
        row(1, String::new(), Default::default()),
    ]
}

/// Runs a first round of both sides: criterion would derive the length of its rounds from cold servers and code.
fn warmed(mut sides: [Side<'_>; 2], settings: Settings) -> anyhow::Result<[Side<'_>; 2]> {
    if !settings.smoke {
        both(&mut sides, COLD)?;
    }
    Ok(sides)
}

fn both(sides: &mut [Side<'_>; 2], operations: u64) -> anyhow::Result<[Round; 2]> {
    let [ours, reference] = sides;
    let pair = [ours(operations)?, reference(operations)?];
    for round in &pair {
        ensure!(
            round.operations == operations,
            "a round of {operations} operations measured {}",
            round.operations
        );
    }
    Ok(pair)
}

#[expect(
    clippy::print_stderr,
    reason = "part of a program that talks to a person"
)]
fn give_up(group: &str, error: &anyhow::Error) -> ! {
    eprintln!("error: {group}: {error:#}");
    // The servers' guard process sees this process end and removes the servers.
    process::exit(1)
}

/// Operations of the first round, which is discarded.
const COLD: u64 = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workload_is_shown_beside_its_reference() {
        let round = |millis: u64| {
            let mut latencies = Latencies::default();
            for _ in 0..1000 {
                latencies.record(Duration::from_micros(1500));
            }
            Round::new(Duration::from_millis(millis), latencies)
        };
        let pairs = [
            [round(1000), round(500)],
            [round(1250), round(500)],
            [round(1000), round(1000)],
        ];
        let [ours, reference] = rows("contention/5", ["lock", "chain"], &pairs);
        assert_eq!(
            ours,
            [
                "contention/5/lock",
                "1000",
                "800–1000",
                "1.50",
                "1.50",
                "contention/5/chain",
                "0.50",
                "0.40–1.00"
            ]
        );
        assert_eq!(
            reference,
            [
                "contention/5/chain",
                "2000",
                "1000–2000",
                "1.50",
                "1.50",
                "",
                "",
                ""
            ]
        );
    }
}
