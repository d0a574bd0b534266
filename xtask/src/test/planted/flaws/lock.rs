//! The lock's protocol.

use super::{Flaw, Topic};

pub(super) const TOPIC: Topic = Topic {
    name: "lock",
    package: "zk-lock",
    flaws: FLAWS,
};

const FLAWS: &[Flaw] = &[
    Flaw {
        what: "a session that was alone relies on the number after its last one, also if the path is a new node",
        file: UNCONTENDED,
        text: "fired.is_none() && self.connection_losses == connection_losses(session)",
        instead: "self.connection_losses == connection_losses(session)",
        found_by: &[
            "binary(sim) & test(/^uncontended::/)",
            "binary(it) & test(/^uncontended::/)",
        ],
    },
    Flaw {
        what: "a session that was alone takes any later number for the next one",
        file: UNCONTENDED,
        text: "            .is_some_and(|last| number.distance_from(last) == 1)",
        instead: "            .is_some_and(|last| number.distance_from(last) >= 1)",
        found_by: &[
            "binary(sim) & test(/^uncontended::/)",
            "binary(it) & test(/^uncontended::/)",
        ],
    },
    Flaw {
        what: "a waiter takes over from its predecessor while others are ahead of that one",
        file: ORDER,
        text: "second_last.map_or(Lookahead::Next, |(_, second)| Lookahead::After(second))",
        instead: "second_last.map_or(Lookahead::Next, |_| Lookahead::Next)",
        found_by: &[
            "binary(sim) & test(/^(chaos|look_ahead)::/)",
            "binary(it) & test(/^queue::/)",
        ],
    },
    Flaw {
        what: "a writer takes over from a writer that becomes a reader",
        file: ORDER,
        text: "if own_kind == Kind::Shared || layout.cannot_downgrade(predecessor) =>",
        instead: "if own_kind == Kind::Shared || !predecessor.is_empty() =>",
        found_by: &["binary(sim) & test(/^rw::/)", "binary(it) & test(/^rw::/)"],
    },
    Flaw {
        // Real servers mostly close the connection before they report what they have deleted.
        what: "a waiter takes over when its session ends, with a node that goes with its predecessor's",
        file: WATCHES,
        text: ".is_some_and(|contender| contender.session() != Some(self.session.id()));",
        instead: ".is_some();",
        found_by: &["binary(sim) & test(/^ended::/)"],
    },
    Flaw {
        what: "a waiter takes over without its own node, whose deletion it missed while it was cut off",
        file: WATCHES,
        text: "            && own.is_some_and(|own| own.connection_losses == self.connection_losses())",
        instead: "            && own.is_some()",
        found_by: &[
            "binary(sim) & test(/^ended::/)",
            "binary(it) & test(/^again::/)",
        ],
    },
    Flaw {
        what: "a waiter takes over without its own node, if its predecessor is gone before it is watched",
        file: WATCHES,
        text: "        match own_fired_now(&mut watches.own) {",
        instead: "        match own_fired_now(&mut watches.own).filter(|_| false) {",
        found_by: &[
            "binary(sim) & test(/^ended::/)",
            "binary(it) & test(/^again::/)",
        ],
    },
    Flaw {
        // On real servers, only a waiter's process that is stopped at one moment would show it.
        what: "a lock is granted to a session that may be over",
        file: WAIT,
        text: "            if session_lease.is_lasting() {",
        instead: "            if session_lease.is_lasting() || !enlisted.children.is_empty() {",
        found_by: &["binary(sim) & test(/^(chaos|loss)::/)"],
    },
    Flaw {
        what: "the lock is handed over before its holder is notified",
        file: YIELD,
        text: "        if let Some(loss) = self.node().end(LockLoss::Released) {",
        instead: "        if let Some(loss) = self.final_loss() {",
        found_by: &[
            "binary(sim) & test(/^yielding::/)",
            "binary(it) & test(/^yielding::/)",
        ],
    },
    Flaw {
        what: "a yield whose reply was lost takes no notice of the node that it has created",
        file: REPLACEMENT,
        text: FOUND,
        instead: "            Ok(Some(_)) if is_gone => return Err(error),\n            Ok(Some(_)) => {}",
        found_by: &[
            "binary(sim) & test(/^(chaos|yielding)::/)",
            "binary(it) & test(/^yielding::/)",
        ],
    },
];

const UNCONTENDED: &str = "crates/zk-lock/src/queue/uncontended.rs";
const WATCHES: &str = "crates/zk-lock/src/queue/watches.rs";
const WAIT: &str = "crates/zk-lock/src/queue/wait.rs";
const ORDER: &str = "crates/zk-lock/src/order.rs";
const YIELD: &str = "crates/zk-lock/src/guard/yield_now.rs";
const REPLACEMENT: &str = "crates/zk-core/src/operation/create/replacement.rs";

const FOUND: &str = r#"            Ok(Some(found)) => {
                tracing::debug!(path = %found.0, "found the node whose creation was in doubt");
                cleanup.job = None;
                return Ok(found);
            }"#;
