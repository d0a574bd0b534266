//! The `zk-ensemble` program.
fn main() {}
