//! Checks every interleaving of threads that take positions, open and close windows, and close the sequence, with loom.
//! Loom also lets each read return any value that the memory model allows.

use loom::model::Builder;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

use super::*;

impl AtomicCell for AtomicU64 {
    fn new(value: u64) -> Self {
        Self::new(value)
    }

    fn load(&self) -> u64 {
        self.load(Ordering::Acquire)
    }

    fn store(&self, value: u64) {
        self.store(value, Ordering::Release);
    }

    fn swap(&self, value: u64) -> u64 {
        self.swap(value, Ordering::AcqRel)
    }

    fn fetch_max(&self, value: u64) {
        self.fetch_max(value, Ordering::AcqRel);
    }

    fn compare_exchange(&self, current: u64, new: u64) -> Result<u64, u64> {
        self.compare_exchange_weak(current, new, Ordering::AcqRel, Ordering::Acquire)
    }
}

type Checked = AtomicSequence<AtomicU64>;

/// Explores every interleaving.
fn every_interleaving(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = None;
    builder.check(model);
}

/// Explores the interleavings with at most two preemptions, which suffice for more than two threads.
fn interrupted_twice(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(model);
}

/// Takes `times` times, up to `max` positions each.
fn taker(sequence: &Arc<Checked>, times: usize, max: u64) -> thread::JoinHandle<Vec<u64>> {
    let sequence = Arc::clone(sequence);
    thread::spawn(move || {
        let take = || match max {
            1 => sequence.take_one(0).map(|one| one..one + 1),
            _ => sequence.take(max, 0),
        };
        let taken = (0..times)
            .filter_map(|_| take())
            .flatten()
            .collect::<Vec<u64>>();
        assert!(taken.is_sorted(), "{taken:?}");
        taken
    })
}

/// Returns all positions that were taken, and checks that each was taken once.
fn distinct(taken: impl IntoIterator<Item = Vec<u64>>) -> Vec<u64> {
    let mut all: Vec<u64> = taken.into_iter().flatten().collect();
    all.sort_unstable();
    let some = all.len();
    all.dedup();
    assert_eq!(all.len(), some, "taken twice: {all:?}");
    all
}

#[test]
fn no_position_is_taken_twice_while_a_window_opens() {
    every_interleaving(|| {
        let sequence = Arc::new(Checked::new(8));
        sequence.open_window(8, 10, 1);
        let taker = taker(&sequence, 2, 1);
        // The next millisecond; its first position is skipped.
        sequence.open_window(11, 12, 1);
        let own = sequence.take(2, 0).into_iter().flatten().collect();
        let all = distinct([taker.join().unwrap(), own]);
        assert!(
            all.iter().all(|taken| [8, 9, 11].contains(taken)),
            "{all:?}"
        );
    });
}

#[test]
fn no_position_is_taken_twice_by_many_threads() {
    interrupted_twice(|| {
        let sequence = Arc::new(Checked::new(8));
        sequence.open_window(8, 11, 1);
        let takers = [taker(&sequence, 2, 1), taker(&sequence, 1, 2)];
        // The clock went back: the start is below what was taken.
        sequence.close_window();
        sequence.open_window(4, 12, 1);
        distinct(takers.map(|taker| taker.join().unwrap()));
    });
}

#[test]
fn nothing_is_taken_from_a_closed_sequence() {
    let model = || {
        let sequence = Arc::new(Checked::new(8));
        sequence.open_window(8, 12, 1);
        let takers = [taker(&sequence, 2, 1)];
        let end = sequence.close();
        // Another process may start at the end once the mark is lowered to it.
        assert_eq!((sequence.take(1, 0), sequence.take_one(0)), (None, None));
        assert_eq!(sequence.next(), CLOSED);
        let all = distinct(takers.map(|taker| taker.join().unwrap()));
        assert!(all.iter().all(|taken| *taken < end), "{all:?} up to {end}");
    };
    every_interleaving(model);
}

#[test]
fn nothing_is_taken_from_an_expired_window() {
    every_interleaving(|| {
        let sequence = Arc::new(Checked::new(8));
        sequence.open_window(8, 10, 5);
        let late = Arc::clone(&sequence);
        let late = thread::spawn(move || late.take_one(5).or_else(|| late.take_one(5)));
        // The late thread may take a position of the next window only.
        sequence.open_window(11, 12, 9);
        let taken = late.join().unwrap();
        assert!(taken.is_none_or(|taken| taken == 11), "{taken:?}");
        assert_eq!((sequence.take(1, 9), sequence.take_one(9)), (None, None));
    });
}

#[test]
fn a_range_ends_with_the_window() {
    loom::model(|| {
        let sequence = Checked::new(5);
        assert_eq!(sequence.take(1, 0), None);
        sequence.open_window(5, 9, 1);
        assert_eq!(sequence.take(3, 0), Some(5..8));
        assert_eq!(sequence.take(u64::MAX, 0), Some(8..9));
        assert_eq!(sequence.take(1, 0), None);
    });
}
