//! Decides whether a list of instances may be picked from, and from which of them.
//!
//! Pure: no I/O and no clock.

use std::time::Duration;

use zk_cache::{CacheEnd, CacheState, PartialRead};
use zk_core::ErrorClass;

/// What is picked while the connection is broken, and after the session has ended, until the next session
/// [takes over](crate::Providers::follow).
///
/// An unreachable registry does not mean that the instances are down.
///
/// The connection counts as broken once that is noticed: by then an ensemble may have been silent for two thirds of the
/// session timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WhenStale {
    /// One of the last known instances.
    Use,
    /// One of the last known instances, for at most this long.
    UseFor(Duration),
    /// None; the pick fails.
    Refuse,
}

/// What is picked when every instance is ejected, or more of them than
/// [the limit](crate::FailureRules::with_max_ejected).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WhenAllEjected {
    /// One of all instances, as if none were ejected: the cause of the failures may be elsewhere.
    UseAll,
    /// None of the ejected instances, however many there are.
    Refuse,
}

/// No instance was picked.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum PickError {
    /// The list has not been read yet; wait for [`synchronized`](crate::Providers::synchronized).
    #[error("the instances are not known yet; wait until the list is synchronized")]
    Loading,
    /// No instance is enabled.
    #[error("service {service} has no enabled instance")]
    Empty {
        /// The service.
        service: String,
    },
    /// The list of instances cannot be read completely, and no known instance is enabled.
    #[error("the instances of service {service} cannot be read completely: {gap}")]
    Incomplete {
        /// The service.
        service: String,
        /// What is missing.
        gap: PartialRead,
    },
    /// Every instance is ejected, and the policy is [`WhenAllEjected::Refuse`].
    #[error("every instance of service {service} is ejected after recent failures")]
    AllEjected {
        /// The service.
        service: String,
    },
    /// The connection has been broken for longer than [`WhenStale`] allows.
    #[error("the connection has been broken for {since:?}, and the list may be out of date")]
    Stale {
        /// How long the connection is known to be broken.
        since: Duration,
    },
    /// The session is over or following was stopped, and [`WhenStale`] does not allow the last known list, or there is
    /// none.
    /// [Follow](crate::Providers::follow) the service with the next session.
    #[error("the service is no longer followed; follow it with the next session")]
    Ended(#[source] CacheEnd),
}

impl PickError {
    /// Returns whether a later pick may succeed without further action.
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

/// Checks whether a list may be picked from, by its state, whether it was ever [read](crate::CacheState::Synchronized), and
/// how long it has been stale.
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

/// The enabled instances that are picked from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PickPool {
    All,
    /// Those that are not ejected.
    Usable,
    /// None.
    Empty,
}

/// Decides which instances are picked from if `ejected` of `all` are ejected and `most` may be.
pub(crate) fn pick_pool(
    all: usize,
    ejected: usize,
    most: usize,
    policy: WhenAllEjected,
) -> PickPool {
    match policy {
        _ if ejected == 0 => PickPool::All,
        WhenAllEjected::Refuse if ejected >= all => PickPool::Empty,
        WhenAllEjected::UseAll if ejected > most => PickPool::All,
        _ => PickPool::Usable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ejected_instances_are_skipped_while_they_are_few() {
        use WhenAllEjected::{Refuse, UseAll};
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
                "the connection has been broken for 2s, and the list may be out of date",
            ),
            (
                CacheState::Stale,
                None,
                Some(Duration::ZERO),
                WhenStale::Refuse,
                "the connection has been broken for 0ns, and the list may be out of date",
            ),
            // The instances may outlive the session.
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
                "the service is no longer followed; follow it with the next session",
            ),
            (
                CacheState::Ended,
                lost,
                Some(second),
                WhenStale::Refuse,
                "the service is no longer followed; follow it with the next session",
            ),
        ] {
            let answer = check_staleness(state, true, end.as_ref(), stale_for, policy);
            let said = answer.map_or_else(|error| error.to_string(), |()| String::new());
            assert_eq!(said, expected, "{state:?} {policy:?}");
        }
        // A list that was never read is not picked from.
        for (state, end, expected) in [
            (
                CacheState::Loading,
                None,
                "the instances are not known yet; wait until the list is synchronized",
            ),
            (
                CacheState::Stale,
                None,
                "the instances are not known yet; wait until the list is synchronized",
            ),
            (
                CacheState::Ended,
                Some(CacheEnd::SessionLost),
                "the service is no longer followed; follow it with the next session",
            ),
        ] {
            let error =
                check_staleness(state, false, end.as_ref(), None, WhenStale::Use).unwrap_err();
            assert_eq!(error.to_string(), expected, "{state:?}");
        }
    }
}
