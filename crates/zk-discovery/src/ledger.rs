//! Which instances are set aside because they failed.

use std::collections::HashMap;
use std::collections::VecDeque;
use std::time::Duration;

/// When an instance that fails is set aside, and for how long.
///
/// It is each process's own judgement: others do not learn of it.
///
/// # Defaults
///
/// - [`failures`](Self::with_failures): 3
/// - [`within`](Self::with_within): 30 seconds
/// - [`aside`](Self::with_aside): 30 seconds
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailureRules {
    failures: usize,
    within: Duration,
    aside: Duration,
}

impl Default for FailureRules {
    fn default() -> Self {
        Self {
            failures: 3,
            within: Duration::from_secs(30),
            aside: Duration::from_secs(30),
        }
    }
}

impl FailureRules {
    /// Sets how many failures set an instance aside; default 3, and 0 counts as 1.
    #[must_use]
    pub const fn with_failures(mut self, failures: usize) -> Self {
        self.failures = if failures == 0 { 1 } else { failures };
        self
    }

    /// Sets within which time they have to come; default 30 seconds.
    #[must_use]
    pub const fn with_within(mut self, time: Duration) -> Self {
        self.within = time;
        self
    }

    /// Sets for how long an instance is set aside; default 30 seconds, and zero sets none aside.
    ///
    /// Then it is as good as any other one, and its failures are forgotten.
    #[must_use]
    pub const fn with_aside(mut self, time: Duration) -> Self {
        self.aside = time;
        self
    }
}

/// The failures that count. Moments are durations since some moment of a monotonic clock.
#[derive(Debug)]
pub(crate) struct Ledger {
    rules: FailureRules,
    records: HashMap<String, Record>,
}

#[derive(Debug)]
enum Record {
    Failures(VecDeque<Duration>),
    AsideUntil(Duration),
}

impl Ledger {
    pub(crate) fn new(rules: FailureRules) -> Self {
        Self {
            rules,
            records: HashMap::new(),
        }
    }

    /// Notes a failure, and tells whether the instance is set aside by it.
    pub(crate) fn report(&mut self, id: &str, now: Duration) -> bool {
        self.forget(now);
        let rules = self.rules;
        let record = self
            .records
            .entry(id.to_owned())
            .or_insert_with(|| Record::Failures(VecDeque::new()));
        // Of one that is set aside, what was on its way fails as well.
        let Record::Failures(failures) = record else {
            return false;
        };
        failures.push_back(now);
        let is_enough = failures.len() >= rules.failures && !rules.aside.is_zero();
        if is_enough {
            *record = Record::AsideUntil(now.saturating_add(rules.aside));
        }
        is_enough
    }

    /// Whether an instance is set aside.
    pub(crate) fn is_aside(&self, id: &str, now: Duration) -> bool {
        matches!(self.records.get(id), Some(Record::AsideUntil(until)) if now < *until)
    }

    /// When the first of those that are set aside comes back.
    pub(crate) fn next_return(&self, now: Duration) -> Option<Duration> {
        let until = self.records.values().filter_map(|record| match record {
            Record::AsideUntil(until) if now < *until => Some(*until),
            _ => None,
        });
        until.min()
    }

    /// Forgets what does not count any more, so that this is as large as what has failed lately.
    fn forget(&mut self, now: Duration) {
        let rules = self.rules;
        self.records.retain(|_, record| match record {
            Record::AsideUntil(until) => now < *until,
            Record::Failures(failures) => {
                failures.retain(|at| now.saturating_sub(*at) < rules.within);
                while failures.len() > rules.failures {
                    failures.pop_front();
                }
                !failures.is_empty()
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn ledger(failures: usize, within: u64, aside: u64) -> Ledger {
        let rules = FailureRules::default()
            .with_failures(failures)
            .with_within(at(within))
            .with_aside(at(aside));
        Ledger::new(rules)
    }

    // covers: D2
    #[test]
    fn so_many_failures_within_a_time_set_aside_for_a_time() {
        let mut ledger = ledger(2, 10, 30);
        assert!(!ledger.report("a", at(0)));
        // Too late to count with the first one.
        assert!(!ledger.report("a", at(10)));
        assert!(!ledger.report("b", at(11)));
        assert!(ledger.report("a", at(19)));
        assert!(ledger.is_aside("a", at(19)) && !ledger.is_aside("b", at(19)));
        assert_eq!(ledger.next_return(at(19)), Some(at(49)));
        assert!(!ledger.report("a", at(20)));
        assert!(ledger.is_aside("a", at(48)) && !ledger.is_aside("a", at(49)));
        assert_eq!(ledger.next_return(at(49)), None);
        // Its failures are forgotten.
        assert!(!ledger.report("a", at(49)));
        assert!(ledger.report("a", at(50)));
    }

    #[test]
    fn rules_at_their_ends() {
        assert!(ledger(0, 10, 30).report("a", at(0)));
        let mut never = ledger(1, 10, 0);
        assert!((0..9).all(|_| !never.report("a", at(0)) && !never.is_aside("a", at(0))));
        assert!(never.records["a"].len() <= 2);
        assert!(!ledger(2, 0, 30).report("a", at(0)));
    }

    impl Record {
        fn len(&self) -> usize {
            match self {
                Self::Failures(failures) => failures.len(),
                Self::AsideUntil(_) => 0,
            }
        }
    }

    proptest! {
        /// Against all failures and a definition.
        // covers: D2
        #[test]
        fn an_instance_is_aside_as_the_rules_say(
            failures in 1_usize..4, within in 1_u64..20, aside in 0_u64..20,
            steps in proptest::collection::vec((0_u64..8, 0_usize..3), 0..60),
        ) {
            let mut ledger = ledger(failures, within, aside);
            let mut now = 0;
            let mut told = [const { Vec::<u64>::new() }; 3];
            let mut until = [0; 3];
            for (pause, who) in steps {
                now += pause;
                let name = ["a", "b", "c"][who];
                prop_assert_eq!(ledger.is_aside(name, at(now)), now < until[who]);
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
                prop_assert_eq!(ledger.report(name, at(now)), is_first);
                let next = until.iter().filter(|until| now < **until).min();
                prop_assert_eq!(ledger.next_return(at(now)), next.map(|next| at(*next)));
                prop_assert!(ledger.records.len() <= 3);
            }
        }
    }
}
