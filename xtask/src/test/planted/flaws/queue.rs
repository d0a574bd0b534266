//! The queues.

use super::{Flaw, Topic};

pub(super) const TOPIC: Topic = Topic {
    name: "queue",
    package: "zk-queue",
    flaws: FLAWS,
};

const FLAWS: &[Flaw] = &[
    Flaw {
        what: "a claim that was lost settles the item while another consumer works on it",
        file: HELD_CLAIM,
        text: "changes(ended.delete_version(&identity.item, identity.version))",
        instead: "changes(ended.delete(&identity.item))",
        found_by: &["binary(sim) & test(/^(chaos|faults|recreated|work)::/)"],
    },
    Flaw {
        what: "an item of a queue that was deleted and created again is taken for the earlier one of its name",
        file: PRECONDITIONS,
        text: "            .check_version(&self.control_node.0, self.control_node.1);",
        instead: "            .check(&self.control_node.0);",
        found_by: &["binary(sim) & test(/^recreated::/)"],
    },
    Flaw {
        what: "an item that is claimed is cancelled",
        file: CANCEL,
        text: "                        Some(claim) => transaction.create_ephemeral(claim, \"\").delete(claim),\n                        None => transaction,",
        instead: "                        _ => transaction,",
        found_by: &[
            "binary(sim) & test(/^item_ids::/)",
            "binary(it) & test(/^ids::/)",
        ],
    },
    Flaw {
        what: "an item that was taken for a call that was dropped is lost if the reply is lost, too",
        file: TAKE,
        text: "            Ok(_) => batch.candidates.into_iter().map(TakenItem::of).collect(),",
        instead: "            Ok(_) => Vec::new(),",
        found_by: &["binary(sim) & test(/^(cancellation|chaos|faults)::/)"],
    },
    Flaw {
        what: "a change whose reply was lost is made again, also if it was made",
        file: TOKENS,
        text: "                version: Some(token.version),",
        instead: "                version: None,",
        found_by: &[
            "binary(sim) & test(/^(chaos|faults|work)::/)",
            "binary(it) & test(/^cuts::/)",
        ],
    },
];

const HELD_CLAIM: &str = "crates/zk-queue/src/work_queue/held_claim.rs";
const PRECONDITIONS: &str = "crates/zk-queue/src/preconditions.rs";
const CANCEL: &str = "crates/zk-queue/src/store/cancel.rs";
const TAKE: &str = "crates/zk-queue/src/store/take.rs";
const TOKENS: &str = "crates/zk-core/src/idempotency_tokens.rs";
