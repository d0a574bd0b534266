//! Tests of the program `zk-ensemble`.
#![cfg(test)]

mod faults;
#[cfg(feature = "containers")]
mod in_containers;
mod lifecycle;
mod odd;
mod refusals;
mod support;
