//! What is handed over: watched, so that a broken lock is not measured, and timed.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::time::Duration;
use std::time::Instant;

use anyhow::ensure;

/// Watches over one round of a contended lock, or of the bare chain.
///
/// A lock that lets two in would be fast; with this it fails the round instead.
/// Hand-overs count once everybody had time to queue up, and until there were enough: filling and draining the queue
/// are not measured.
#[derive(Debug)]
pub struct Baton {
    origin: Instant,
    /// Hand-overs that do not count yet.
    warm_up: u64,
    /// Hand-overs that count, behind those.
    counted: u64,
    /// How often it was taken.
    takes: AtomicU64,
    /// Who holds it, counted from one; zero while nobody does.
    holder: AtomicU64,
    /// The newest token, which each holder must exceed.
    token: AtomicU64,
    /// When the last holder began to let go; like all moments here, in nanoseconds since `origin`.
    let_go: AtomicU64,
    /// When the hand-overs began to count.
    opened: AtomicU64,
    /// When the last one that counts was done.
    closed: AtomicU64,
}

impl Baton {
    /// A baton that nobody has held yet, for so many hand-overs after so many that do not count.
    pub fn new(warm_up: u64, counted: u64) -> Self {
        Self {
            origin: Instant::now(),
            warm_up,
            counted,
            takes: AtomicU64::new(0),
            holder: AtomicU64::new(0),
            token: AtomicU64::new(0),
            let_go: AtomicU64::new(0),
            opened: AtomicU64::new(0),
            closed: AtomicU64::new(0),
        }
    }

    /// How many hand-overs it takes before those of so many sessions count: everybody has had its turn twice.
    pub const fn warm_up(sessions: usize) -> u64 {
        2 * sessions as u64
    }

    /// Takes it for `holder`, and returns how long ago the one before began to let go, if that counts.
    ///
    /// # Errors
    ///
    /// If somebody still holds it, or `token` does not exceed those of all holders before.
    pub fn take(&self, holder: usize, token: u64) -> anyhow::Result<Option<Duration>> {
        // First, so that the checks are not part of what is measured.
        let now = self.now();
        let other = self.holder.swap(holder as u64 + 1, Ordering::SeqCst);
        ensure!(
            other == 0,
            "the lock is broken: session {holder} acquired it while session {} holds it",
            other.saturating_sub(1)
        );
        let before = self.token.swap(token, Ordering::SeqCst);
        ensure!(
            before < token,
            "the lock is broken: the fencing token {token} came after {before}"
        );
        let hand_overs = self.takes.fetch_add(1, Ordering::SeqCst);
        if hand_overs == self.warm_up {
            self.opened.store(now, Ordering::SeqCst);
        }
        let last = self.warm_up + self.counted;
        if hand_overs == last {
            self.closed.store(now, Ordering::SeqCst);
        }
        let counts = hand_overs > self.warm_up && hand_overs <= last;
        Ok(counts
            .then(|| Duration::from_nanos(now.saturating_sub(self.let_go.load(Ordering::SeqCst)))))
    }

    /// Notes that the holder begins to let go: the last thing before it asks the server.
    ///
    /// # Errors
    ///
    /// If it is not `holder` who has it.
    pub fn let_go(&self, holder: usize) -> anyhow::Result<()> {
        let had = self.holder.swap(0, Ordering::SeqCst);
        ensure!(
            had == holder as u64 + 1,
            "the lock is broken: session {holder} found another holder when it released"
        );
        self.let_go.store(self.now(), Ordering::SeqCst);
        Ok(())
    }

    /// How often it was taken in all.
    pub fn takes(&self) -> u64 {
        self.takes.load(Ordering::SeqCst)
    }

    /// Whether there were enough hand-overs.
    pub fn is_done(&self) -> bool {
        self.takes.load(Ordering::SeqCst) > self.warm_up + self.counted
    }

    /// How long the hand-overs that count took together.
    pub fn elapsed(&self) -> Duration {
        let (opened, closed) = (
            self.opened.load(Ordering::SeqCst),
            self.closed.load(Ordering::SeqCst),
        );
        Duration::from_nanos(closed.saturating_sub(opened))
    }

    fn now(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hand_overs_count_after_the_warm_up_and_until_there_were_enough() {
        let baton = Baton::new(2, 3);
        let mut counted = Vec::new();
        let mut done = Vec::new();
        for turn in 0..8 {
            let took = baton.take(turn % 2, turn as u64 + 1).unwrap();
            counted.push(took.is_some());
            done.push(baton.is_done());
            baton.let_go(turn % 2).unwrap();
        }
        // The first take is no hand-over; two warm up, three count.
        assert_eq!(
            counted,
            [false, false, false, true, true, true, false, false]
        );
        assert_eq!(done, [false, false, false, false, false, true, true, true]);
        assert!(baton.elapsed() > Duration::ZERO);
    }

    #[test]
    fn a_hand_over_is_timed_from_the_release_and_no_longer_than_all_of_them() {
        let baton = Baton::new(0, 1);
        assert_eq!(baton.take(0, 7).unwrap(), None, "nobody had it before");
        baton.let_go(0).unwrap();
        let took = baton.take(1, 8).unwrap().unwrap();
        assert!(took > Duration::ZERO && took <= baton.elapsed(), "{took:?}");
    }

    #[test]
    fn two_holders_at_once_are_noticed() {
        let baton = Baton::new(0, 9);
        baton.take(0, 1).unwrap();
        let error = baton.take(1, 2).unwrap_err().to_string();
        assert!(
            error.contains("session 1 acquired it while session 0 holds it"),
            "{error}"
        );
        assert!(baton.let_go(0).is_err(), "and by the one that was robbed");
    }

    #[test]
    fn a_token_that_does_not_grow_is_noticed() {
        for token in [4, 5] {
            let baton = Baton::new(0, 9);
            baton.take(0, 5).unwrap();
            baton.let_go(0).unwrap();
            let error = baton.take(1, token).unwrap_err().to_string();
            assert!(error.contains(&format!("{token} came after 5")), "{error}");
        }
    }
}
