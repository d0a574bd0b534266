//! How many reads of a cache are on their way at once.

use std::time::Duration;

/// A number of reads that follows the link: it grows with each answer, and is halved when answers take long, because they
/// queue up on the link. What else the session sends, its heartbeats among it, waits behind them.
#[derive(Debug)]
pub(crate) struct Window {
    size: usize,
    most: usize,
    /// How long an answer may take.
    slow: Duration,
    /// How long the fastest answer took: no window makes them faster.
    fastest: Duration,
    /// How many answers are still to come whose reads were sent before the window was halved.
    old: usize,
}

impl Window {
    pub(crate) const fn new(most: usize, slow: Duration) -> Self {
        Self {
            size: if most < FIRST { most } else { FIRST },
            most,
            slow,
            fastest: Duration::MAX,
            old: 0,
        }
    }

    /// How many reads may be on their way.
    pub(crate) const fn size(&self) -> usize {
        self.size
    }

    /// Takes note of an answer that took so long, while so many more are awaited.
    pub(crate) fn answered(&mut self, took: Duration, awaited: usize) {
        self.fastest = self.fastest.min(took);
        if self.old > 0 {
            self.old -= 1;
        } else if took > self.slow.max(self.fastest * 2) {
            self.size = (self.size / 2).max(1);
            self.old = awaited;
        } else {
            self.size = (self.size + 1).min(self.most);
        }
    }

    /// The link is another one, of which nothing is known.
    pub(crate) fn reset(&mut self) {
        *self = Self::new(self.most, self.slow);
    }
}

/// With how many reads a load begins, of whose answers nothing is known: a small one is one round.
const FIRST: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    const SLOW: Duration = Duration::from_millis(500);

    /// A link that takes so long for each answer, and so long to get there and back: the window after a while.
    fn window_on(each: Duration, round_trip: Duration) -> usize {
        let mut window = Window::new(256, SLOW);
        // The first one, which is alone.
        window.answered(each.max(round_trip), 0);
        let mut largest = 0;
        for answer in 0..10_000 {
            let size = u32::try_from(window.size()).unwrap();
            window.answered((each * size).max(round_trip), window.size() - 1);
            if answer > 1000 {
                largest = largest.max(window.size());
            }
        }
        largest
    }

    #[test]
    fn window_is_what_the_link_carries_in_time() {
        let (us, ms) = (Duration::from_micros, Duration::from_millis);
        assert_eq!(window_on(us(100), ms(1)), 256);
        // Ten in half a second, and one more to find that out.
        assert_eq!(window_on(ms(50), ms(1)), 11);
        assert_eq!(window_on(ms(800), ms(1)), 3);
        // A long way is no queue.
        assert_eq!(window_on(us(100), ms(700)), 256);
    }
}
