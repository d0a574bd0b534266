//! When a request that failed for now is made again.
//!
//! Pure: no I/O and no clock.

use std::time::Duration;

/// How long a call pauses before it makes a request again, and how often it does.
///
/// It is asked when a request could not be carried out for a reason that may pass, and only about requests that may be
/// made again without harm; the deadline of the call bounds it in any case.
/// Waiting for a connection is no attempt and costs nothing of the budget.
/// Each call begins with a fresh budget.
///
/// # Defaults
///
/// [`RetryPolicy::default`] is exponential from 20 ms, capped at one second, with jitter, until the deadline of the
/// call.
///
/// ```
/// use std::time::Duration;
/// use zk_core::RetryPolicy;
///
/// let patient = RetryPolicy::exponential(Duration::from_millis(50))
///     .capped(Duration::from_secs(5))
///     .at_most(10);
/// let regular = RetryPolicy::constant(Duration::from_millis(200)).within(Duration::from_secs(3));
/// let strict = RetryPolicy::never();
/// # let _ = (patient, regular, strict);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    first: Duration,
    growth: Growth,
    cap: Duration,
    retries: u32,
    within: Duration,
    jitter: Jitter,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Growth {
    Constant,
    Exponential,
}

/// Whether pauses vary by chance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Jitter {
    /// Each pause is as long as the policy says.
    None,
    /// Each pause is between half of what the policy says and all of it, so that clients which failed together do not
    /// come back together.
    Half,
}

impl RetryPolicy {
    /// Never makes a request again.
    #[must_use]
    pub const fn never() -> Self {
        Self::constant(Duration::ZERO).at_most(0)
    }

    /// Pauses for `interval` each time, for as long as the call may take.
    #[must_use]
    pub const fn constant(interval: Duration) -> Self {
        Self {
            first: interval,
            growth: Growth::Constant,
            cap: Duration::MAX,
            retries: u32::MAX,
            within: Duration::MAX,
            jitter: Jitter::None,
        }
    }

    /// Pauses for `first`, then for twice as long each time, for as long as the call may take, with jitter.
    #[must_use]
    pub const fn exponential(first: Duration) -> Self {
        Self {
            growth: Growth::Exponential,
            jitter: Jitter::Half,
            ..Self::constant(first)
        }
    }

    /// Lets no pause be longer than `longest`; by default there is no such bound.
    #[must_use]
    pub const fn capped(mut self, longest: Duration) -> Self {
        self.cap = longest;
        self
    }

    /// Makes a request again at most `retries` times; zero is never, and by default there is no such bound.
    #[must_use]
    pub const fn at_most(mut self, retries: u32) -> Self {
        self.retries = retries;
        self
    }

    /// Makes no request again that could not begin within `elapsed` from the start of the call; by default there is
    /// no such bound but the deadline of the call.
    #[must_use]
    pub const fn within(mut self, elapsed: Duration) -> Self {
        self.within = elapsed;
        self
    }

    /// Says whether pauses vary by chance.
    #[must_use]
    pub const fn jitter(mut self, jitter: Jitter) -> Self {
        self.jitter = jitter;
        self
    }

    /// Returns the pause before the next attempt, or nothing when there is to be none.
    ///
    /// `attempts` have been made, the call began `elapsed` ago, and `chance` is a number from 0 up to 1.
    pub(crate) fn pause(
        &self,
        attempts: u32,
        elapsed: Duration,
        chance: impl FnOnce() -> f64,
    ) -> Option<Duration> {
        if attempts > self.retries {
            return None;
        }
        let doublings = match self.growth {
            Growth::Constant => 0,
            Growth::Exponential => attempts.saturating_sub(1),
        };
        let factor = 2_u32.checked_pow(doublings).unwrap_or(u32::MAX);
        let whole = self.first.saturating_mul(factor).min(self.cap);
        let pause = match self.jitter {
            Jitter::None => whole,
            Jitter::Half => whole / 2 + (whole / 2).mul_f64(chance().clamp(0.0, 1.0)),
        };
        (elapsed.saturating_add(pause) <= self.within).then_some(pause)
    }
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self::exponential(Duration::from_millis(20)).capped(Duration::from_secs(1))
    }
}

#[cfg(test)]
mod tests;
