//! Measures the cost of an id, next to other generators of the same layout.
//!
//! A layout limits the rate of one worker: with 12 bits of sequence, any generator issues one id in 244 ns.
//! The *cost* of an id is therefore measured with so many bits of sequence that no generator waits.

use std::hint::black_box;
use std::time::{Duration, Instant};

use crate::environment::Environment;
use crate::other_work::OtherWork;
use crate::table::{Spread, table};

/// The measurements of one generator in one workload.
pub struct Series {
    /// The workload, such as `cost, 2 threads`.
    pub question: &'static str,
    /// The name of the generator.
    pub generator: &'static str,
    /// Whether ours is compared with it: it serves as many threads, has the same layout, and reads the clock.
    pub is_peer: bool,
    run: Box<dyn FnMut(u64) -> Duration>,
    nanos: Vec<f64>,
}

impl std::fmt::Debug for Series {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Series")
            .field("question", &self.question)
            .field("generator", &self.generator)
            .field("nanos", &self.nanos)
            .finish_non_exhaustive()
    }
}

impl Series {
    /// Creates a series; `run` creates the given number of ids and returns the time it took.
    pub fn new(
        question: &'static str,
        generator: &'static str,
        run: impl FnMut(u64) -> Duration + 'static,
    ) -> Self {
        Self {
            question,
            generator,
            is_peer: false,
            run: Box::new(run),
            nanos: Vec::new(),
        }
    }

    /// Marks the generator as one that ours is compared with.
    #[must_use]
    pub fn peer(mut self) -> Self {
        self.is_peer = true;
        self
    }

    fn sample(&mut self, time: Duration) -> f64 {
        // Increases the number of ids until they fill the time.
        let mut ids = 1000;
        loop {
            let took = (self.run)(ids);
            if took >= time / 4 {
                return took.as_secs_f64() * 1e9 / precise(ids);
            }
            ids *= 4;
        }
    }
}

/// Measures all generators in turn, `rounds` times.
pub fn run(all: &mut [Series], rounds: usize, time: Duration) {
    for round in 0..=rounds {
        for series in &mut *all {
            let nanos = series.sample(time);
            // The first round warms up.
            if round > 0 || rounds == 0 {
                series.nanos.push(nanos);
            }
        }
    }
}

/// Creates ids in this thread, and returns the time it took.
pub fn alone<T>(ids: u64, mut next: impl FnMut() -> T) -> Duration {
    let since = Instant::now();
    for _ in 0..ids {
        black_box(next());
    }
    since.elapsed()
}

/// Creates ids in several threads, an equal share in each, and returns the time it took.
pub fn shared<T>(threads: u64, ids: u64, next: impl Fn() -> T + Sync) -> Duration {
    let since = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| alone(ids / threads, &next));
        }
    });
    since.elapsed()
}

/// Formats the figures and the environment.
pub fn section(command: &str, other_work: OtherWork, all: &[Series]) -> String {
    let mut table = table(&["question", "generator", "ns per id", "min–max", "ours is"]);
    for series in all {
        let is_ours =
            |other: &&Series| other.question == series.question && other.generator == OURS;
        let ours = all.iter().find(is_ours).filter(|_| series.is_peer);
        let ratio = ours.map_or_else(String::new, |ours| {
            let [nanos, ours] = [series, ours].map(|it| it.nanos.iter().copied());
            let ratio = Spread::of_ratios(nanos, ours);
            format!("{}× ({})", ratio.middle(2), ratio.range(2))
        });
        let spread = Spread::of(series.nanos.iter().copied());
        table.add_row([
            series.question.to_owned(),
            series.generator.to_owned(),
            spread.middle(1),
            spread.range(1),
            ratio,
        ]);
    }
    format!(
        "{}- command: `{command}`\n- machine: {}\n- other work: {other_work}\n\n{table}\n",
        other_work.warning(),
        Environment::this_machine()
    )
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a benchmark creates fewer than 2^53 ids"
)]
fn precise(ids: u64) -> f64 {
    ids as f64
}

/// The name of our generator.
pub const OURS: &str = "zk-id";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_is_compared_round_by_round_with_its_peers() {
        let mut series = [
            Series::new("cost", OURS, |ids| Duration::from_nanos(ids * 5)),
            Series::new("cost", "other", |ids| Duration::from_nanos(ids * 20)).peer(),
            Series::new("cost", "not alike", Duration::from_nanos),
            Series::new("cap", "other", |ids| Duration::from_nanos(ids * 20)).peer(),
        ];
        run(&mut series, 3, Duration::from_millis(1));
        let text = section("x", OtherWork { share: Some(0.0) }, &series);
        let rows: Vec<Vec<&str>> = text
            .lines()
            .filter_map(|line| {
                Some(
                    line.strip_prefix("| c")?
                        .split('|')
                        .map(str::trim)
                        .collect(),
                )
            })
            .collect();
        assert_eq!(
            rows,
            [
                ["ost", "zk-id", "5.0", "5.0–5.0", "", ""],
                ["ost", "other", "20.0", "20.0–20.0", "4.00× (4.00–4.00)", ""],
                ["ost", "not alike", "1.0", "1.0–1.0", "", ""],
                ["ap", "other", "20.0", "20.0–20.0", "", ""],
            ]
        );
    }
}
