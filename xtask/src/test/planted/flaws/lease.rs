//! The proof that the ensemble keeps a session.

use super::{Flaw, Topic};

pub(super) const TOPIC: Topic = Topic {
    name: "lease",
    package: "zk-core",
    flaws: FLAWS,
};

const FLAWS: &[Flaw] = &[
    Flaw {
        what: "a reply counts as if the server had reported the session to the leader by then",
        file: LEASE,
        text: "self.timeout * REPORT_SHARE.0 / REPORT_SHARE.1",
        instead: "Duration::ZERO",
        // On real servers, only a server that dies at one moment would show it.
        found_by: &[
            "binary(sim) & test(/^session_lease::no_session_expires/)",
            "binary(sim) & test(/^session_lease::proof_/)",
        ],
    },
    Flaw {
        what: "pauses of the leader do not count",
        file: LEASE,
        text: "let gap = answered.saturating_duration_since(self.last_reach);",
        instead: "let gap = Duration::ZERO;",
        found_by: &["binary(sim) & test(/^session_lease::/)"],
    },
    Flaw {
        what: "the first write after a lapse proves that the session is alive",
        file: LEASE,
        text: "        answered > self.until()\n",
        instead: "        false && answered > self.until()\n",
        found_by: &["binary(sim) & test(/^session_lease::/)"],
    },
    Flaw {
        what: "the timeout stays that of the first server",
        file: LEASE,
        text: "self.timeout = self.timeout.min(granted);",
        instead: "self.timeout = self.timeout.max(granted);",
        found_by: &["binary(it) & test(/^session_lease::/)"],
    },
];

const LEASE: &str = "crates/zk-core/src/lease_proof.rs";
