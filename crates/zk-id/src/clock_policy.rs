//! Which positions may be taken now: what the clock, what was taken and what is reserved allow.
//!
//! Pure: no I/O and no clock.

use std::time::Duration;

use crate::layout::Layout;

/// What is known when more is asked for than the window has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known {
    /// What the clock says, as the time since the Unix epoch.
    pub(crate) now: Duration,
    /// The position to be taken next.
    pub(crate) next: u64,
    /// Whether a window was used up just before, so that somebody may have waited.
    pub(crate) is_pressed: bool,
    /// The first millisecond of the epoch that is not reserved for this worker.
    pub(crate) reserved: u64,
}

/// What to do then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    /// Take what is before `end`, and nothing before `floor`.
    Open { floor: u64, end: u64 },
    /// The millisecond has no more: wait for the next one.
    UsedUp { wait: Duration },
    /// The clock is behind what was taken, or reserved by another process: wait until it is not.
    Behind { by: Duration },
    /// The ensemble has not reserved this time for this worker.
    Unreserved,
    /// The layout has no such time.
    Over,
}

pub(crate) fn pace(layout: &Layout, known: &Known) -> Pace {
    let shift = layout.sequence_bits();
    let at = known.next >> shift;
    if at >= layout.ticks() {
        return Pace::Over;
    }
    let ahead = layout.begin_of(at).saturating_sub(known.now);
    let Some(now) = layout.tick_at(known.now) else {
        // Before the epoch: the first millisecond there is begins when the clock is there.
        return Pace::Behind { by: ahead };
    };
    if at == now + 1 {
        return Pace::UsedUp { wait: ahead };
    }
    if at > now {
        return Pace::Behind { by: ahead };
    }
    if now >= layout.ticks() {
        return Pace::Over;
    }
    let from = if known.is_pressed {
        // Whoever waits oversleeps: what it could have taken meanwhile is not lost.
        now.saturating_sub(CATCH_UP)
    } else {
        now
    };
    let floor = known.next.max(from << shift);
    let end = (now + 1).min(known.reserved) << shift;
    if floor < end {
        Pace::Open { floor, end }
    } else {
        Pace::Unreserved
    }
}

/// How many milliseconds the time of an id may be in the past, for the sake of those who wait.
pub(crate) const CATCH_UP: u64 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    /// Two ids in a millisecond, 32 milliseconds from 100 on.
    const LAYOUT: Layout = Layout::new(5, 0, 1, Duration::from_millis(100));

    fn known(micros: u64, next: u64, reserved: u64) -> Known {
        Known {
            now: Duration::from_micros(micros),
            next,
            is_pressed: false,
            reserved,
        }
    }

    // covers: I3
    #[test]
    fn what_may_be_taken_is_the_millisecond_of_the_clock() {
        let ms = Duration::from_millis;
        for (micros, next, reserved, expected) in [
            (100_000, 0, 32, Pace::Open { floor: 0, end: 2 }),
            (100_999, 1, 32, Pace::Open { floor: 1, end: 2 }),
            (107_500, 1, 32, Pace::Open { floor: 14, end: 16 }),
            (
                107_500,
                16,
                32,
                Pace::UsedUp {
                    wait: Duration::from_micros(500),
                },
            ),
            (107_000, 18, 32, Pace::Behind { by: ms(2) }),
            (99_000, 0, 32, Pace::Behind { by: ms(1) }),
            (0, 4, 32, Pace::Behind { by: ms(102) }),
            (107_000, 4, 8, Pace::Open { floor: 14, end: 16 }),
            (107_000, 4, 7, Pace::Unreserved),
            (107_000, 15, 7, Pace::Unreserved),
            (131_000, 0, 32, Pace::Open { floor: 62, end: 64 }),
            (132_000, 0, 32, Pace::Over),
            (131_000, 64, 32, Pace::Over),
        ] {
            let known = known(micros, next, reserved);
            assert_eq!(pace(&LAYOUT, &known), expected, "{known:?}");
        }
    }

    #[test]
    fn who_waited_takes_what_it_overslept_but_no_more() {
        let mut known = known(120_000, 4, 32);
        known.is_pressed = true;
        let open = |floor| Pace::Open { floor, end: 42 };
        assert_eq!(pace(&LAYOUT, &known), open(2 * (20 - CATCH_UP)));
        known.next = 38;
        assert_eq!(pace(&LAYOUT, &known), open(38));
    }

    // covers: I3
    #[test]
    fn nothing_is_given_out_twice_or_early_whatever_the_clock_does() {
        let mut opened = 0;
        for micros in (98_000..134_000).step_by(250) {
            for next in 0..66 {
                for reserved in 0..33 {
                    for is_pressed in [false, true] {
                        let known = Known {
                            is_pressed,
                            ..known(micros, next, reserved)
                        };
                        let Pace::Open { floor, end } = pace(&LAYOUT, &known) else {
                            continue;
                        };
                        opened += 1;
                        assert!(next <= floor && floor < end, "{known:?}");
                        // No time of the future, none that is not reserved, none long past.
                        let last = (end - 1) >> 1;
                        let now = micros / 1000 - 100;
                        assert!(last <= now && last < reserved && last < 32, "{known:?}");
                        assert!(floor >> 1 >= now.saturating_sub(CATCH_UP), "{known:?}");
                    }
                }
            }
        }
        assert!(opened > 100_000, "{opened}");
    }
}
