//! Measures the cost of an id, next to other generators of the same layout.
//!
//! A layout limits the rate of one worker: with 12 bits of sequence, any generator issues one id in 244 ns.
//! The *cost* of an id is therefore measured with so many bits of sequence that no generator waits.

use std::fmt::Write as _;
use std::hint::black_box;
use std::time::Duration;
use std::time::Instant;

use crate::environment::Environment;
use crate::other_work::OtherWork;
use crate::result::Spread;

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
    let mut text = String::new();
    if other_work.is_too_much() {
        text += "**Other processes used the CPU during the run: discard these figures.**\n\n";
    }
    let _ = writeln!(
        text,
        "- command: `{command}`\n- machine: {}\n- other work: {other_work}\n",
        Environment::this_machine()
    );
    text += "| question | generator | ns per id | min–max | ours is |\n|---|---|--:|--:|--:|\n";
    for series in all {
        let spread = Spread::of(series.nanos.iter().copied());
        let ours = all
            .iter()
            .find(|other| other.question == series.question && other.generator == OURS);
        let ratio = ours
            .filter(|_| series.is_peer)
            .map_or_else(String::new, |ours| {
                let pairs = series.nanos.iter().zip(&ours.nanos);
                let ratio = Spread::of(pairs.map(|(series, ours)| series / ours));
                format!("{:.2}× ({:.2}–{:.2})", ratio.median, ratio.min, ratio.max)
            });
        let _ = writeln!(
            text,
            "| {} | {} | {:.1} | {:.1}–{:.1} | {ratio} |",
            series.question, series.generator, spread.median, spread.min, spread.max
        );
    }
    text
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
        assert!(
            text.contains("| cost | zk-id | 5.0 | 5.0–5.0 |  |"),
            "{text}"
        );
        assert!(
            text.contains("| cost | other | 20.0 | 20.0–20.0 | 4.00× (4.00–4.00) |"),
            "{text}"
        );
        assert!(
            text.contains("| cost | not alike | 1.0 | 1.0–1.0 |  |"),
            "{text}"
        );
        assert!(
            text.contains("| cap | other | 20.0 | 20.0–20.0 |  |"),
            "{text}"
        );
    }
}
