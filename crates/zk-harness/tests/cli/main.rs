//! Tests of the program `zk-ensemble`.
#![cfg(test)]

mod faults;
mod foreign_files;
#[cfg(feature = "containers")]
mod in_containers;
mod lifecycle;
mod refusals;
mod secure;
mod support;
