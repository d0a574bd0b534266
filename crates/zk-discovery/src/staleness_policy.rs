//! Whether the list of instances may be picked from.
//!
//! Pure: no I/O and no clock.

use std::time::Duration;

use zk_cache::CacheEnd;
use zk_cache::CacheState;
use zk_cache::PartialRead;
use zk_core::ErrorClass;

/// What is picked while the connection is broken, and after its session has ended, until the next one
/// [takes over](crate::Providers::follow).
///
/// That the registry cannot be reached says nothing of the instances: they may well be up.
///
/// It counts as broken from when that is noticed: an ensemble that falls silent may be so for two thirds of the session
/// timeout by then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WhenStale {
    /// One of the instances that were known before.
    Use,
    /// The same, but for so long only.
    UseFor(Duration),
    /// None.
    Refuse,
}

/// What is picked when every instance is set aside, or more of them than
/// [may be](crate::FailureRules::with_max_ejected).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WhenAllEjected {
    /// One of them all the same: maybe it is not they who fail.
    UseAll,
    /// None of those that are set aside, however many these are.
    Refuse,
}

/// No instance was picked.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum PickError {
    /// The list was not read yet; wait for [`synchronized`](crate::Providers::synchronized).
    #[error("the instances are not known yet")]
    Loading,
    /// There is no instance that is enabled.
    #[error("the service {service} has no instance that is enabled")]
    Empty {
        /// The service.
        service: String,
    },
    /// The list of instances cannot be had, or not as a whole, and nothing else is there that is enabled.
    #[error("the instances of the service {service} cannot be known: {gap}")]
    Incomplete {
        /// The service.
        service: String,
        /// What is missing.
        gap: PartialRead,
    },
    /// Every instance has failed lately, and [`WhenAllEjected::Refuse`] was chosen.
    #[error("every instance of the service {service} has failed lately and is set aside")]
    AllEjected {
        /// The service.
        service: String,
    },
    /// The connection is broken for longer than [`WhenStale`] allows.
    #[error("the connection is broken for {since:?}, and the instances may be others now")]
    Stale {
        /// For how long it is known to be broken.
        since: Duration,
    },
    /// The session is over, or what followed the service was stopped, and [`WhenStale`] does not allow to pick from what was
    /// known last, or nothing was. [Follow](crate::Providers::follow) it with the next session.
    #[error("the service is not followed any more")]
    Ended(#[source] CacheEnd),
}

impl PickError {
    /// Tells whether the same may be answered otherwise a moment later.
    pub fn is_transient(&self) -> bool {
        !matches!(self, Self::Ended(_))
    }

    /// Returns what can be done about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Loading | Self::Stale { .. } | Self::AllEjected { .. } => ErrorClass::Recoverable,
            Self::Empty { .. } | Self::Incomplete { .. } => ErrorClass::Outcome,
            Self::Ended(end) => end.class(),
        }
    }
}

/// Tells whether a list may be picked from: one in this state, that was [read](crate::CacheState::Synchronized) at least once or
/// not, and has been stale for so long.
pub(crate) fn check_staleness(
    state: CacheState,
    was_read: bool,
    end: Option<&CacheEnd>,
    stale_for: Option<Duration>,
    policy: WhenStale,
) -> Result<(), PickError> {
    let since = stale_for.unwrap_or_default();
    let is_tolerated = match policy {
        WhenStale::Use => true,
        WhenStale::UseFor(limit) => since < limit,
        WhenStale::Refuse => false,
    };
    match (state, end) {
        (CacheState::Synchronized, None) => Ok(()),
        (CacheState::Stale | CacheState::Ended, _) if was_read && is_tolerated => Ok(()),
        (_, Some(end)) => Err(PickError::Ended(end.clone())),
        (CacheState::Stale, None) if was_read => Err(PickError::Stale { since }),
        _ => Err(PickError::Loading),
    }
}

/// Which of the instances that are enabled are picked from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PickPool {
    All,
    /// Those that are not set aside.
    Usable,
    /// None of them.
    Nobody,
}

/// Decides which instances are picked from, when `aside` of `all` are set aside and `most` may be.
pub(crate) fn pick_pool(all: usize, aside: usize, most: usize, policy: WhenAllEjected) -> PickPool {
    match policy {
        _ if aside == 0 => PickPool::All,
        WhenAllEjected::Refuse if aside >= all => PickPool::Empty,
        WhenAllEjected::UseAll if aside > most => PickPool::All,
        _ => PickPool::Usable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: D2
    #[test]
    fn those_that_are_set_aside_are_passed_over_while_they_are_few() {
        use WhenAllEjected::Refuse;
        use WhenAllEjected::UseAll;
        for (aside, policy, expected) in [
            (0, UseAll, PickPool::All),
            (0, Refuse, PickPool::All),
            (1, UseAll, PickPool::Usable),
            (2, UseAll, PickPool::Usable),
            (3, UseAll, PickPool::All),
            (4, UseAll, PickPool::All),
            (3, Refuse, PickPool::Usable),
            (4, Refuse, PickPool::Empty),
        ] {
            assert_eq!(
                pick_pool(4, aside, 2, policy),
                expected,
                "{aside} {policy:?}"
            );
        }
    }

    // covers: D2
    #[test]
    fn only_a_list_that_may_be_relied_on_is_picked_from() {
        let second = Duration::from_secs(1);
        let some = WhenStale::UseFor(2 * second);
        let lost = Some(CacheEnd::SessionLost);
        for (state, end, stale_for, policy, expected) in [
            (CacheState::Synchronized, None, None, WhenStale::Refuse, ""),
            (
                CacheState::Stale,
                None,
                Some(9 * second),
                WhenStale::Use,
                "",
            ),
            (CacheState::Stale, None, Some(second), some, ""),
            (
                CacheState::Stale,
                None,
                Some(2 * second),
                some,
                "the connection is broken for 2s, and the instances may be others now",
            ),
            (
                CacheState::Stale,
                None,
                Some(Duration::ZERO),
                WhenStale::Refuse,
                "the connection is broken for 0ns, and the instances may be others now",
            ),
            // The end of the session says nothing of the instances.
            (
                CacheState::Ended,
                lost.clone(),
                Some(9 * second),
                WhenStale::Use,
                "",
            ),
            (CacheState::Ended, lost.clone(), Some(second), some, ""),
            (
                CacheState::Ended,
                lost.clone(),
                Some(2 * second),
                some,
                "the service is not followed any more",
            ),
            (
                CacheState::Ended,
                lost,
                Some(second),
                WhenStale::Refuse,
                "the service is not followed any more",
            ),
        ] {
            let answer = check_staleness(state, true, end.as_ref(), stale_for, policy);
            let said = answer.map_or_else(|error| error.to_string(), |()| String::new());
            assert_eq!(said, expected, "{state:?} {policy:?}");
        }
        // What was never read is nothing to pick from.
        for (state, end, expected) in [
            (CacheState::Loading, None, "the instances are not known yet"),
            (CacheState::Stale, None, "the instances are not known yet"),
            (
                CacheState::Ended,
                Some(CacheEnd::SessionLost),
                "the service is not followed any more",
            ),
        ] {
            let error =
                check_staleness(state, false, end.as_ref(), None, WhenStale::Use).unwrap_err();
            assert_eq!(error.to_string(), expected, "{state:?}");
        }
    }
}
