//! What an id costs, next to other generators of the same layout.
//!
//! A layout caps what one worker gives out: with 12 bits of sequence one id in 244 ns, whoever makes it.
//! So what an id *costs* is measured with so many bits of sequence that no generator ever waits.

use std::fmt::Write as _;
use std::hint::black_box;
use std::time::Duration;
use std::time::Instant;

use crate::facts::Facts;
use crate::other_work::OtherWork;
use crate::standing::Spread;

/// One generator under one question.
pub struct Lane {
    /// What is asked, as `cost, 2 threads`.
    pub question: &'static str,
    /// Which generator.
    pub who: &'static str,
    /// Whether it is a peer, which ours is compared with: shared among as many threads, of the same layout, with the time
    /// of the clock.
    pub is_peer: bool,
    run: Box<dyn FnMut(u64) -> Duration>,
    nanos: Vec<f64>,
}

impl std::fmt::Debug for Lane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lane")
            .field("question", &self.question)
            .field("who", &self.who)
            .field("nanos", &self.nanos)
            .finish_non_exhaustive()
    }
}

impl Lane {
    /// Makes a lane of what makes so many ids and answers how long it took.
    pub fn new(
        question: &'static str,
        who: &'static str,
        run: impl FnMut(u64) -> Duration + 'static,
    ) -> Self {
        Self {
            question,
            who,
            is_peer: false,
            run: Box::new(run),
            nanos: Vec::new(),
        }
    }

    /// Says that ours is compared with it.
    #[must_use]
    pub fn peer(mut self) -> Self {
        self.is_peer = true;
        self
    }

    fn go(&mut self, time: Duration) -> f64 {
        // As many as fill the time, by the rate of a few.
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

/// Lets all lanes make ids, one after the other, so many times.
pub fn run(lanes: &mut [Lane], rounds: usize, time: Duration) {
    for round in 0..=rounds {
        for lane in &mut *lanes {
            let nanos = lane.go(time);
            // The first round warms up.
            if round > 0 || rounds == 0 {
                lane.nanos.push(nanos);
            }
        }
    }
}

/// Makes so many ids in this thread.
pub fn alone<T>(ids: u64, mut next: impl FnMut() -> T) -> Duration {
    let since = Instant::now();
    for _ in 0..ids {
        black_box(next());
    }
    since.elapsed()
}

/// Makes so many ids in several threads, an equal part in each.
pub fn shared<T>(threads: u64, ids: u64, next: impl Fn() -> T + Sync) -> Duration {
    let since = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| alone(ids / threads, &next));
        }
    });
    since.elapsed()
}

/// The figures, with what they depend on.
pub fn section(command: &str, other_work: OtherWork, lanes: &[Lane]) -> String {
    let mut text = String::new();
    if other_work.is_too_much() {
        text += "**The machine had other work while this ran: not to be kept.**\n\n";
    }
    let _ = writeln!(
        text,
        "- command: `{command}`\n- machine: {}\n- other work: {other_work}\n",
        Facts::this_machine()
    );
    text += "| question | generator | ns per id | min–max | ours is |\n|---|---|--:|--:|--:|\n";
    for lane in lanes {
        let spread = Spread::of(lane.nanos.iter().copied());
        let ours = lanes
            .iter()
            .find(|other| other.question == lane.question && other.who == OURS);
        let ratio = ours
            .filter(|_| lane.is_peer)
            .map_or_else(String::new, |ours| {
                let pairs = lane.nanos.iter().zip(&ours.nanos);
                let ratio = Spread::of(pairs.map(|(lane, ours)| lane / ours));
                format!("{:.2}× ({:.2}–{:.2})", ratio.median, ratio.min, ratio.max)
            });
        let _ = writeln!(
            text,
            "| {} | {} | {:.1} | {:.1}–{:.1} | {ratio} |",
            lane.question, lane.who, spread.median, spread.min, spread.max
        );
    }
    text
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a count of ids that a benchmark makes"
)]
fn precise(ids: u64) -> f64 {
    ids as f64
}

/// The name of ours among the lanes.
pub const OURS: &str = "zk-id";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_is_compared_round_by_round_with_its_peers() {
        let mut lanes = [
            Lane::new("cost", OURS, |ids| Duration::from_nanos(ids * 5)),
            Lane::new("cost", "other", |ids| Duration::from_nanos(ids * 20)).peer(),
            Lane::new("cost", "not alike", Duration::from_nanos),
            Lane::new("cap", "other", |ids| Duration::from_nanos(ids * 20)).peer(),
        ];
        run(&mut lanes, 3, Duration::from_millis(1));
        let text = section("x", OtherWork { share: Some(0.0) }, &lanes);
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
