//! Makes links of the names of this workspace in the migration guides, so that rustdoc checks them.
//!
//! In the guides themselves they are code, which reads well without rustdoc.

use std::env;
use std::fs;
use std::path::Path;

const GUIDES: [&str; 2] = ["from-curator", "from-kazoo"];

fn main() {
    let out = env::var_os("OUT_DIR").expect("cargo sets it");
    for guide in GUIDES {
        let source = format!("../docs/{guide}.md");
        println!("cargo::rerun-if-changed={source}");
        let text = fs::read_to_string(&source).expect("the guide can be read");
        let target = Path::new(&out).join(format!("{guide}.md"));
        fs::write(target, linked(&text)).expect("cargo's directory can be written");
    }
}

/// Returns Markdown with each code span that is a path of this workspace as a link to it.
fn linked(text: &str) -> String {
    let mut is_code = false;
    let mut linked = String::new();
    for line in text.lines() {
        let is_fence = line.starts_with("```");
        is_code ^= is_fence;
        if is_code || is_fence {
            linked += line;
        } else {
            for (at, span) in line.split('`').enumerate() {
                let (before, after) = match (at % 2 == 1, is_path(span)) {
                    (true, true) => ("[`", "`]"),
                    (true, false) => ("`", "`"),
                    (false, _) => ("", ""),
                };
                linked.extend([before, span, after]);
            }
        }
        linked.push('\n');
    }
    linked
}

/// Returns whether a code span is the name of one of our crates, or a path that begins with it.
fn is_path(span: &str) -> bool {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut names = span.split("::");
    span.starts_with("zk_") && span != "zk_" && {
        names.all(|name| !name.is_empty() && name.chars().all(is_of_name))
    }
}
