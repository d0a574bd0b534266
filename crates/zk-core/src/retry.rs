//! When to retry a request after a recoverable failure.
//!
//! Pure: no I/O and no clock.

use std::time::Duration;

/// How often a call retries a request, and the pause before each retry.
///
/// It applies to transient failures of requests that are safe to repeat.
/// The deadline of the call limits retries in any case.
/// Waiting for a connection does not count as an attempt.
/// Each call starts with a fresh budget.
///
/// # Defaults
///
/// [`RetryPolicy::default`] is exponential from 20 ms to one second, with jitter, until the deadline of the call.
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

/// Whether pauses vary randomly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Jitter {
    /// Each pause is exactly what the policy gives.
    None,
    /// Each pause is between half of what the policy gives and all of it, so that clients that failed together do not
    /// retry together.
    Half,
    /// Each pause is between zero and what the policy gives, so that clients that hinder each other spread out.
    Full,
}

impl RetryPolicy {
    /// Never retries.
    #[must_use]
    pub const fn never() -> Self {
        Self::constant(Duration::ZERO).at_most(0)
    }

    /// Pauses for `interval` before each retry, until the deadline of the call.
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

    /// Pauses for `first` and doubles the pause for each retry, with jitter, until the deadline of the call.
    #[must_use]
    pub const fn exponential(first: Duration) -> Self {
        Self {
            growth: Growth::Exponential,
            jitter: Jitter::Half,
            ..Self::constant(first)
        }
    }

    /// Limits each pause to `longest`. Unlimited by default.
    #[must_use]
    pub const fn capped(mut self, longest: Duration) -> Self {
        self.cap = longest;
        self
    }

    /// Limits the number of retries. Unlimited by default; zero never retries.
    #[must_use]
    pub const fn at_most(mut self, retries: u32) -> Self {
        self.retries = retries;
        self
    }

    /// Starts no retry later than `elapsed` after the start of the call. By default only the deadline of the call
    /// limits retries.
    #[must_use]
    pub const fn within(mut self, elapsed: Duration) -> Self {
        self.within = elapsed;
        self
    }

    /// Sets whether pauses vary randomly. The default is [`Jitter::Half`] for exponential pauses, otherwise none.
    #[must_use]
    pub const fn jitter(mut self, jitter: Jitter) -> Self {
        self.jitter = jitter;
        self
    }

    /// Returns the pause before the next attempt, or `None` to give up.
    ///
    /// `attempts` is the number of attempts so far, from 1, `elapsed` the time since the call began, and `chance` returns
    /// a random number from 0 to 1. It reads no clock.
    pub fn pause(
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
            Jitter::Full => whole.mul_f64(chance().clamp(0.0, 1.0)),
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
