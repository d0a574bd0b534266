//! The `zk-ensemble` program, as a person or a script uses it.
#![cfg(test)]

mod faults;
#[cfg(feature = "containers")]
mod in_containers;
mod lifecycle;
mod odd;
mod refusals;
mod support;
