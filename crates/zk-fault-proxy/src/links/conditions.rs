//! What a link does to bytes on their way from one server to another.
//!
//! Pure: no I/O and no clock.

use std::time::Duration;

use crate::proxy::time_for;

/// What a link does to the bytes that go one way. By default nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Conditions {
    /// How much later each byte arrives.
    pub delay: Duration,
    /// How much later still at most: by how much is drawn for each piece, evenly. Bytes keep their order.
    pub jitter: Duration,
    /// How many bytes per second pass at most, all connections of the way together. Nothing for no limit.
    pub rate: Option<u64>,
    /// Whether nothing passes.
    pub blocked: bool,
}

/// One way of a link, and what is going on on it.
#[derive(Debug, Default)]
pub(super) struct Way {
    pub(super) conditions: Conditions,
    /// Until when the line is taken by what has been sent already.
    busy_until: Duration,
}

impl Way {
    /// When bytes that are sent now arrive: not before `last`, when those before them on the same connection do.
    ///
    /// `draw` is evenly distributed from 0 to `u32::MAX`.
    pub(super) fn due(
        &mut self,
        now: Duration,
        last: Duration,
        bytes: usize,
        draw: u32,
    ) -> Duration {
        let Conditions {
            delay,
            jitter,
            rate,
            ..
        } = self.conditions;
        let sent = match rate {
            None => {
                // A limit that is set anew does not begin with what an earlier one had still to let through.
                self.busy_until = now;
                now
            }
            Some(rate) => {
                self.busy_until = self.busy_until.max(now) + time_for(bytes, rate);
                self.busy_until
            }
        };
        let jitter = jitter.mul_f64(f64::from(draw) / f64::from(u32::MAX));
        (sent + delay + jitter).max(last)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn way(conditions: Conditions) -> Way {
        Way {
            conditions,
            ..Way::default()
        }
    }

    #[test]
    fn a_limit_that_was_taken_back_leaves_nothing_to_the_next_one() {
        let slow = Conditions {
            rate: Some(1000),
            ..Conditions::default()
        };
        let mut way = way(slow);
        assert_eq!(way.due(ms(0), ms(0), 60_000, 0), ms(60_000));
        way.conditions = Conditions::default();
        assert_eq!(way.due(ms(10), ms(0), 1, 0), ms(10));
        way.conditions = slow;
        assert_eq!(way.due(ms(20), ms(0), 5, 0), ms(25));
    }

    #[test]
    fn a_good_link_delays_nothing() {
        let mut way = way(Conditions::default());
        assert_eq!(way.due(ms(5), ms(0), 1 << 20, u32::MAX), ms(5));
    }

    #[test]
    fn delay_and_jitter_add_up() {
        let conditions = Conditions {
            delay: ms(100),
            jitter: ms(10),
            ..Conditions::default()
        };
        for (draw, expected) in [(0, ms(105)), (u32::MAX, ms(115))] {
            assert_eq!(way(conditions).due(ms(5), ms(0), 1, draw), expected);
        }
    }

    #[test]
    fn a_rate_is_shared_by_all_that_is_sent_and_not_saved_up() {
        let mut way = way(Conditions {
            rate: Some(1000),
            delay: ms(1),
            ..Conditions::default()
        });
        assert_eq!(way.due(ms(0), ms(0), 100, 0), ms(101));
        assert_eq!(way.due(ms(0), ms(0), 100, 0), ms(201), "another connection");
        assert_eq!(way.due(ms(1000), ms(0), 100, 0), ms(1101), "after a rest");
    }

    #[test]
    fn a_delay_that_is_taken_back_does_not_reorder() {
        let mut way = way(Conditions {
            delay: ms(300),
            ..Conditions::default()
        });
        let late = way.due(ms(0), ms(0), 1, 0);
        way.conditions = Conditions::default();
        assert_eq!(way.due(ms(1), late, 1, 0), ms(300));
        assert_eq!(way.due(ms(400), late, 1, 0), ms(400));
    }

    proptest! {
        #[test]
        fn bytes_of_a_connection_keep_their_order(
            sent in prop::collection::vec((0..50_u64, 0..5000_usize, any::<u32>()), 1..20),
            delay in 0..50_u64,
            jitter in 0..50_u64,
            rate in prop::option::of(1..100_000_u64),
        ) {
            let conditions = Conditions { delay: ms(delay), jitter: ms(jitter), rate, blocked: false };
            let mut way = way(conditions);
            let (mut now, mut last) = (ms(0), ms(0));
            for (later, bytes, draw) in sent {
                now += ms(later);
                let due = way.due(now, last, bytes, draw);
                prop_assert!(due >= last && due >= now + ms(delay));
                last = due;
            }
        }
    }
}
