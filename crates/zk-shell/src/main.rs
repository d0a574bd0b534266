//! The ordinary shell commands on nodes.
fn main() {}
