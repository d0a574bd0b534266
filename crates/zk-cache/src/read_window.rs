//! The number of reads that a cache has in flight.

use std::time::Duration;

/// The limit of reads in flight, adapted to the link: additive increase, multiplicative decrease.
///
/// It grows by one with each fast reply, and is halved when replies are slow because they queue up on the link. Other
/// requests of the session, its heartbeats among them, wait behind that queue.
#[derive(Debug)]
pub(crate) struct ReadWindow {
    size: usize,
    max: usize,
    /// A reply that takes longer counts as slow.
    slow: Duration,
    /// The fastest reply so far: a smaller window cannot make replies faster than that.
    fastest: Duration,
    /// How many replies are still expected for reads that were sent before the window was halved.
    sent_before_halving: usize,
}

impl ReadWindow {
    pub(crate) const fn new(max: usize, slow: Duration) -> Self {
        Self {
            size: if max < INITIAL { max } else { INITIAL },
            max,
            slow,
            fastest: Duration::MAX,
            sent_before_halving: 0,
        }
    }

    /// Returns how many reads may be in flight.
    pub(crate) const fn size(&self) -> usize {
        self.size
    }

    /// Takes the time that a reply took, and the number of reads still in flight.
    pub(crate) fn on_reply(&mut self, took: Duration, in_flight: usize) {
        self.fastest = self.fastest.min(took);
        if self.sent_before_halving > 0 {
            self.sent_before_halving -= 1;
        } else if took > self.slow.max(self.fastest * 2) {
            self.size = (self.size / 2).max(1);
            self.sent_before_halving = in_flight;
        } else {
            self.size = (self.size + 1).min(self.max);
        }
    }

    /// Starts again, for a new connection.
    pub(crate) fn reset(&mut self) {
        *self = Self::new(self.max, self.slow);
    }
}

/// The window at the start of a connection: a small load takes one round trip.
const INITIAL: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    const SLOW: Duration = Duration::from_millis(500);

    /// Returns the largest window that a link settles at, given its time per reply and its round trip.
    fn window_on(each: Duration, round_trip: Duration) -> usize {
        let mut window = ReadWindow::new(256, SLOW);
        // The first reply, with no other read in flight.
        window.on_reply(each.max(round_trip), 0);
        let mut largest = 0;
        for reply in 0..10_000 {
            let size = u32::try_from(window.size()).unwrap();
            window.on_reply((each * size).max(round_trip), window.size() - 1);
            if reply > 1000 {
                largest = largest.max(window.size());
            }
        }
        largest
    }

    #[test]
    fn window_is_what_the_link_carries_in_time() {
        let (us, ms) = (Duration::from_micros, Duration::from_millis);
        assert_eq!(window_on(us(100), ms(1)), 256);
        // Ten replies in half a second, and one more to detect the queue.
        assert_eq!(window_on(ms(50), ms(1)), 11);
        assert_eq!(window_on(ms(800), ms(1)), 3);
        // A long round trip is no queue.
        assert_eq!(window_on(us(100), ms(700)), 256);
    }
}
