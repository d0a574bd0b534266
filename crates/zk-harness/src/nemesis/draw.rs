//! What is drawn: pure, and the same for the same seed.
//!
//! Pure: no I/O and no clock.

use std::fmt;
use std::time::Duration;

/// A fault that a [`Nemesis`](super::Nemesis) makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Fault {
    /// A server's process is killed, and started again.
    Kill,
    /// A server's process is frozen.
    Pause,
    /// A server cannot talk to the others; clients reach it. Needs quorum links.
    Isolate,
    /// A server hears nothing of the others, and is heard. Needs quorum links.
    BlockInbound,
    /// What a server and the others say to each other is late by up to 150 ms. Needs quorum links.
    Slow,
    /// The connections of all clients at a server are cut, by FIN or RST. Needs proxies.
    Cut,
    /// A write does not reach its server, and its connection is cut. Needs proxies.
    LoseRequest,
    /// A write is carried out, and its connection is cut in place of the reply. Needs proxies.
    LoseReply,
    /// A connection goes silent without an end. Needs proxies.
    Silence,
    /// A client's session expires. Needs proxies, which know the sessions.
    Expire,
    /// A server's disk is full, and the server is started again when there is room.
    Disk,
    /// A server's clock is up to two hours ahead or behind. Needs movable clocks.
    Clock,
}

impl Fault {
    /// Every fault.
    pub const ALL: [Self; 12] = [
        Self::Kill,
        Self::Pause,
        Self::Isolate,
        Self::BlockInbound,
        Self::Slow,
        Self::Cut,
        Self::LoseRequest,
        Self::LoseReply,
        Self::Silence,
        Self::Expire,
        Self::Disk,
        Self::Clock,
    ];

    /// Its name, as a history has it.
    ///
    /// A paused server is no paused holder of a lock, so it has another name than checkers know for that.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::Pause => "pause-server",
            Self::Isolate => "isolate",
            Self::BlockInbound => "deafen",
            Self::Slow => "slow",
            Self::Cut => "cut",
            Self::LoseRequest => "lose-request",
            Self::LoseReply => "lose-reply",
            Self::Silence => "silence",
            Self::Expire => "expire",
            Self::Disk => "disk",
            Self::Clock => "clock",
        }
    }

    /// Whether it strikes a session, of whichever server.
    pub const fn is_for_a_session(self) -> bool {
        matches!(self, Self::Expire)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Draws from a seed.
#[derive(Debug)]
pub(super) struct Draw(fastrand::Rng);

impl Draw {
    pub(super) fn new(seed: u64) -> Self {
        Self(fastrand::Rng::with_seed(seed))
    }

    pub(super) fn one_of<T: Copy>(&mut self, all: &[T]) -> Option<T> {
        // Also drawn where there is nothing: what comes later stays the same.
        let at = self.0.usize(0..all.len().max(1));
        all.get(at).copied()
    }

    pub(super) fn between(&mut self, (shortest, longest): (Duration, Duration)) -> Duration {
        let spread = longest.saturating_sub(shortest);
        shortest + spread.mul_f64(self.0.f64())
    }

    pub(super) fn number(&mut self) -> u64 {
        self.0.u64(..)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: H7
    #[test]
    fn the_same_seed_draws_the_same_and_in_the_end_everything() {
        let sequence = |seed| {
            let mut draw = Draw::new(seed);
            let bounds = (Duration::from_millis(5), Duration::from_millis(9));
            (0..200)
                .map(|_| {
                    (
                        draw.one_of(&Fault::ALL),
                        draw.between(bounds),
                        draw.number(),
                    )
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(sequence(7), sequence(7));
        assert_ne!(sequence(7), sequence(8));
        for fault in Fault::ALL {
            assert!(
                sequence(7).iter().any(|(drawn, ..)| *drawn == Some(fault)),
                "{fault}"
            );
        }
        for (_, lasts, _) in sequence(7) {
            assert!((5..=9).contains(&lasts.as_millis()), "{lasts:?}");
        }
        assert_eq!(Draw::new(7).one_of::<Fault>(&[]), None);
    }
}
