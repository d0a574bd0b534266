//! Every interleaving of threads that take with those that open, shut and end; by loom, which also lets each read see
//! whatever the memory model allows.

use loom::model::Builder;
use loom::sync::Arc;
use loom::sync::atomic::AtomicU64;
use loom::sync::atomic::Ordering;
use loom::thread;

use super::*;

impl Cell for AtomicU64 {
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

    fn raise(&self, value: u64) {
        self.fetch_max(value, Ordering::AcqRel);
    }

    fn replace(&self, current: u64, new: u64) -> Result<u64, u64> {
        self.compare_exchange_weak(current, new, Ordering::AcqRel, Ordering::Acquire)
    }
}

type Checked = Line<AtomicU64>;

/// Explores every interleaving, and not a part of them.
fn every_interleaving(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = None;
    builder.check(model);
}

/// Explores those in which threads are interrupted twice at most, which with more than two threads are enough.
fn interrupted_twice(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(model);
}

/// Takes `times` times, up to `most` each.
fn taker(line: &Arc<Checked>, times: usize, most: u64) -> thread::JoinHandle<Vec<u64>> {
    let line = Arc::clone(line);
    thread::spawn(move || {
        let take = || match most {
            1 => line.take_one(0).map(|one| one..one + 1),
            _ => line.take(most, 0),
        };
        let taken = (0..times)
            .filter_map(|_| take())
            .flatten()
            .collect::<Vec<u64>>();
        assert!(taken.is_sorted(), "{taken:?}");
        taken
    })
}

/// All that was taken, when each position was taken once.
fn distinct(taken: impl IntoIterator<Item = Vec<u64>>) -> Vec<u64> {
    let mut all: Vec<u64> = taken.into_iter().flatten().collect();
    all.sort_unstable();
    let some = all.len();
    all.dedup();
    assert_eq!(all.len(), some, "taken twice: {all:?}");
    all
}

// covers: I3 I4
#[test]
fn no_position_is_taken_twice_while_a_window_opens() {
    every_interleaving(|| {
        let line = Arc::new(Checked::new(8));
        line.open(8, 10, 1);
        let taker = taker(&line, 2, 1);
        // The next millisecond, of which one is skipped.
        line.open(11, 12, 1);
        let own = line.take(2, 0).into_iter().flatten().collect();
        let all = distinct([taker.join().unwrap(), own]);
        assert!(
            all.iter().all(|taken| [8, 9, 11].contains(taken)),
            "{all:?}"
        );
    });
}

// covers: I3 I4
#[test]
fn no_position_is_taken_twice_by_many_threads() {
    interrupted_twice(|| {
        let line = Arc::new(Checked::new(8));
        line.open(8, 11, 1);
        let takers = [taker(&line, 2, 1), taker(&line, 1, 2)];
        // The clock went back: the floor is below what was taken.
        line.shut();
        line.open(4, 12, 1);
        distinct(takers.map(|taker| taker.join().unwrap()));
    });
}

// covers: I3 I5
#[test]
fn nothing_is_taken_once_a_line_has_ended() {
    let model = || {
        let line = Arc::new(Checked::new(8));
        line.open(8, 12, 1);
        let takers = [taker(&line, 2, 1)];
        let end = line.close();
        // Who lowers the mark to the end lets another process begin there.
        assert_eq!((line.take(1, 0), line.take_one(0)), (None, None));
        assert_eq!(line.next(), CLOSED);
        let all = distinct(takers.map(|taker| taker.join().unwrap()));
        assert!(all.iter().all(|taken| *taken < end), "{all:?} up to {end}");
    };
    every_interleaving(model);
}

// covers: I3 I5
#[test]
fn nothing_is_taken_from_a_window_whose_time_is_over() {
    every_interleaving(|| {
        let line = Arc::new(Checked::new(8));
        line.open(8, 10, 5);
        let late = Arc::clone(&line);
        let late = thread::spawn(move || late.take_one(5).or_else(|| late.take_one(5)));
        // What the late one may have is of the next window only.
        line.open(11, 12, 9);
        let taken = late.join().unwrap();
        assert!(taken.is_none_or(|taken| taken == 11), "{taken:?}");
        assert_eq!((line.take(1, 9), line.take_one(9)), (None, None));
    });
}

#[test]
fn a_run_ends_with_the_window() {
    loom::model(|| {
        let line = Checked::new(5);
        assert_eq!(line.take(1, 0), None);
        line.open(5, 9, 1);
        assert_eq!(line.take(3, 0), Some(5..8));
        assert_eq!(line.take(u64::MAX, 0), Some(8..9));
        assert_eq!(line.take(1, 0), None);
    });
}
