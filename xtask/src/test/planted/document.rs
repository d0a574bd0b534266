//! `docs/planted.md`: which tests noticed which flaw.
//!
//! Pure: no files.

use std::collections::BTreeMap;

use super::flaws::{Flaw, Topic};
use super::results::Noticed;

/// The document, in the workspace.
pub(super) const DOCUMENT: &str = "docs/planted.md";

/// What is known of a flaw.
pub(super) enum Entry<'a> {
    /// These tests failed with it.
    Run(&'a Noticed),
    /// What the document says of it.
    AsBefore,
}

/// Returns the new document.
pub(super) fn write<'a>(old: &str, topics: &[Topic], entry: impl Fn(&Flaw) -> Entry<'a>) -> String {
    let before = sections(old);
    let section = |flaw: &Flaw| match entry(flaw) {
        Entry::Run(noticed) => section(flaw, noticed),
        Entry::AsBefore => match before.get(flaw.what) {
            Some(before) => (*before).to_owned(),
            None => format!("{}Not run yet.\n", head(flaw)),
        },
    };
    let mut summary = String::from("| topic | package | flaws | noticed by only one test |\n");
    summary += "|---|---|---|---|\n";
    let mut details = String::new();
    for topic in topics {
        details.extend([format!("\n## {}\n", topic.name)]);
        let mut only_one = 0;
        for flaw in topic.flaws {
            let section = section(flaw);
            only_one += u32::from(section.contains(ONLY_ONE));
            details.extend([format!("\n### {}\n\n{section}", flaw.what)]);
        }
        let (name, package, flaws) = (topic.name, topic.package, topic.flaws.len());
        summary.extend([format!(
            "| [{name}](#{name}) | `{package}` | {flaws} | {only_one} |\n"
        )]);
    }
    format!("{INTRODUCTION}{summary}{details}")
}

fn section(flaw: &Flaw, noticed: &Noticed) -> String {
    let by = &noticed.by;
    let count = match by.len() {
        0 => "**No test noticed.**\n".to_owned(),
        1 => format!("{ONLY_ONE}\n"),
        many => format!("{many} tests noticed.\n"),
    };
    let names = by.iter().take(NAMES).map(|test| {
        let is_late = noticed.timed_out.contains(test);
        let why = if is_late { TIMED_OUT } else { "" };
        format!("- `{}`{why}\n", path_of(test))
    });
    let mut section = head(flaw) + &count;
    if !by.is_empty() {
        section.push('\n');
    }
    section.extend(names);
    if by.len() > NAMES {
        section.extend([format!("- and {} more\n", by.len() - NAMES)]);
    }
    section
}

fn head(flaw: &Flaw) -> String {
    let file = flaw.file;
    format!("In [`{file}`](../{file}).\n")
}

/// Returns the path of a test that nextest calls `zk-lock::sim chaos::name`: `zk_lock::sim::chaos::name`.
fn path_of(test: &str) -> String {
    let (binary, name) = test.split_once(' ').unwrap_or((test, ""));
    format!("{}::{name}", binary.replace('-', "_"))
}

/// Returns what a document says of each flaw.
fn sections(document: &str) -> BTreeMap<&str, &str> {
    let sections = document.split("\n### ").skip(1).filter_map(|section| {
        let (what, rest) = section.split_once("\n\n")?;
        let end = rest.find("\n\n## ").map_or(rest.len(), |at| at + 1);
        Some((what, rest.get(..end)?))
    });
    sections.collect()
}

/// How many tests are named.
const NAMES: usize = 10;

const TIMED_OUT: &str = ", because its time was over";
const ONLY_ONE: &str = "**Only one test noticed.**";

const INTRODUCTION: &str = "\
# Planted flaws

The command `cargo xtask test planted` plants one flaw after the other in a copy of the last commit, and writes here
which tests notice: those of the topic's package that need no servers and, if the flaw can be produced on real servers,
some of those in `it`.
It fails if no test without servers notices a flaw, or none of those that the flaw names.
The flaws are in [`xtask/src/test/planted/flaws`](../xtask/src/test/planted/flaws).

<!-- written by cargo xtask test planted -->

";

#[cfg(test)]
mod tests {
    use super::*;

    const fn flaw(what: &'static str) -> Flaw {
        Flaw {
            what,
            file: "crates/zk-a/src/lib.rs",
            text: "right",
            instead: "wrong",
            found_by: &["binary(sim)"],
        }
    }

    const TOPICS: &[Topic] = &[
        Topic {
            name: "a",
            package: "zk-a",
            flaws: &[flaw("it is wrong"), flaw("it is late")],
        },
        Topic {
            name: "b",
            package: "zk-b",
            flaws: &[flaw("it is lost")],
        },
    ];

    fn tests(names: impl IntoIterator<Item = impl ToString>) -> Noticed {
        let by = names.into_iter().map(|name| name.to_string()).collect();
        Noticed {
            by,
            timed_out: ["zk-b::sim m::t11".to_owned()].into(),
            silent: [].into(),
        }
    }

    #[test]
    fn the_tests_of_each_flaw_are_named() {
        let (one, many) = (
            tests(["zk-a c::tests::d"]),
            (10..22).map(|n| format!("zk-b::sim m::t{n}")),
        );
        let many = tests(many);
        let document = write("", TOPICS, |flaw| match flaw.what {
            "it is wrong" => Entry::Run(&one),
            "it is lost" => Entry::Run(&many),
            _ => Entry::AsBefore,
        });
        let (_, written) = document.split_once("planted -->\n\n").unwrap();
        let rest: Vec<_> = (12..20)
            .map(|n| format!("- `zk_b::sim::m::t{n}`\n"))
            .collect();
        let rest = rest.concat();
        let file = "In [`crates/zk-a/src/lib.rs`](../crates/zk-a/src/lib.rs).\n";
        assert_eq!(
            written,
            format!(
                "| topic | package | flaws | noticed by only one test |\n|---|---|---|---|\n\
                 | [a](#a) | `zk-a` | 2 | 1 |\n| [b](#b) | `zk-b` | 1 | 0 |\n\n\
                 ## a\n\n### it is wrong\n\n{file}**Only one test noticed.**\n\n- `zk_a::c::tests::d`\n\n\
                 ### it is late\n\n{file}Not run yet.\n\n\
                 ## b\n\n### it is lost\n\n{file}12 tests noticed.\n\n- `zk_b::sim::m::t10`\n\
                 - `zk_b::sim::m::t11`, because its time was over\n{rest}- and 2 more\n"
            )
        );
    }

    #[test]
    fn what_is_known_of_other_flaws_stays() {
        let (one, none) = (tests(["zk-a c::tests::d"]), tests([""; 0]));
        let first = write("", TOPICS, |_| Entry::Run(&one));
        assert_eq!(write(&first, TOPICS, |_| Entry::AsBefore), first);
        let second = write(&first, TOPICS, |flaw| match flaw.what {
            "it is late" => Entry::Run(&none),
            _ => Entry::AsBefore,
        });
        assert_eq!(second.matches(ONLY_ONE).count(), 2);
        assert!(second.contains("### it is late\n\nIn [`crates/zk-a/src/lib.rs`](../crates/zk-a/src/lib.rs).\n**No test noticed.**\n\n## b"));
        // A flaw that is written anew under another description leaves nothing behind.
        let fewer = &TOPICS[1..];
        assert!(!write(&first, fewer, |_| Entry::AsBefore).contains("it is late"));
    }
}
