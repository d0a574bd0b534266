//! What a chaos is made of.
//!
//! Pure: no I/O and no clock.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use zk_core::transport::Request;

/// A source of disturbances at random; [`run`](Self::run) lets it go.
///
/// # Defaults
///
/// It lasts for 10 s, with a disturbance every 200 ms on average.
/// Whatever has a duration lasts for up to 4 s, mostly for less.
/// Every [`Disturbance`] has its own weight but [`Expire`](Disturbance::Expire), which does not happen: not all code is
/// meant to get over the loss of a session.
/// A request that is struck is any that is sent.
#[derive(Clone)]
#[must_use = "it is let go by `run`"]
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
    /// Sets for how long it lasts.
    pub fn lasting(mut self, duration: Duration) -> Self {
        self.lasting = duration;
        self
    }

    /// Sets how much time passes between two disturbances on average.
    ///
    /// # Panics
    ///
    /// When it is no time at all.
    pub fn every(mut self, pause: Duration) -> Self {
        assert!(!pause.is_zero(), "the pause is longer than nothing");
        self.every = pause;
        self
    }

    /// Sets how long a disturbance that has a duration lasts at most.
    pub fn longest(mut self, duration: Duration) -> Self {
        self.longest = duration;
        self
    }

    /// Sets how often something happens in comparison with the rest; 0 for never.
    pub fn weight(mut self, what: Disturbance, weight: u32) -> Self {
        self.weights[what as usize] = weight;
        self
    }

    /// Lets nothing happen but these, each as often as by default, or as the others if it has no weight there.
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

    /// Sets which requests are struck; [`matching`](crate::matching) has matchers.
    ///
    /// The matcher must not use the ensemble.
    pub fn matching(mut self, matcher: impl Fn(&Request) -> bool + Send + Sync + 'static) -> Self {
        self.matcher = Arc::new(matcher);
        self
    }

    /// Draws what happens next; nothing if all weights are 0.
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

/// Something bad that a [`Chaos`] does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Disturbance {
    /// A link breaks.
    Cut,
    /// A link breaks for a while.
    CutFor,
    /// A link breaks and comes back at another server.
    Move,
    /// Nothing passes on a link for a while, or until the client gives it up.
    Silence,
    /// A session has no link for a while.
    Partition,
    /// The next request of a session is lost.
    LoseRequest,
    /// The answer to the next request of a session is lost.
    LoseReply,
    /// The next write of a session is stuck for a while between its server and the leader.
    Stall,
    /// The next write of a session is committed after the session has moved to a server that does not show it.
    StallThenMove,
    /// The answer to the next request of a session is late.
    Hold,
    /// The leader dies of the next write of a session.
    KillLeader,
    /// A server falls behind for a while.
    Lag,
    /// A server is away for a while.
    StopServer,
    /// The leader is away for a while.
    StopLeader,
    /// A server does nothing for a while.
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

    /// How often it happens by default, in comparison with the rest.
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

    /// Tells whether it befalls one session.
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
    fn all_are_in_their_order() {
        for (at, what) in Disturbance::ALL.into_iter().enumerate() {
            assert_eq!(what as usize, at);
        }
    }
}
