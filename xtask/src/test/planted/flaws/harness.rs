//! Ensembles for development.

use super::{Flaw, Topic};

pub(super) const TOPIC: Topic = Topic {
    name: "harness",
    package: "zk-harness",
    flaws: FLAWS,
};

const FLAWS: &[Flaw] = &[Flaw {
    what: "the passwords of an ensemble are those of a generator that the clock has seeded",
    file: CREDENTIALS,
    text: "        getrandom::fill(&mut bytes).context(\"the operating system has no random numbers\")?;",
    instead: "        fastrand::fill(&mut bytes);",
    found_by: &["binary(zk-ensemble) & test(/^credentials::/)"],
}];

const CREDENTIALS: &str = "crates/zk-harness/src/bin/zk-ensemble/credentials.rs";
