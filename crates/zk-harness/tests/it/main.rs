//! Real servers, started, broken and cleaned up.
#![cfg(test)]

mod cleanup;
#[cfg(feature = "containers")]
mod containers;
mod control;
mod faults;
mod links;
mod proxy;
mod refusals;
mod serving;
mod support;
