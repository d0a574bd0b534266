//! The workspace own commands.
fn main() {}
