//! Nodes of others, with any names and data, below the paths of all recipes: nothing panics.
//!
//! The check is also the body of the fuzz target in `tests/fuzz`, which runs for longer and looks for input that reaches
//! new code. An input is a list of bytes in both.

#![cfg(test)]

use proptest::prelude::*;

mod input;
mod readers;

use input::Input;
use readers::READERS;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]

    // covers: S4
    #[test]
    fn foreign_nodes_never_make_a_recipe_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        for reader in 0..READERS.len() {
            readers::check(&Input::from_bytes(&bytes, Some(reader)));
        }
    }
}

// covers: S4
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

/// For each reader; a few seconds in all.
const CASES: u32 = 100;
