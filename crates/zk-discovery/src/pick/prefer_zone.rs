//! The strategy that prefers the instances of the caller's zone.
//!
//! Pure: no I/O and no clock.

use std::fmt;

use arc_swap::ArcSwapOption;

use crate::instance::Instance;
use crate::pick::{Candidate, Candidates, ListId, Strategy};

/// Picks one of the instances of the caller's zone with another strategy, and one of all instances if the zone has none.
///
/// Ejected and disabled instances do not count: if all instances of the zone are ejected, the others are picked from.
/// To leave the zone earlier, before its last instances get the load of all, set a
/// [minimum share](Self::with_min_share).
/// Use one value for each service.
///
/// # Cost
///
/// That of the other strategy, without a lock. The first pick from each list, which is a new one after each change and
/// when an instance is ejected or returns, calls the function once for each instance.
///
/// # Examples
///
/// ```
/// use zk_discovery::{Instance, PreferZone, RoundRobin};
///
/// // The payload of these instances is their zone.
/// let in_ours = |instance: &Instance<String>| instance.payload() == "eu-west";
/// let strategy = PreferZone::new(in_ours, RoundRobin::anywhere()).with_min_share(10);
/// # drop(strategy);
/// ```
pub struct PreferZone<P, F, S> {
    is_in_zone: F,
    strategy: S,
    min_share: u8,
    /// The zone's part of the list that was picked from last.
    zone: ArcSwapOption<Zone<P>>,
}

struct Zone<P> {
    list: ListId,
    /// `None` if the zone has too few.
    candidates: Option<Candidates<P>>,
}

impl<P, F: Fn(&Instance<P>) -> bool, S: Strategy<P>> PreferZone<P, F, S> {
    /// Picks with `strategy` from the instances for which `is_in_zone` is true.
    ///
    /// The function runs on the thread of the caller of `pick`, must not block, and should return the same for the same
    /// instance.
    pub fn new(is_in_zone: F, strategy: S) -> Self {
        Self {
            is_in_zone,
            strategy,
            min_share: 0,
            zone: ArcSwapOption::empty(),
        }
    }

    /// Sets the share of all instances that can be picked, in percent, that the zone must have to be preferred; default
    /// 0, which one instance suffices for. More than 100 counts as 100.
    ///
    /// With `zones` zones of equal size and equal load, each has 100 / `zones` percent. At half of that, an instance of
    /// the zone gets at most about twice the load of the others.
    #[must_use]
    pub fn with_min_share(mut self, percent: u8) -> Self {
        self.min_share = percent.min(100);
        self
    }

    fn zone_of(&self, among: &Candidates<P>) -> Zone<P> {
        let near: Vec<_> = among
            .iter()
            .filter(|candidate| (self.is_in_zone)(candidate.instance()))
            .cloned()
            .collect();
        let share = near.len().saturating_mul(100);
        let min = among.len().saturating_mul(usize::from(self.min_share));
        Zone {
            list: among.id(),
            candidates: (!near.is_empty() && share >= min).then(|| Candidates::new(near)),
        }
    }
}

impl<P, F: Fn(&Instance<P>) -> bool, S: Strategy<P>> Strategy<P> for PreferZone<P, F, S> {
    fn choose(&self, among: &Candidates<P>) -> Candidate<P> {
        let choose = |zone: &Zone<P>| {
            self.strategy
                .choose(zone.candidates.as_ref().unwrap_or(among))
        };
        let known = self.zone.load();
        match &*known {
            Some(zone) if zone.list == among.id() => choose(zone),
            _ => {
                let zone = self.zone_of(among);
                let chosen = choose(&zone);
                self.zone.store(Some(zone.into()));
                chosen
            }
        }
    }
}

impl<P, F, S: fmt::Debug> fmt::Debug for PreferZone<P, F, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PreferZone")
            .field("strategy", &self.strategy)
            .field("min_share", &self.min_share)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use super::*;
    use crate::pick::{Incarnation, RoundRobin};

    fn candidates(zones: &[&'static str]) -> Candidates<&'static str> {
        let candidate = |(at, zone): (usize, &&'static str)| {
            let built = Instance::builder("s", *zone).id(format!("{zone}{at}"));
            let built = built.build().unwrap();
            let incarnation = Incarnation::of(built.id(), 1);
            Candidate::new(incarnation, Arc::new(built), Arc::default())
        };
        Candidates::new(zones.iter().enumerate().map(candidate).collect())
    }

    #[test]
    fn the_own_zone_is_preferred_if_its_share_suffices() {
        for (zones, min_share, expected) in [
            (&["a", "b", "a", "b"][..], 0, "a0 a2"),
            (&["b", "b", "b"], 0, "b0 b1 b2"),
            (&["a", "b", "b", "b"], 25, "a0"),
            (&["a", "b", "b", "b"], 26, "a0 b1 b2 b3"),
            (&["a", "a"], 100, "a0 a1"),
            (&["a", "a", "b"], 255, "a0 a1 b2"),
        ] {
            let strategy = PreferZone::new(
                |one: &Instance<&'static str>| *one.payload() == "a",
                RoundRobin::new(),
            );
            let strategy = strategy.with_min_share(min_share);
            let among = candidates(zones);
            let chosen = (0..20).map(|_| strategy.choose(&among).instance().id().to_owned());
            let chosen: BTreeSet<_> = chosen.collect();
            let chosen: Vec<_> = chosen.iter().map(String::as_str).collect();
            assert_eq!(chosen.join(" "), expected, "{zones:?} {min_share}");
        }
    }
}
