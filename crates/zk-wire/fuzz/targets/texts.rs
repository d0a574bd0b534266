//! Reads texts of servers.

#![no_main]

#[path = "../../tests/fuzz/texts.rs"]
mod texts;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let input = texts::Input::from_bytes(bytes);
    if std::env::var_os("SHOW").is_some() {
        eprintln!("{input:#?}");
    }
    texts::check(&input);
});
