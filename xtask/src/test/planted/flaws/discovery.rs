//! Service discovery.

use super::{Flaw, Topic};

pub(super) const TOPIC: Topic = Topic {
    name: "discovery",
    package: "zk-discovery",
    flaws: FLAWS,
};

const FLAWS: &[Flaw] = &[
    Flaw {
        what: "the node of another session, which may be alive, is removed after a wait",
        file: CONFLICT_POLICY,
        text: "            (Some(_) | None, _) => ConflictAction::Refuse,",
        instead: "            (Some(_), WhenTaken::WaitFor(_)) => ConflictAction::Remove,\n            (Some(_) | None, _) => ConflictAction::Refuse,",
        found_by: &["binary(sim) & test(/^taken::/) | test(/^conflict_policy::/)"],
    },
    Flaw {
        what: "an instance that unregisters removes the node that has taken its place",
        file: REGISTRATION,
        text: "self.session.delete(&self.path).created_by(self.czxid);",
        instead: "self.session.delete(&self.path);",
        found_by: &["binary(sim) & test(/^registering::/)"],
    },
    Flaw {
        what: "all instances vanish until the next session has read them again",
        file: FOLLOW,
        text: "            decoder: decoder.succeeding(&last.list),",
        instead: "            decoder,",
        found_by: &[
            "binary(sim) & test(/^picking::/)",
            "binary(it) & test(/^servers::/)",
        ],
    },
    Flaw {
        what: "an instance that ended between two sessions of its consumer stays in the list",
        file: DECODER,
        text: "            self.entries.remove(&gone);",
        instead: "            drop(gone);",
        found_by: &["binary(sim) & test(/^picking::/)"],
    },
    Flaw {
        what: "no instance is picked between two sessions, although the last known ones may be",
        file: STALENESS_POLICY,
        text: "(CacheState::Stale | CacheState::Ended, _) if was_read && is_tolerated => Ok(()),",
        instead: "(CacheState::Stale, None) if was_read && is_tolerated => Ok(()),",
        found_by: &[
            "binary(sim) & test(/^picking::/) | test(/^staleness_policy::/)",
            "binary(it) & test(/^servers::/)",
        ],
    },
];

const CONFLICT_POLICY: &str = "crates/zk-discovery/src/conflict_policy.rs";
const REGISTRATION: &str = "crates/zk-discovery/src/registration.rs";
const FOLLOW: &str = "crates/zk-discovery/src/follow.rs";
const DECODER: &str = "crates/zk-discovery/src/decoder.rs";
const STALENESS_POLICY: &str = "crates/zk-discovery/src/staleness_policy.rs";
