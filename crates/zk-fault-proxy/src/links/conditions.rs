//! Decides when bytes from one server to another arrive, from the delay, jitter and rate of their link.
//!
//! Pure: no I/O and no clock.

use std::time::Duration;

use crate::proxy::time_for;

/// The conditions of one direction of a link. The default delays and limits nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "the caller creates it, and each field has a default"
)]
pub struct Conditions {
    /// The delay of each byte.
    pub delay: Duration,
    /// The maximum of an additional delay, drawn uniformly for each chunk. Bytes keep their order.
    pub jitter: Duration,
    /// The limit in bytes per second for all connections together; `None` for no limit.
    pub rate: Option<u64>,
    /// Whether it is blocked.
    pub blocked: bool,
}

/// One direction of a link with its backlog.
#[derive(Debug, Default)]
pub(super) struct LinkShaper {
    pub(super) conditions: Conditions,
    /// When the rate limit has let all earlier bytes pass.
    busy_until: Duration,
}

impl LinkShaper {
    /// Returns when bytes that are sent now arrive: not before `last`, the arrival of earlier bytes on this connection.
    ///
    /// `draw` is uniformly distributed from 0 to `u32::MAX`.
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
                // A later limit does not start with the backlog of an earlier one.
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

    fn shaper(conditions: Conditions) -> LinkShaper {
        LinkShaper {
            conditions,
            ..LinkShaper::default()
        }
    }

    #[test]
    fn a_new_limit_does_not_inherit_a_backlog() {
        let slow = Conditions {
            rate: Some(1000),
            ..Conditions::default()
        };
        let mut shaper = shaper(slow);
        assert_eq!(shaper.due(ms(0), ms(0), 60_000, 0), ms(60_000));
        shaper.conditions = Conditions::default();
        assert_eq!(shaper.due(ms(10), ms(0), 1, 0), ms(10));
        shaper.conditions = slow;
        assert_eq!(shaper.due(ms(20), ms(0), 5, 0), ms(25));
    }

    #[test]
    fn a_good_link_delays_nothing() {
        let mut shaper = shaper(Conditions::default());
        assert_eq!(shaper.due(ms(5), ms(0), 1 << 20, u32::MAX), ms(5));
    }

    #[test]
    fn delay_and_jitter_add_up() {
        let conditions = Conditions {
            delay: ms(100),
            jitter: ms(10),
            ..Conditions::default()
        };
        for (draw, expected) in [(0, ms(105)), (u32::MAX, ms(115))] {
            assert_eq!(shaper(conditions).due(ms(5), ms(0), 1, draw), expected);
        }
    }

    #[test]
    fn a_rate_is_shared_by_connections_and_does_not_accumulate() {
        let mut shaper = shaper(Conditions {
            rate: Some(1000),
            delay: ms(1),
            ..Conditions::default()
        });
        assert_eq!(shaper.due(ms(0), ms(0), 100, 0), ms(101));
        assert_eq!(
            shaper.due(ms(0), ms(0), 100, 0),
            ms(201),
            "another connection"
        );
        assert_eq!(
            shaper.due(ms(1000), ms(0), 100, 0),
            ms(1101),
            "after a rest"
        );
    }

    #[test]
    fn a_shorter_delay_does_not_reorder_bytes() {
        let mut shaper = shaper(Conditions {
            delay: ms(300),
            ..Conditions::default()
        });
        let late = shaper.due(ms(0), ms(0), 1, 0);
        shaper.conditions = Conditions::default();
        assert_eq!(shaper.due(ms(1), late, 1, 0), ms(300));
        assert_eq!(shaper.due(ms(400), late, 1, 0), ms(400));
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
            let mut shaper = shaper(conditions);
            let (mut now, mut last) = (ms(0), ms(0));
            for (later, bytes, draw) in sent {
                now += ms(later);
                let due = shaper.due(now, last, bytes, draw);
                prop_assert!(due >= last && due >= now + ms(delay));
                last = due;
            }
        }
    }
}
