//! Decodes messages of servers.

#![no_main]

#[path = "../../tests/fuzz/decoders.rs"]
mod decoders;
#[path = "../../tests/fuzz/meaning.rs"]
mod meaning;
#[expect(dead_code, reason = "each target uses a part of it")]
#[path = "../../tests/fuzz/replies.rs"]
mod replies;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let input = decoders::Input::from_bytes(bytes);
    if std::env::var_os("SHOW").is_some() {
        eprintln!("{input:#?}");
    }
    decoders::check(&input);
});
