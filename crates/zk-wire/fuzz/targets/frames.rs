//! Splits streams into frames.

#![no_main]

#[path = "../../tests/fuzz/frames.rs"]
mod frames;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let input = frames::Input::from_bytes(bytes);
    if std::env::var_os("SHOW").is_some() {
        eprintln!("{input:#?}");
    }
    frames::check(&input);
});
