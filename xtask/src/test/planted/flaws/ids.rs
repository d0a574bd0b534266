//! Ids.

use super::{Flaw, Topic};

pub(super) const TOPIC: Topic = Topic {
    name: "ids",
    package: "zk-id",
    flaws: FLAWS,
};

const FLAWS: &[Flaw] = &[
    Flaw {
        what: "the next holder of a worker number starts at its own clock, within the time that the last one reserved",
        file: SNOWFLAKE,
        text: "            tick(previous.map(|time| time + whole_units)),",
        instead: "            tick(previous.map(|time| time.min(self.clock.now()) + whole_units)),",
        found_by: &[
            "binary(sim) & test(/^(chaos|clocks|loss)::/)",
            "binary(it) & test(/^basic::an_expired_generator_/)",
        ],
    },
    Flaw {
        what: "a generator opens its next time window without a proof that it still has the worker number",
        file: GENERATOR,
        text: "            .is_some_and(|until| expired < until)",
        instead: "            .is_some()",
        found_by: &["binary(sim) & test(/^(loss|starved)::/)"],
    },
    Flaw {
        what: "a time window that is opened while another thread takes ids moves the sequence back",
        file: SEQUENCE,
        text: "        self.next.fetch_max(start);",
        instead: "        self.next.store(start);",
        found_by: &[
            "test(/^atomic_sequence::tests::/)",
            "binary(it) & test(/^threads::/)",
        ],
    },
    Flaw {
        what: "a block counts as taken if the counter has the written value, which another process may have written",
        file: BLOCK,
        text: "let set = self.session.set(&self.path, data).version(version);",
        instead: "let set = self.session.set(&self.path, data).version(version).idempotent();",
        found_by: &["binary(sim) & test(/^blocks::no_number_is_given_out_twice_/)"],
    },
    Flaw {
        what: "a counter that was set back issues its numbers again",
        file: BLOCK,
        text: "            if value < taken {",
        instead: "            if value < 0 {",
        found_by: &["binary(sim) & test(/^blocks::an_invalid_or_decreased_counter_/)"],
    },
];

const SNOWFLAKE: &str = "crates/zk-id/src/snowflake.rs";
const GENERATOR: &str = "crates/zk-id/src/generator_state.rs";
const SEQUENCE: &str = "crates/zk-id/src/atomic_sequence.rs";
const BLOCK: &str = "crates/zk-id/src/block.rs";
