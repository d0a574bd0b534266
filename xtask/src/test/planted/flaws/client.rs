//! The client of the protocol.

use super::{Flaw, Topic};

pub(super) const TOPIC: Topic = Topic {
    name: "client",
    package: "zk-wire",
    flaws: FLAWS,
};

const FLAWS: &[Flaw] = &[
    Flaw {
        what: "a reply with the number of another request is taken for that to the oldest one",
        file: REPLIES,
        text: "        if frame.xid != xid {",
        instead: "        if frame.xid != xid && may_overtake {",
        // Servers reply in order.
        found_by: &["test(/^session::tests::/)"],
    },
    Flaw {
        what: "requests whose replies were lost are sent again on the next connection",
        file: CONNECTION,
        text: LOST,
        instead: "        for frame in sent {\n            self.outgoing.push_back(frame);\n        }",
        found_by: &[
            "test(/^session::tests::/)",
            "binary(it) & test(/^connections::/)",
        ],
    },
    Flaw {
        what: "the last watches of more than one request can set are not set on the next connection",
        file: WATCHES,
        text: "        if bytes > 0 {\n            parts.push(part);",
        instead: "        if bytes > 0 && parts.is_empty() {\n            parts.push(part);",
        found_by: &["test(/^session::/)", "binary(it) & test(/^connections::/)"],
    },
    Flaw {
        what: "a server that is behind what the session has seen accepts it",
        file: CONNECTION,
        text: "            last_zxid_seen: self.last_zxid,\n            timeout: self.config.timeout,",
        instead: "            last_zxid_seen: 0,\n            timeout: self.config.timeout,",
        found_by: &["test(/^session::tests::/)"],
    },
    Flaw {
        what: "a write that the ensemble has given up waiting for counts as refused, although it may be carried out yet",
        file: ERROR_CODE,
        text: "            Self::REQUEST_TIMEOUT => true,",
        instead: "            Self::REQUEST_TIMEOUT => false,",
        found_by: &["test(/^proto::error_code::/)"],
    },
];

const LOST: &str = r"        for frame in sent {
            if let Some(ticket) = frame.ticket() {
                let (epoch, why) = (self.epoch, self.loss_of(&frame, why));
                let outcome = Outcome::Unknown { epoch, why };
                self.events.push_back(Event::Answered(ticket, outcome));
            } else if frame.is_close() {
                self.outgoing.push_back(frame);
            }
        }";

const ERROR_CODE: &str = "crates/zk-wire/src/proto/error_code.rs";
const REPLIES: &str = "crates/zk-wire/src/session/replies.rs";
const CONNECTION: &str = "crates/zk-wire/src/session/connection.rs";
const WATCHES: &str = "crates/zk-wire/src/session/watches.rs";
