//! Lets a recipe read nodes of others, with any names and data.

#![no_main]

#[path = "../../tests/foreign/data.rs"]
mod data;
#[expect(dead_code, reason = "the tests use the rest")]
#[path = "../../tests/foreign/input.rs"]
mod input;
#[path = "../../tests/foreign/readers.rs"]
mod readers;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let input = input::Input::from_bytes(bytes, None);
    if std::env::var_os("SHOW").is_some() {
        eprintln!("{} {input:#?}", readers::READERS[input.reader].name);
    }
    readers::check(&input);
});
