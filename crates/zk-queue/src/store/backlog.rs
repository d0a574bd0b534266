//! Decides which calls that wait while others are in flight are joined into one transaction, and when that is sent.
//!
//! This is group commit, as databases do it for their logs: no call waits for others to join it, but those that arrive
//! while transactions are in flight go together in the next one. The longer the servers take, the larger it is.
//!
//! - A call that finds nothing in flight is sent at once and alone, by its caller.
//! - All others wait, and *senders* take them: background tasks that send one transaction after the other, each with all
//!   calls that wait at that moment and fit. A call that has to wait starts a sender if there are fewer than
//!   [`MAX_SENDERS`], and ends up in its transaction or in an earlier one.
//! - A sender ends when it finds no call. So there is one as long as any call waits, whether or not the caller that
//!   sends alone goes on polling its future.
//!
//! Pure: no I/O and no clock.

use std::collections::VecDeque;
use std::time::Duration;

use crate::batch_limits::fitting_count;

/// The calls of one kind that wait, and what is in flight.
#[derive(Debug)]
pub(super) struct Backlog<C> {
    waiting: VecDeque<Waiting<C>>,
    /// The number of senders that run or are about to.
    senders: usize,
    /// Whether a sender was started that has not taken any calls yet. It takes those that arrive until then.
    is_starting: bool,
    /// Whether a call is being sent by its caller.
    is_alone_in_flight: bool,
}

/// A call that waits.
#[derive(Debug)]
struct Waiting<C> {
    call: C,
    /// What the call adds to a request, in bytes.
    size: usize,
    /// When it began to wait, as a duration since a fixed moment of this process.
    since: Duration,
}

impl<C> Default for Backlog<C> {
    fn default() -> Self {
        Self {
            waiting: VecDeque::new(),
            senders: 0,
            is_starting: false,
            is_alone_in_flight: false,
        }
    }
}

impl<C> Backlog<C> {
    /// Returns whether a call may be sent alone, because nothing is in flight. Then it is, until
    /// [`end_alone`](Self::end_alone).
    pub(super) fn begin_alone(&mut self) -> bool {
        let is_idle = self.senders == 0 && !self.is_alone_in_flight;
        self.is_alone_in_flight |= is_idle;
        is_idle
    }

    pub(super) fn end_alone(&mut self) {
        self.is_alone_in_flight = false;
    }

    /// Adds a call, and returns whether a sender has to be started.
    pub(super) fn push(&mut self, call: C, size: usize, now: Duration) -> bool {
        self.waiting.push_back(Waiting {
            call,
            size,
            since: now,
        });
        self.needs_sender()
    }

    /// Returns the calls of a sender's next transaction, in their order, and whether another sender has to be started.
    /// The sender ends if there are none.
    ///
    /// Calls whose callers no longer wait are dropped.
    pub(super) fn take(&mut self, is_awaited: impl Fn(&C) -> bool) -> (Vec<C>, bool) {
        self.is_starting = false;
        self.waiting.retain(|waiting| is_awaited(&waiting.call));
        let Some(first) = self.waiting.front() else {
            self.senders -= 1;
            return (Vec::new(), false);
        };
        let latest = first.since.saturating_add(MAX_SPREAD);
        let joined = self.waiting.iter().take(MAX_CALLS);
        let joined = joined.take_while(|waiting| waiting.since <= latest);
        let count = fitting_count(joined.map(|waiting| waiting.size));
        let taken = self.waiting.drain(..count);
        let taken = taken.map(|waiting| waiting.call).collect();
        (taken, self.needs_sender())
    }

    /// Notes that a sender was dropped before it found no call. Returns the calls that no other sender will take.
    pub(super) fn on_dropped_sender(&mut self) -> Vec<C> {
        self.is_starting = false;
        self.senders -= 1;
        if self.senders > 0 {
            return Vec::new();
        }
        let waiting = std::mem::take(&mut self.waiting).into_iter();
        waiting.map(|waiting| waiting.call).collect()
    }

    /// Returns whether to start a sender for the calls that wait; then it counts as started.
    fn needs_sender(&mut self) -> bool {
        let starts = !self.waiting.is_empty() && !self.is_starting && self.senders < MAX_SENDERS;
        if starts {
            self.senders += 1;
            self.is_starting = true;
        }
        starts
    }
}

/// How many transactions the senders have in flight at most, besides the call that is sent alone: four in all.
///
/// One is not enough: the servers would be idle from their reply until the next request arrives. With two, one is
/// committed while the reply to the other one travels. The others cover the variance of a commit, whose `fsync` may take
/// ten times as long as usual, and a transaction that has to be split. More than these only make transactions smaller,
/// and each costs a token and a commit.
const MAX_SENDERS: usize = 3;
/// How many calls are joined at most.
const MAX_CALLS: usize = 500;
/// How long after the first call of a transaction the last one may have arrived.
///
/// All of them share a deadline, the latest one, so a caller waits at most this long beyond its own: a call that waits
/// has a later deadline than those that were sent before. It only matters if the servers do not reply, because calls
/// wait for a round trip otherwise.
const MAX_SPREAD: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: Duration = Duration::from_secs(9);

    fn all(backlog: &mut Backlog<u32>) -> Vec<u32> {
        backlog.take(|_| true).0
    }

    #[test]
    fn a_lone_call_is_sent_at_once_and_others_wait_for_a_sender() {
        let mut backlog = Backlog::default();
        assert!(backlog.begin_alone());
        assert!(!backlog.begin_alone());
        // The first one starts a sender, which takes those that arrive until it runs.
        assert!(backlog.push(1, 10, NOW));
        assert!(!backlog.push(2, 10, NOW));
        backlog.end_alone();
        // A sender is about to run, and calls keep their order.
        assert!(!backlog.begin_alone());
        assert!(!backlog.push(3, 10, NOW));
        assert_eq!(all(&mut backlog), [1, 2, 3]);
        // That transaction is in flight.
        assert!(!backlog.begin_alone());
        assert!(backlog.push(4, 10, NOW));
        assert_eq!(all(&mut backlog), [4]);
        for _ in 0..2 {
            assert!(all(&mut backlog).is_empty());
        }
        assert!(backlog.begin_alone());
    }

    #[test]
    fn there_are_three_senders_at_most_and_one_while_calls_wait() {
        let mut backlog = Backlog::default();
        let mut started = 0;
        for call in 0..10 {
            started += usize::from(backlog.push(call, 10, NOW));
            if call < 6 {
                assert_eq!(all(&mut backlog), [call]);
            }
        }
        assert_eq!(started, MAX_SENDERS);
        assert_eq!(all(&mut backlog), [6, 7, 8, 9]);
        for left in (0..MAX_SENDERS).rev() {
            assert!(!backlog.begin_alone());
            assert!(all(&mut backlog).is_empty());
            assert_eq!(backlog.senders, left);
        }
        assert!(backlog.begin_alone());
    }

    #[test]
    fn calls_that_were_dropped_are_not_sent() {
        let mut backlog = Backlog::default();
        for call in 0..4 {
            backlog.push(call, 10, NOW);
        }
        assert_eq!(backlog.take(|call| call % 2 == 1), (vec![1, 3], false));
        assert!(backlog.push(5, 10, NOW));
        assert_eq!(backlog.take(|_| false), (Vec::<u32>::new(), false));
    }

    #[test]
    fn the_last_sender_that_is_dropped_returns_what_waits() {
        let mut backlog = Backlog::default();
        assert!(backlog.push(1, 10, NOW));
        assert_eq!(all(&mut backlog), [1]);
        assert!(backlog.push(2, 10, NOW));
        assert!(!backlog.push(3, 10, NOW));
        assert!(
            backlog.on_dropped_sender().is_empty(),
            "another one is left"
        );
        assert_eq!(backlog.on_dropped_sender(), [2, 3]);
        assert!(backlog.begin_alone());
    }

    #[test]
    fn what_does_not_fit_goes_to_another_sender() {
        let mut backlog = Backlog::default();
        for call in 0..1800 {
            backlog.push(call, 10, NOW);
        }
        let taken: Vec<_> = (0..MAX_SENDERS)
            .map(|_| {
                let (calls, starts_sender) = backlog.take(|_| true);
                (calls.len(), starts_sender)
            })
            .collect();
        assert_eq!(taken, [(500, true), (500, true), (500, false)]);
        assert_eq!(all(&mut backlog).len(), 300);
    }

    #[test]
    fn a_transaction_is_bounded_in_calls_bytes_and_time() {
        let mut backlog = Backlog::default();
        for call in 0..600 {
            backlog.push(call, 10, NOW);
        }
        assert_eq!(all(&mut backlog), (0..500).collect::<Vec<_>>());
        backlog.push(600, 300_000, NOW);
        backlog.push(601, 300_000, NOW);
        assert_eq!(all(&mut backlog), (500..601).collect::<Vec<_>>());
        backlog.push(602, 10, NOW + MAX_SPREAD);
        backlog.push(603, 10, NOW + MAX_SPREAD + Duration::from_nanos(1));
        assert_eq!(all(&mut backlog), [601, 602]);
        assert_eq!(all(&mut backlog), [603]);
    }

    proptest! {
        /// Whatever arrives when, each call is taken once and in its order, and a sender runs while any call waits.
        #[test]
        fn each_call_is_taken_once_and_in_order(
            acts in proptest::collection::vec((0..4_u8, 0..700_000_usize, 0..900_u64), 0..200)
        ) {
            let mut backlog = Backlog::default();
            let (mut pushed, mut seen, mut now) = (0, Vec::new(), NOW);
            for (act, size, millis) in acts {
                now += Duration::from_millis(millis);
                if act == 0 && backlog.senders > 0 {
                    seen.extend(all(&mut backlog));
                } else {
                    backlog.push(pushed, size, now);
                    pushed += 1;
                }
                prop_assert!(backlog.senders <= MAX_SENDERS);
                prop_assert!(backlog.waiting.is_empty() || backlog.senders > 0);
            }
            while backlog.senders > 0 {
                seen.extend(all(&mut backlog));
            }
            prop_assert_eq!(seen, (0..pushed).collect::<Vec<u32>>());
        }
    }
}
