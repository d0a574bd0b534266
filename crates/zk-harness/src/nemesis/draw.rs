//! Draws faults, durations and numbers from a seed.
//!
//! Pure: no I/O and no clock.

use std::fmt;
use std::time::Duration;

/// A kind of fault that a [`Nemesis`](super::Nemesis) injects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Fault {
    /// A server's process is killed and restarted.
    Kill,
    /// A server's process is paused.
    Pause,
    /// The links of a server are blocked in both directions; clients can connect. Requires quorum links.
    Isolate,
    /// The links to a server are blocked; those from it are not. Requires quorum links.
    BlockInbound,
    /// The links of a server are delayed by up to 150 ms. Requires quorum links.
    Slow,
    /// All client connections of a server are cut, by FIN or RST. Requires proxies.
    Cut,
    /// A write is lost before it reaches its server, and its connection is cut. Requires proxies.
    LoseRequest,
    /// A write is processed, and its connection is cut instead of the reply. Requires proxies.
    LoseReply,
    /// A connection passes nothing any more, but stays open. Requires proxies.
    Silence,
    /// A client's session expires. Requires proxies, which know the sessions.
    Expire,
    /// A server's disk is full; the server is then killed and restarted with a free disk.
    Disk,
    /// A server's clock is up to two hours ahead or behind. Requires movable clocks.
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

    /// Returns its name in a history.
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

    /// Returns whether it affects a session instead of a server.
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
        // It draws even from an empty list, so that later draws stay the same.
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

    #[test]
    fn equal_seeds_draw_equally_and_every_fault_is_drawn() {
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
