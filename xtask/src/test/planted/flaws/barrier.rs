//! Barriers.

use super::{Flaw, Topic};

pub(super) const TOPIC: Topic = Topic {
    name: "barrier",
    package: "zk-barrier",
    flaws: FLAWS,
};

const FLAWS: &[Flaw] = &[
    Flaw {
        what: "a member decides by a state of the round that is older than itself, perhaps that of the round before",
        file: DECISION,
        text: "        _ if count.changed < own => EnterStep::ReadAgain,\n",
        instead: "",
        found_by: &["binary(sim) & test(/^(faults|rounds)::/) | test(/^(decision|model)::/)"],
    },
    Flaw {
        what: "a round is opened with a member in the count that has withdrawn since",
        file: NODES,
        text: "            .check_version(&self.round, withdrawals)",
        instead: "            .check(&self.round)",
        found_by: &["binary(sim) & test(/^(chaos|faults)::/)"],
    },
    Flaw {
        what: "a late member passes although all members of the beginning have left",
        file: NODES,
        text: "session.transaction().check(other).check(own)",
        instead: "session.transaction().check(own)",
        found_by: &["binary(sim) & test(/^(chaos|faults|rounds)::/)"],
    },
    Flaw {
        what: "a member has left as soon as its own node is gone, although others are still in the round",
        file: LEAVE,
        text: WAIT,
        instead: "    if let Ok((Some(_), _)) = opener_watched {\n        return Ok(());\n    }",
        found_by: &[
            "binary(sim) & test(/^(chaos|rounds)::/)",
            "binary(it) & test(/^rounds::/)",
        ],
    },
    Flaw {
        what: "a call takes a barrier that was set already for its own",
        file: BARRIER,
        text: "Err(error) if error.is_node_exists() => Ok(false),",
        instead: "Err(error) if error.is_node_exists() => Ok(true),",
        found_by: &[
            "binary(sim) & test(/^barrier::/)",
            "binary(it) & test(/^barrier::/)",
        ],
    },
    Flaw {
        what: "a waiter passes a barrier that its server, a leader that was replaced, does not show yet",
        file: BARRIER,
        text: "        let sync = self.session.sync(&self.path).with_quorum();",
        instead: "        let sync = self.session.sync(&self.path);",
        found_by: &["binary(sim) & test(/^barrier::/)"],
    },
];

const WAIT: &str = r"    if let Ok((Some(_), mut watch)) = opener_watched {
        watch.changed().await;
    }";

const DECISION: &str = "crates/zk-barrier/src/decision.rs";
const NODES: &str = "crates/zk-barrier/src/rounds/nodes.rs";
const LEAVE: &str = "crates/zk-barrier/src/rounds/leave.rs";
const BARRIER: &str = "crates/zk-barrier/src/barrier.rs";
