//! The flaws, by topic.
//!
//! A flaw is a plausible mistake in one place, and breaks one rule that matters to a user. If a change removes the text
//! of a flaw, write the flaw anew for the code that now has the rule.

mod barrier;
mod cache;
mod client;
mod config;
mod discovery;
mod errors;
mod harness;
mod ids;
mod lease;
mod lock;
mod queue;
mod shell;

/// Flaws that the tests of one package have to find.
#[derive(Debug)]
pub(super) struct Topic {
    pub(super) name: &'static str,
    pub(super) package: &'static str,
    pub(super) flaws: &'static [Flaw],
}

/// A rule, and how it is broken.
#[derive(Debug, Hash)]
pub(super) struct Flaw {
    /// What the code does wrong.
    pub(super) what: &'static str,
    pub(super) file: &'static str,
    /// A text that occurs once in the file, and what takes its place.
    pub(super) text: &'static str,
    pub(super) instead: &'static str,
    /// Filters of nextest: of the tests of each, in the topic's package, at least one has to fail. Tests on real servers
    /// run only if a filter names them.
    pub(super) found_by: &'static [&'static str],
}

/// All flaws.
pub(super) const TOPICS: &[Topic] = &[
    lease::TOPIC,
    lock::TOPIC,
    queue::TOPIC,
    cache::TOPIC,
    config::TOPIC,
    ids::TOPIC,
    barrier::TOPIC,
    discovery::TOPIC,
    client::TOPIC,
    errors::TOPIC,
    harness::TOPIC,
    shell::TOPIC,
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use super::super::copy::with_flaw;
    use super::*;
    use crate::workspace::Workspace;

    fn all() -> impl Iterator<Item = &'static Flaw> {
        TOPICS.iter().flat_map(|topic| topic.flaws)
    }

    #[test]
    fn each_flaw_has_its_place_in_the_code() {
        for flaw in all() {
            let sound = fs::read_to_string(Workspace::root().join(flaw.file)).unwrap();
            assert_ne!(with_flaw(flaw, &sound).unwrap(), sound, "{}", flaw.what);
        }
    }

    #[test]
    fn each_flaw_has_a_description_of_its_own() {
        let different: BTreeSet<_> = all().map(|flaw| flaw.what).collect();
        assert_eq!(different.len(), all().count());
        assert!(all().all(|flaw| !flaw.found_by.is_empty()));
    }
}
