//! Decides which instances are ejected because they failed too often.
//!
//! Pure: no I/O and no clock.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use crate::pick::Incarnation;

/// When a failing instance is ejected, and for how long.
///
/// Each process decides for itself; failures are not shared.
///
/// # Defaults
///
/// - [`failures`](Self::with_failures): 3
/// - [`within`](Self::with_within): 30 seconds
/// - [`ejection_time`](Self::with_ejection_time): 30 seconds
/// - [`max_ejected`](Self::with_max_ejected): 50 percent
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailureRules {
    failures: usize,
    within: Duration,
    ejection_time: Duration,
    max_ejected: u8,
}

impl Default for FailureRules {
    fn default() -> Self {
        Self {
            failures: 3,
            within: Duration::from_secs(30),
            ejection_time: Duration::from_secs(30),
            max_ejected: 50,
        }
    }
}

impl FailureRules {
    /// Sets how many failures eject an instance; default 3, and 0 counts as 1.
    #[must_use]
    pub const fn with_failures(mut self, failures: usize) -> Self {
        self.failures = if failures == 0 { 1 } else { failures };
        self
    }

    /// Sets the time window in which failures count; default 30 seconds.
    #[must_use]
    pub const fn with_within(mut self, time: Duration) -> Self {
        self.within = time;
        self
    }

    /// Sets how long an instance is ejected; default 30 seconds, and zero disables ejection.
    ///
    /// Afterwards the instance is picked like any other, and its failures are forgotten.
    /// A random jitter adds up to a quarter, so that instances ejected together do not return together.
    #[must_use]
    pub const fn with_ejection_time(mut self, time: Duration) -> Self {
        self.ejection_time = time;
        self
    }

    /// Sets how many of the enabled instances may be ejected, in percent; default 50, and more than 100 counts as 100.
    ///
    /// The number is rounded up, and at least one instance always remains.
    /// While more are ejected, all are picked from: the first instance to return would get the load of all and fail
    /// again, and if most instances fail, the cause may be elsewhere.
    /// With [`WhenAllEjected::Refuse`](crate::WhenAllEjected::Refuse) there is no such limit.
    #[must_use]
    pub const fn with_max_ejected(mut self, percent: u8) -> Self {
        self.max_ejected = if percent > 100 { 100 } else { percent };
        self
    }

    /// Returns how many of `count` instances may be ejected.
    pub(crate) fn max_ejected_of(&self, count: usize) -> usize {
        let share = count.saturating_mul(usize::from(self.max_ejected));
        share.div_ceil(100).min(count.saturating_sub(1))
    }
}

/// Counts recent failures per instance. Times are durations since a fixed point of a monotonic clock.
#[derive(Debug)]
pub(crate) struct OutlierDetector {
    rules: FailureRules,
    records: HashMap<Incarnation, Record>,
}

#[derive(Debug)]
enum Record {
    Failures(VecDeque<Duration>),
    EjectedUntil(Duration),
}

impl OutlierDetector {
    pub(crate) fn new(rules: FailureRules) -> Self {
        Self {
            rules,
            records: HashMap::new(),
        }
    }

    /// Records a failure and returns whether it ejects the instance. `chance`, from 0 to 1, is the share of the jitter
    /// that is added to the ejection time.
    pub(crate) fn report(&mut self, which: Incarnation, now: Duration, chance: f64) -> bool {
        let rules = self.rules;
        let none = || Record::Failures(VecDeque::new());
        let record = self.records.entry(which).or_insert_with(none);
        if matches!(record, Record::EjectedUntil(until) if *until <= now) {
            *record = none();
        }
        // Requests that were in flight to an ejected instance fail as well.
        let Record::Failures(failures) = record else {
            return false;
        };
        failures.retain(|at| now.saturating_sub(*at) < rules.within);
        while failures.len() > rules.failures {
            failures.pop_front();
        }
        failures.push_back(now);
        let is_enough = failures.len() >= rules.failures && !rules.ejection_time.is_zero();
        if is_enough {
            let longer = (rules.ejection_time / 4).mul_f64(chance.clamp(0.0, 1.0));
            let time = rules.ejection_time.saturating_add(longer);
            *record = Record::EjectedUntil(now.saturating_add(time));
        }
        is_enough
    }

    /// Returns whether an instance is ejected.
    pub(crate) fn is_ejected(&self, which: Incarnation, now: Duration) -> bool {
        matches!(self.records.get(&which), Some(Record::EjectedUntil(until)) if now < *until)
    }

    /// Forgets the instances for which `is_there` is false.
    pub(crate) fn retain(&mut self, is_there: impl Fn(Incarnation) -> bool) {
        self.records.retain(|which, _| is_there(*which));
    }

    /// Returns when the first ejected instance returns.
    pub(crate) fn next_return(&self, now: Duration) -> Option<Duration> {
        let until = self.records.values().filter_map(|record| match record {
            Record::EjectedUntil(until) if now < *until => Some(*until),
            _ => None,
        });
        until.min()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn named(name: &str) -> Incarnation {
        Incarnation::of(name, 1)
    }

    impl OutlierDetector {
        fn reported(&mut self, name: &str, now: Duration) -> bool {
            self.report(named(name), now, 0.0)
        }

        fn ejected(&self, name: &str, now: Duration) -> bool {
            self.is_ejected(named(name), now)
        }
    }

    fn detector(failures: usize, within: u64, aside: u64) -> OutlierDetector {
        let rules = FailureRules::default()
            .with_failures(failures)
            .with_within(at(within))
            .with_ejection_time(at(aside));
        OutlierDetector::new(rules)
    }

    #[test]
    fn so_many_failures_within_a_time_set_aside_for_a_time() {
        let mut detector = detector(2, 10, 30);
        assert!(!detector.reported("a", at(0)));
        // Too late to count with the first one.
        assert!(!detector.reported("a", at(10)));
        assert!(!detector.reported("b", at(11)));
        assert!(detector.reported("a", at(19)));
        assert!(detector.ejected("a", at(19)) && !detector.ejected("b", at(19)));
        assert_eq!(detector.next_return(at(19)), Some(at(49)));
        assert!(!detector.reported("a", at(20)));
        assert!(detector.ejected("a", at(48)) && !detector.ejected("a", at(49)));
        assert_eq!(detector.next_return(at(49)), None);
        // Its failures are forgotten.
        assert!(!detector.reported("a", at(49)));
        assert!(detector.reported("a", at(50)));
    }

    #[test]
    fn another_node_of_the_same_name_is_judged_anew() {
        let mut detector = detector(1, 10, 30);
        let [old, new] = [1, 2].map(|czxid| Incarnation::of("a", czxid));
        assert!(detector.report(old, at(0), 0.0));
        assert!(detector.is_ejected(old, at(1)) && !detector.is_ejected(new, at(1)));
        detector.retain(|which| which == new);
        assert!(!detector.is_ejected(old, at(1)));
        assert_eq!(detector.next_return(at(1)), None);
    }

    #[test]
    fn by_chance_an_instance_is_aside_for_up_to_a_quarter_longer() {
        for (chance, until) in [(0.0, 40), (0.5, 45), (1.0, 50), (9.0, 50)] {
            let mut detector = detector(1, 10, 40);
            detector.report(named("a"), at(0), chance);
            assert_eq!(detector.next_return(at(0)), Some(at(until)), "{chance}");
        }
        let mut longest = OutlierDetector::new(
            FailureRules::default()
                .with_failures(1)
                .with_ejection_time(Duration::MAX),
        );
        assert!(longest.report(named("a"), at(1), 1.0));
        assert!(longest.ejected("a", Duration::from_secs(1 << 40)));
    }

    #[test]
    fn at_most_a_share_is_aside_and_never_all() {
        let of = |percent, count| {
            FailureRules::default()
                .with_max_ejected(percent)
                .max_ejected_of(count)
        };
        for (percent, expected) in [
            (0, [0, 0, 0, 0, 0, 0]),
            (50, [0, 0, 1, 2, 2, 3]),
            (100, [0, 0, 1, 2, 3, 4]),
            (255, [0, 0, 1, 2, 3, 4]),
        ] {
            assert_eq!([0, 1, 2, 3, 4, 5].map(|count| of(percent, count)), expected);
        }
        assert!(of(50, usize::MAX) > 1);
    }

    #[test]
    fn rules_at_their_ends() {
        assert!(detector(0, 10, 30).reported("a", at(0)));
        let mut never = detector(1, 10, 0);
        assert!((0..9).all(|_| !never.reported("a", at(0)) && !never.ejected("a", at(0))));
        assert!(never.records[&named("a")].len() <= 2);
        assert!(!detector(2, 0, 30).reported("a", at(0)));
    }

    impl Record {
        fn len(&self) -> usize {
            match self {
                Self::Failures(failures) => failures.len(),
                Self::EjectedUntil(_) => 0,
            }
        }
    }

    proptest! {
        /// Against all failures and a definition.
        #[test]
        fn an_instance_is_aside_as_the_rules_say(
            failures in 1_usize..4, within in 1_u64..20, aside in 0_u64..20,
            steps in proptest::collection::vec((0_u64..8, 0_usize..3), 0..60),
        ) {
            let mut detector = detector(failures, within, aside);
            let mut now = 0;
            let mut told = [const { Vec::<u64>::new() }; 3];
            let mut until = [0; 3];
            for (pause, who) in steps {
                now += pause;
                let name = ["a", "b", "c"][who];
                prop_assert_eq!(detector.ejected(name, at(now)), now < until[who]);
                let is_first = if now < until[who] {
                    false
                } else {
                    told[who].push(now);
                    let counted = told[who].iter().filter(|then| now - **then < within).count();
                    counted >= failures && aside > 0
                };
                if is_first {
                    until[who] = now + aside;
                    told[who].clear();
                }
                prop_assert_eq!(detector.reported(name, at(now)), is_first);
                let next = until.iter().filter(|until| now < **until).min();
                prop_assert_eq!(detector.next_return(at(now)), next.map(|next| at(*next)));
                prop_assert!(detector.records.len() <= 3);
            }
        }
    }
}
