//! Two sides that alternate, under criterion.

use std::fmt;
use std::process;
use std::time::Duration;

use anyhow::ensure;
use criterion::Criterion;
use criterion::SamplingMode;
use criterion::Throughput;

use crate::round::Round;
use crate::settings::Settings;
use crate::stage::Stage;
use crate::standing::Standing;
use crate::standing::standings;

/// One side of a comparison: makes a round of so many operations.
pub type Side<'a> = Box<dyn FnMut(u64) -> anyhow::Result<Round> + 'a>;

/// Runs groups of two sides, and keeps what they came to.
///
/// Criterion measures one function after the other.
/// Here each of its samples is a round of *both* sides, one right after the other, of which criterion is told the
/// time of the function it asked for; all rounds of both count for the [`Standing`], those of its warm-up apart.
pub struct Contest<'a> {
    stage: &'a Stage,
    settings: Settings,
    criterion: Criterion,
    standings: Vec<Standing>,
}

impl<'a> Contest<'a> {
    /// A contest without results.
    pub fn new(stage: &'a Stage, settings: Settings) -> Self {
        Self {
            stage,
            settings,
            criterion: settings.criterion(),
            standings: Vec::new(),
        }
    }

    /// Measures a workload and its reference, in this order; `prepare` is called if criterion's filter lets one of
    /// them through.
    ///
    /// An error ends the process: criterion's functions have none, and no figures come of it.
    pub fn pair(
        &mut self,
        group: &str,
        unit: &str,
        names: [&str; 2],
        prepare: impl Fn(&'a Stage) -> anyhow::Result<[Side<'a>; 2]>,
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
                        None => prepare(self.stage).and_then(|cold| warmed(cold, self.settings)),
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
            // Criterion warms up with rounds that grow, and then asks for as many as its sample is to have.
            kept.extend(pairs.split_off(pairs.len().saturating_sub(self.settings.sample_size())));
        }
        benchmarks.finish();
        if !self.settings.smoke && !kept.is_empty() {
            self.standings.extend(standings(group, unit, names, &kept));
        }
    }

    /// Everything measured, in the order of the groups.
    pub fn finish(self) -> Vec<Standing> {
        self.criterion.final_summary();
        self.standings
    }
}

impl fmt::Debug for Contest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Contest")
            .field("settings", &self.settings)
            .field("standings", &self.standings)
            .finish_non_exhaustive()
    }
}

/// The sides after a first round, which has servers and code that are cold: criterion would take the length of its
/// rounds from it.
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
    // The servers' guard process sees this one end and removes them.
    process::exit(1)
}

/// Operations of the first round, which are thrown away.
const COLD: u64 = 100;
