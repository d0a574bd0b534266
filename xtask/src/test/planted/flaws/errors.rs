//! Errors that quote what other clients have written.

use super::{Flaw, Topic};

pub(super) const TOPIC: Topic = Topic {
    name: "errors",
    package: "zk-core",
    flaws: FLAWS,
};

const FLAWS: &[Flaw] = &[Flaw {
    what: "the text of a node reaches the log of an application as it is, and at any length",
    file: CODEC,
    text: "            message: foreign_text::shown(&foreign_text::without_value(&message)),",
    instead: "            message: foreign_text::without_value(&message),",
    found_by: &["test(/^codec::/)"],
}];

const CODEC: &str = "crates/zk-core/src/codec.rs";
