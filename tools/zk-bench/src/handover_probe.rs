//! Times hand-overs of a lock and checks mutual exclusion, so that a broken lock fails instead of being measured.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::ensure;

/// Observes one round of a contended lock, or of a chain.
///
/// A lock with two holders at once would be fast; the probe makes such a round fail.
/// Only the hand-overs between the warm-up and the wanted number count, so that filling and draining the queue are not
/// measured.
#[derive(Debug)]
pub struct HandoverProbe {
    origin: Instant,
    /// Hand-overs at the beginning that do not count.
    warm_up: u64,
    /// Hand-overs after the warm-up that count.
    counted: u64,
    /// How often the lock was acquired.
    acquisitions: AtomicU64,
    /// The holder, counted from one; zero while the lock is free.
    holder: AtomicU64,
    /// The newest token, which each holder must exceed.
    token: AtomicU64,
    /// When the last holder began to release; like all times here, in nanoseconds since `origin`.
    begin_release: AtomicU64,
    /// When the hand-overs began to count.
    opened: AtomicU64,
    /// When the last hand-over that counts was complete.
    closed: AtomicU64,
}

impl HandoverProbe {
    /// Creates a probe for a free lock, which counts `counted` hand-overs after `warm_up` uncounted ones.
    pub fn new(warm_up: u64, counted: u64) -> Self {
        Self {
            origin: Instant::now(),
            warm_up,
            counted,
            acquisitions: AtomicU64::new(0),
            holder: AtomicU64::new(0),
            token: AtomicU64::new(0),
            begin_release: AtomicU64::new(0),
            opened: AtomicU64::new(0),
            closed: AtomicU64::new(0),
        }
    }

    /// Returns the number of uncounted hand-overs for this number of sessions: two turns each.
    pub const fn warm_up(sessions: usize) -> u64 {
        2 * sessions as u64
    }

    /// Records that `holder` acquired the lock, and returns the time since the last release began, if it counts.
    ///
    /// # Errors
    ///
    /// If another session still holds the lock, or `token` does not exceed all earlier tokens.
    pub fn acquired(&self, holder: usize, token: u64) -> anyhow::Result<Option<Duration>> {
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
        let hand_overs = self.acquisitions.fetch_add(1, Ordering::SeqCst);
        if hand_overs == self.warm_up {
            self.opened.store(now, Ordering::SeqCst);
        }
        let last = self.warm_up + self.counted;
        if hand_overs == last {
            self.closed.store(now, Ordering::SeqCst);
        }
        let counts = hand_overs > self.warm_up && hand_overs <= last;
        Ok(counts.then(|| {
            Duration::from_nanos(now.saturating_sub(self.begin_release.load(Ordering::SeqCst)))
        }))
    }

    /// Records that the holder begins to release; call it directly before the request to the server.
    ///
    /// # Errors
    ///
    /// If `holder` is not the holder.
    pub fn begin_release(&self, holder: usize) -> anyhow::Result<()> {
        let had = self.holder.swap(0, Ordering::SeqCst);
        ensure!(
            had == holder as u64 + 1,
            "the lock is broken: session {holder} released it without being the holder"
        );
        self.begin_release.store(self.now(), Ordering::SeqCst);
        Ok(())
    }

    /// Returns how often the lock was acquired.
    pub fn acquisitions(&self) -> u64 {
        self.acquisitions.load(Ordering::SeqCst)
    }

    /// Returns whether the wanted number of hand-overs is reached.
    pub fn is_done(&self) -> bool {
        self.acquisitions.load(Ordering::SeqCst) > self.warm_up + self.counted
    }

    /// Returns the total time of the hand-overs that count.
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
    fn hand_overs_count_between_the_warm_up_and_the_wanted_number() {
        let probe = HandoverProbe::new(2, 3);
        let mut counted = Vec::new();
        let mut done = Vec::new();
        for turn in 0..8 {
            let took = probe.acquired(turn % 2, turn as u64 + 1).unwrap();
            counted.push(took.is_some());
            done.push(probe.is_done());
            probe.begin_release(turn % 2).unwrap();
        }
        // The first acquisition is no hand-over; two warm up, three count.
        assert_eq!(
            counted,
            [false, false, false, true, true, true, false, false]
        );
        assert_eq!(done, [false, false, false, false, false, true, true, true]);
        assert!(probe.elapsed() > Duration::ZERO);
    }

    #[test]
    fn a_hand_over_is_timed_from_the_release_and_no_longer_than_all_of_them() {
        let probe = HandoverProbe::new(0, 1);
        assert_eq!(probe.acquired(0, 7).unwrap(), None, "the lock was free");
        probe.begin_release(0).unwrap();
        let took = probe.acquired(1, 8).unwrap().unwrap();
        assert!(took > Duration::ZERO && took <= probe.elapsed(), "{took:?}");
    }

    #[test]
    fn two_holders_at_once_are_noticed() {
        let probe = HandoverProbe::new(0, 9);
        probe.acquired(0, 1).unwrap();
        let error = probe.acquired(1, 2).unwrap_err().to_string();
        assert!(
            error.contains("session 1 acquired it while session 0 holds it"),
            "{error}"
        );
        assert!(
            probe.begin_release(0).is_err(),
            "the first holder notices as well"
        );
    }

    #[test]
    fn a_token_that_does_not_grow_is_noticed() {
        for token in [4, 5] {
            let probe = HandoverProbe::new(0, 9);
            probe.acquired(0, 5).unwrap();
            probe.begin_release(0).unwrap();
            let error = probe.acquired(1, token).unwrap_err().to_string();
            assert!(error.contains(&format!("{token} came after 5")), "{error}");
        }
    }
}
