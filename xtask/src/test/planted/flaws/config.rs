//! Configuration.

use super::{Flaw, Topic};

pub(super) const TOPIC: Topic = Topic {
    name: "config",
    package: "zk-config",
    flaws: FLAWS,
};

const FLAWS: &[Flaw] = &[
    Flaw {
        what: "a conditional publication whose reply was lost takes the same value of another client for its own",
        file: PUBLICATION,
        text: "self.keys.iter().all(|key| key.expected == Expected::Any),",
        instead: "true,",
        found_by: &["binary(sim) & test(/^publisher::/)"],
    },
    Flaw {
        what: "a replaced value is kept in the history under the revision that created its key",
        file: PUBLICATION,
        text: "EntryName::new(found.stat.mzxid, self.session.id(), number)",
        instead: "EntryName::new(found.stat.czxid, self.session.id(), number)",
        found_by: &[
            "binary(sim) & test(/^publisher::/)",
            "binary(it) & test(/^faults::/)",
        ],
    },
    Flaw {
        what: "an entry that another client has put into the history of a key is rolled back to",
        file: HISTORY_CHECK,
        text: "        if is_consistent && proven.contains(&stat.czxid) {",
        instead: "        if is_consistent {",
        found_by: &["binary(sim) & test(/^history::/) | test(/^history_check::/)"],
    },
    Flaw {
        what: "keys that are to stay as they are may change before those that are published with them",
        file: PUBLICATION,
        text: "Step::Check { version } => transaction.check_version(&key.path, version),",
        instead: "Step::Check { .. } => transaction.check(&key.path),",
        found_by: &["binary(sim) & test(/^publisher::/)"],
    },
    Flaw {
        what: "a part of a transaction over several keys is shown as one value",
        file: SNAPSHOT_CHECK,
        text: "stat.filter(|stat| version(stat) == version(&known)) else {",
        instead: "stat.filter(|stat| stat.czxid == known.czxid) else {",
        found_by: &[
            "binary(sim) & test(/^typed::/)",
            "binary(it) & test(/^readers::/)",
        ],
    },
    Flaw {
        what: "a session whose server lags behind sets the value back",
        file: VALUE_STATE,
        text: "        if !is_same && !is_certainly_newer && follow.known < last.number {",
        instead: "        if !is_same && !is_certainly_newer && last.saved_revision.is_some() {",
        found_by: &["binary(sim) & test(/^typed::/)"],
    },
];

const HISTORY_CHECK: &str = "crates/zk-config/src/history_check.rs";
const PUBLICATION: &str = "crates/zk-config/src/publication.rs";
const SNAPSHOT_CHECK: &str = "crates/zk-config/src/snapshot_check.rs";
const VALUE_STATE: &str = "crates/zk-config/src/typed/value_state.rs";
