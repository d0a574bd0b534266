//! Nodes of others, with any names and data, below the paths of all recipes: nothing panics.
//!
//! The check is also the body of the fuzz target in `tests/fuzz`, which runs for longer and looks for input that reaches
//! new code. An input is a list of bytes in both. `docs/reliability.md` lists all parsers, and what fuzzes each of them.

#![cfg(test)]

use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;

mod data;
mod input;
mod readers;

use input::Input;
use readers::READERS;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]

    #[test]
    fn foreign_nodes_never_make_a_recipe_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        for reader in 0..READERS.len() {
            readers::check(&Input::from_bytes(&bytes, Some(reader)));
        }
    }
}

#[test]
fn each_reader_understands_its_own_samples() {
    for (at, reader) in READERS.iter().enumerate() {
        let input = Input::of_samples(at);
        assert!(!input.nodes.is_empty(), "{}", reader.name);
        let kept = readers::check(&input);
        assert_eq!(
            kept,
            input.nodes.len(),
            "{}: nodes were refused",
            reader.name
        );
    }
}

#[test]
fn each_parser_is_in_the_table_with_what_fuzzes_it() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
    let document = fs::read_to_string(crates.join("../docs/reliability.md"));
    let document = document.expect("the document can be read");
    let table = document
        .split_once("<!-- parsers: begin -->")
        .and_then(|(_, rest)| rest.split_once("<!-- parsers: end -->"));
    let (table, _) = table.expect("the document has the table");
    let quoted: Vec<_> = table.split('`').skip(1).step_by(2).collect();
    for name in &quoted {
        if Path::new(name).extension().is_some_and(|end| end == "rs") {
            assert!(crates.join(name).is_file(), "there is no {name}");
        }
    }
    for reader in READERS {
        assert!(
            quoted.contains(&reader.name),
            "no parser is for {reader}",
            reader = reader.name
        );
    }
    for name in CRATES {
        for file in parsers(&crates.join(name).join("src")) {
            let file = file.strip_prefix(&crates).expect("it is below");
            let file = file.to_str().expect("it is ASCII");
            assert!(
                quoted.contains(&file),
                "{file} has a parser; add it to the table"
            );
        }
    }
}

/// Returns the files below a directory that parse, by the names of their functions.
fn parsers(directory: &Path) -> Vec<PathBuf> {
    const NAMES: [&str; 6] = [
        "parse",
        "decode",
        "deserialize",
        "from_str",
        "from_srvr",
        "directives",
    ];
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).expect("it is a directory") {
        let path = entry.expect("it can be listed").path();
        if path.is_dir() {
            found.extend(parsers(&path));
        } else if !path.ends_with("tests.rs") {
            let text = fs::read_to_string(&path).expect("it is a text");
            let code = text
                .split("#[cfg(test)]\nmod tests {")
                .next()
                .unwrap_or_default();
            let is_parser = |name| {
                ["(", "_", "<"]
                    .iter()
                    .any(|end| code.contains(&format!("fn {name}{end}")))
            };
            if NAMES.iter().any(is_parser) {
                found.push(path);
            }
        }
    }
    found
}

/// Those that read nodes or messages of others.
const CRATES: [&str; 12] = [
    "zk-barrier",
    "zk-cache",
    "zk-config",
    "zk-core",
    "zk-counter",
    "zk-discovery",
    "zk-group",
    "zk-id",
    "zk-leader",
    "zk-lock",
    "zk-queue",
    "zk-wire",
];

/// For each reader; a few seconds in all.
const CASES: u32 = 100;
