//! Decides which positions may be taken now, from the clock, the positions already taken and the reserved time.
//!
//! Pure: no I/O and no clock.

use std::time::Duration;

use crate::layout::Layout;

/// What is known when the window has no more positions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClockInput {
    /// The time on the clock, since the Unix epoch.
    pub(crate) now: Duration,
    /// The position to be taken next.
    pub(crate) next: u64,
    /// Whether the previous window was used up, so that callers may be waiting.
    pub(crate) has_waiters: bool,
    /// The first time unit of the epoch that is not reserved for this worker.
    pub(crate) reserved: u64,
}

/// What the generator does if its window has no more positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClockDecision {
    /// Open a window of the positions from `start` up to, and without, `end`.
    Open { start: u64, end: u64 },
    /// All positions of this time unit are taken: wait for the next one.
    TimeUnitExhausted { wait: Duration },
    /// The clock is behind positions that were taken, or reserved by another process: wait for it.
    ClockBehind { by: Duration },
    /// This time is not reserved for this worker.
    Unreserved,
    /// The layout cannot represent this time.
    TimeExhausted,
}

/// Decides what the generator does.
pub(crate) fn decide(layout: &Layout, input: &ClockInput) -> ClockDecision {
    let shift = layout.sequence_bits();
    let at = input.next >> shift;
    if at >= layout.ticks() {
        return ClockDecision::TimeExhausted;
    }
    let ahead = layout.begin_of(at).saturating_sub(input.now);
    let Some(now) = layout.tick_at(input.now) else {
        // Before the epoch: the first time unit begins when the clock reaches the epoch.
        return ClockDecision::ClockBehind { by: ahead };
    };
    if at == now + 1 {
        return ClockDecision::TimeUnitExhausted { wait: ahead };
    }
    if at > now {
        return ClockDecision::ClockBehind { by: ahead };
    }
    if now >= layout.ticks() {
        return ClockDecision::TimeExhausted;
    }
    let from = if input.has_waiters {
        // Timers fire late: callers that waited may take the positions that they missed meanwhile.
        now.saturating_sub(late_allowance(layout))
    } else {
        now
    };
    let start = input.next.max(from << shift);
    let end = (now + 1).min(input.reserved) << shift;
    if start < end {
        ClockDecision::Open { start, end }
    } else {
        ClockDecision::Unreserved
    }
}

/// Returns how many time units the time of an id may be in the past, for callers that waited.
const fn late_allowance(layout: &Layout) -> u64 {
    LATE_ALLOWANCE_MILLIS / layout.unit_millis()
}

/// How many milliseconds the time of an id may be in the past, for callers that waited.
const LATE_ALLOWANCE_MILLIS: u64 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    /// Two ids in a millisecond, 32 milliseconds from 100 on.
    const LAYOUT: Layout = Layout::new(5, 0, 1, Duration::from_millis(100));

    fn input(micros: u64, next: u64, reserved: u64) -> ClockInput {
        ClockInput {
            now: Duration::from_micros(micros),
            next,
            has_waiters: false,
            reserved,
        }
    }

    #[test]
    fn the_window_is_the_millisecond_of_the_clock() {
        let ms = Duration::from_millis;
        for (micros, next, reserved, expected) in [
            (100_000, 0, 32, ClockDecision::Open { start: 0, end: 2 }),
            (100_999, 1, 32, ClockDecision::Open { start: 1, end: 2 }),
            (107_500, 1, 32, ClockDecision::Open { start: 14, end: 16 }),
            (
                107_500,
                16,
                32,
                ClockDecision::TimeUnitExhausted {
                    wait: Duration::from_micros(500),
                },
            ),
            (107_000, 18, 32, ClockDecision::ClockBehind { by: ms(2) }),
            (99_000, 0, 32, ClockDecision::ClockBehind { by: ms(1) }),
            (0, 4, 32, ClockDecision::ClockBehind { by: ms(102) }),
            (107_000, 4, 8, ClockDecision::Open { start: 14, end: 16 }),
            (107_000, 4, 7, ClockDecision::Unreserved),
            (107_000, 15, 7, ClockDecision::Unreserved),
            (131_000, 0, 32, ClockDecision::Open { start: 62, end: 64 }),
            (132_000, 0, 32, ClockDecision::TimeExhausted),
            (131_000, 64, 32, ClockDecision::TimeExhausted),
        ] {
            let input = input(micros, next, reserved);
            assert_eq!(decide(&LAYOUT, &input), expected, "{input:?}");
        }
    }

    #[test]
    fn the_window_is_the_time_unit_of_the_clock() {
        let seconds = LAYOUT.with_time_unit(Duration::from_secs(1));
        let tens = LAYOUT.with_time_unit(Duration::from_millis(10));
        for (layout, millis, next, reserved, expected) in [
            (
                seconds,
                100,
                0,
                32,
                ClockDecision::Open { start: 0, end: 2 },
            ),
            (
                seconds,
                1_099,
                1,
                32,
                ClockDecision::Open { start: 1, end: 2 },
            ),
            (
                seconds,
                1_100,
                1,
                32,
                ClockDecision::Open { start: 2, end: 4 },
            ),
            (
                seconds,
                700,
                2,
                32,
                ClockDecision::TimeUnitExhausted {
                    wait: Duration::from_millis(400),
                },
            ),
            (
                seconds,
                700,
                4,
                32,
                ClockDecision::ClockBehind {
                    by: Duration::from_millis(1_400),
                },
            ),
            (seconds, 2_100, 0, 2, ClockDecision::Unreserved),
            (seconds, 32_100, 0, 32, ClockDecision::TimeExhausted),
            (tens, 139, 0, 32, ClockDecision::Open { start: 6, end: 8 }),
        ] {
            let input = input(millis * 1000, next, reserved);
            assert_eq!(decide(&layout, &input), expected, "{layout}: {input:?}");
        }
        // A late timer loses no positions of the last ten milliseconds, which are one unit.
        let mut late = input(149_000, 4, 32);
        late.has_waiters = true;
        assert_eq!(
            decide(&tens, &late),
            ClockDecision::Open { start: 6, end: 10 }
        );
    }

    #[test]
    fn a_late_timer_loses_no_positions_of_the_last_ten_milliseconds() {
        let mut input = input(120_000, 4, 32);
        input.has_waiters = true;
        let open = |start| ClockDecision::Open { start, end: 42 };
        assert_eq!(decide(&LAYOUT, &input), open(2 * (20 - 10)));
        input.next = 38;
        assert_eq!(decide(&LAYOUT, &input), open(38));
    }

    #[test]
    fn no_clock_makes_positions_repeat_or_come_early() {
        let mut opened = 0;
        for micros in (98_000..134_000).step_by(250) {
            for next in 0..66 {
                for reserved in 0..33 {
                    for has_waiters in [false, true] {
                        let input = ClockInput {
                            has_waiters,
                            ..input(micros, next, reserved)
                        };
                        let ClockDecision::Open { start, end } = decide(&LAYOUT, &input) else {
                            continue;
                        };
                        opened += 1;
                        assert!(next <= start && start < end, "{input:?}");
                        // No time in the future, unreserved, or long past.
                        let last = (end - 1) >> 1;
                        let now = micros / 1000 - 100;
                        assert!(last <= now && last < reserved && last < 32, "{input:?}");
                        assert!(start >> 1 >= now.saturating_sub(10), "{input:?}");
                    }
                }
            }
        }
        assert!(opened > 100_000, "{opened}");
    }
}
