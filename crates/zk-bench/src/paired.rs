//! Runs a workload and its reference alternately under criterion.

use std::fmt;
use std::process;
use std::time::Duration;

use anyhow::ensure;
use criterion::Criterion;
use criterion::SamplingMode;
use criterion::Throughput;

use crate::fixture::Fixture;
use crate::result::WorkloadResult;
use crate::result::results;
use crate::round::Round;
use crate::settings::Settings;

/// One side of a comparison: runs a round of the given number of operations.
pub type Side<'a> = Box<dyn FnMut(u64) -> anyhow::Result<Round> + 'a>;

/// Runs groups of two sides, and collects their results.
///
/// Criterion measures one function after the other.
/// Here each sample is a round of *both* sides, one directly after the other, and criterion gets the time of the
/// function that it measures. All rounds of both sides except the warm-up count for the [`WorkloadResult`].
pub struct PairedBenchmark<'a> {
    fixture: &'a Fixture,
    settings: Settings,
    criterion: Criterion,
    results: Vec<WorkloadResult>,
}

impl<'a> PairedBenchmark<'a> {
    /// Creates a benchmark without results.
    pub fn new(fixture: &'a Fixture, settings: Settings) -> Self {
        Self {
            fixture,
            settings,
            criterion: settings.criterion(),
            results: Vec::new(),
        }
    }

    /// Measures a workload and its reference, in this order. Calls `prepare` only if criterion's filter selects one of
    /// them.
    ///
    /// An error ends the process, because criterion's functions cannot return one.
    pub fn pair(
        &mut self,
        group: &str,
        unit: &str,
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
            self.results.extend(results(group, unit, names, &kept));
        }
    }

    /// Returns all results, in the order of the groups.
    pub fn finish(self) -> Vec<WorkloadResult> {
        self.criterion.final_summary();
        self.results
    }
}

impl fmt::Debug for PairedBenchmark<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PairedBenchmark")
            .field("settings", &self.settings)
            .field("results", &self.results)
            .finish_non_exhaustive()
    }
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
