//! The `zk-ensemble` program, as a person or a script uses it.
#![cfg(test)]

mod faults;
mod lifecycle;
mod odd;
mod refusals;
mod support;
