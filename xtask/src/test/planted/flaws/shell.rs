//! The shell.

use super::{Flaw, Topic};

pub(super) const TOPIC: Topic = Topic {
    name: "shell",
    package: "zk-shell",
    flaws: FLAWS,
};

const FLAWS: &[Flaw] = &[Flaw {
    what: "a long name in a tar file is read into memory whatever its length",
    file: TAR_FILE,
    text: "    if entry.size() > MAX_NAME {",
    instead: "    if entry.size() > u64::MAX - MAX_NAME {",
    found_by: &["binary(zk) & test(/^subtree::tar_file::/)"],
}];

const TAR_FILE: &str = "tools/zk-shell/src/subtree/tar_file.rs";
