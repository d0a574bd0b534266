//! The settings of a [`Chaos`], and the disturbances it draws from.
//!
//! Pure: no I/O and no clock.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use zk_core::transport::Request;

/// A source of random disturbances; [`run`](Self::run) starts it.
///
/// # Defaults
///
/// It lasts for 10 s, with a disturbance every 200 ms on average.
/// A disturbance with a duration lasts for up to 4 s, mostly less.
/// Each [`Disturbance`] has its own weight. That of [`Expire`](Disturbance::Expire) is 0, because not all code is meant
/// to survive the loss of a session.
/// Disturbances of a request affect any request.
#[derive(Clone)]
#[must_use = "it does nothing before `run`"]
pub struct Chaos {
    pub(super) lasting: Duration,
    pub(super) every: Duration,
    pub(super) longest: Duration,
    pub(super) matcher: Matcher,
    weights: [u32; Disturbance::ALL.len()],
}

type Matcher = Arc<dyn Fn(&Request) -> bool + Send + Sync>;

impl Default for Chaos {
    fn default() -> Self {
        Self {
            lasting: Duration::from_secs(10),
            every: Duration::from_millis(200),
            longest: Duration::from_secs(4),
            matcher: Arc::new(|_| true),
            weights: Disturbance::ALL.map(Disturbance::weight),
        }
    }
}

impl Chaos {
    /// Sets the total duration.
    pub fn lasting(mut self, duration: Duration) -> Self {
        self.lasting = duration;
        self
    }

    /// Sets the average time between two disturbances.
    ///
    /// # Panics
    ///
    /// If `pause` is zero.
    pub fn every(mut self, pause: Duration) -> Self {
        assert!(!pause.is_zero(), "the pause is zero: set a longer one");
        self.every = pause;
        self
    }

    /// Sets the longest duration of a disturbance.
    pub fn longest(mut self, duration: Duration) -> Self {
        self.longest = duration;
        self
    }

    /// Sets the relative frequency of a disturbance; 0 disables it.
    pub fn weight(mut self, what: Disturbance, weight: u32) -> Self {
        self.weights[what as usize] = weight;
        self
    }

    /// Restricts the disturbances to these, with their default weights, or 1 where the default is 0.
    pub fn only(mut self, these: &[Disturbance]) -> Self {
        self.weights = Disturbance::ALL.map(|what| {
            if these.contains(&what) {
                what.weight().max(1)
            } else {
                0
            }
        });
        self
    }

    /// Sets which requests are affected; [`matching`](crate::matching) has matchers.
    ///
    /// The matcher must not use the ensemble.
    pub fn matching(mut self, matcher: impl Fn(&Request) -> bool + Send + Sync + 'static) -> Self {
        self.matcher = Arc::new(matcher);
        self
    }

    /// Draws the next disturbance; `None` if all weights are 0.
    pub(super) fn draw(&self, random: &mut fastrand::Rng) -> Option<Disturbance> {
        let sum: u32 = self.weights.iter().sum();
        if sum == 0 {
            return None;
        }
        let mut left = random.u32(0..sum);
        Disturbance::ALL.into_iter().find(|what| {
            let weight = self.weights[*what as usize];
            let is_it = left < weight;
            left = left.saturating_sub(weight);
            is_it
        })
    }
}

impl fmt::Debug for Chaos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chaos")
            .field("lasting", &self.lasting)
            .field("every", &self.every)
            .field("longest", &self.longest)
            .field("weights", &self.weights)
            .finish_non_exhaustive()
    }
}

/// A disturbance that a [`Chaos`] can inject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Disturbance {
    /// A link breaks.
    Cut,
    /// A link breaks for a while.
    CutFor,
    /// A link breaks and comes back at another server.
    Move,
    /// A link carries no messages for a while, or until the client gives up.
    Silence,
    /// A session has no link for a while.
    Partition,
    /// The next request of a session is lost.
    LoseRequest,
    /// The reply to the next request of a session is lost.
    LoseReply,
    /// The next write of a session is stuck for a while between its server and the leader.
    Stall,
    /// The next write of a session is committed after the session has moved to a server that does not show it yet.
    StallThenMove,
    /// The reply to the next request of a session is delayed.
    Hold,
    /// The leader dies after it has proposed the next write of a session.
    KillLeader,
    /// A server lags for a while.
    Lag,
    /// A server is stopped for a while.
    StopServer,
    /// The leader is stopped for a while.
    StopLeader,
    /// A server is paused for a while.
    PauseServer,
    /// A session expires.
    Expire,
}

impl Disturbance {
    /// Every disturbance.
    pub const ALL: [Self; 16] = [
        Self::Cut,
        Self::CutFor,
        Self::Move,
        Self::Silence,
        Self::Partition,
        Self::LoseRequest,
        Self::LoseReply,
        Self::Stall,
        Self::StallThenMove,
        Self::Hold,
        Self::KillLeader,
        Self::Lag,
        Self::StopServer,
        Self::StopLeader,
        Self::PauseServer,
        Self::Expire,
    ];

    /// Returns the default weight.
    fn weight(self) -> u32 {
        match self {
            Self::Cut | Self::LoseReply | Self::StallThenMove => 4,
            Self::CutFor | Self::Move | Self::LoseRequest | Self::Lag => 3,
            Self::Silence | Self::Stall | Self::Hold => 2,
            Self::Partition
            | Self::KillLeader
            | Self::StopServer
            | Self::StopLeader
            | Self::PauseServer => 1,
            Self::Expire => 0,
        }
    }

    /// Returns whether it affects a session, rather than a server.
    pub(super) fn targets_session(self) -> bool {
        !matches!(
            self,
            Self::Lag | Self::StopServer | Self::StopLeader | Self::PauseServer
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_disturbance_is_drawn_as_often_as_it_weighs() {
        let chaos = Chaos::default()
            .only(&[Disturbance::Cut, Disturbance::Expire])
            .weight(Disturbance::Cut, 1)
            .weight(Disturbance::Lag, 2);
        let mut random = fastrand::Rng::with_seed(1);
        let mut counts = [0; Disturbance::ALL.len()];
        for _ in 0..4000 {
            counts[chaos.draw(&mut random).unwrap() as usize] += 1;
        }
        for (what, count) in Disturbance::ALL.into_iter().zip(counts) {
            let expected = match what {
                Disturbance::Cut | Disturbance::Expire => 800..1200,
                Disturbance::Lag => 1800..2200,
                _ => 0..1,
            };
            assert!(expected.contains(&count), "{what:?} {count}");
        }
        assert_eq!(chaos.only(&[]).draw(&mut random), None);
    }

    #[test]
    fn all_lists_the_disturbances_in_their_order() {
        for (at, what) in Disturbance::ALL.into_iter().enumerate() {
            assert_eq!(what as usize, at);
        }
    }
}
