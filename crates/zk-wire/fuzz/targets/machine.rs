//! Runs a session between a program and a server.

#![no_main]

#[path = "../../tests/fuzz/machine.rs"]
mod machine;
#[path = "../../tests/fuzz/meaning.rs"]
mod meaning;
#[path = "../../tests/fuzz/program.rs"]
mod program;
#[expect(dead_code, reason = "each target uses a part of it")]
#[path = "../../tests/fuzz/replies.rs"]
mod replies;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let program = program::Program::from_bytes(bytes);
    if std::env::var_os("SHOW").is_some() {
        eprintln!("{program:#?}");
    }
    machine::check(&program);
});
