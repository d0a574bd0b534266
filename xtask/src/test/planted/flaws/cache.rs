//! The cache.

use super::{Flaw, Topic};

pub(super) const TOPIC: Topic = Topic {
    name: "cache",
    package: "zk-cache",
    flaws: FLAWS,
};

const FLAWS: &[Flaw] = &[
    Flaw {
        what: "a change that is reported while its node is being read is taken for part of that read",
        file: REDUCER,
        text: "            read.is_outdated |= read.sent.is_some() || is_unsent_list && !relists;",
        instead: "            read.is_outdated |= is_unsent_list && !relists;",
        found_by: &["binary(sim) & test(/^chaos::/) | test(/^reducer::/)"],
    },
    Flaw {
        what: "nodes are called up to date although the server has not caught up",
        file: REDUCER,
        text: "            ReadReply::Failed => SyncBarrier::Failed,",
        instead: "            ReadReply::Failed => SyncBarrier::None,",
        found_by: &["test(/^reducer::/)"],
    },
    Flaw {
        what: "a cache without a connection reports that it is stale, and still shows its nodes as up to date",
        file: REDUCER,
        text: "            self.current.state = CacheState::Stale;\n            self.emit(Event::Stale);",
        instead: "            self.emit(Event::Stale);",
        found_by: &[
            "binary(sim) & test(/^loss::/)",
            "binary(it) & test(/^(kinds|processes)::/)",
        ],
    },
    Flaw {
        what: "a slow consumer misses the deletion of a node that was created again",
        file: SNAPSHOT,
        text: "                new.is_none_or(|new| !new.is_same(old))",
        instead: "                new.is_none()",
        found_by: &["binary(sim) & test(/^(basic|chaos|loss|sessions)::/)"],
    },
    Flaw {
        what: "a node that was being read when the connection was lost is never read",
        file: REDUCER,
        text: DROPPED,
        instead: "        self.pending.clear();",
        found_by: &["binary(sim) & test(/^(chaos|loss)::/) | test(/^reducer::/)"],
    },
];

const DROPPED: &str = r"        for path in std::mem::take(&mut self.pending).into_keys() {
            // The read is dropped, so that the child list of its parent is no longer complete.
            if let Some(parent) = path.parent() {
                self.listed.remove(&parent);
            }
        }";

const REDUCER: &str = "crates/zk-cache/src/reducer.rs";
const SNAPSHOT: &str = "crates/zk-cache/src/snapshot.rs";
