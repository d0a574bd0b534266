//! Tests on real servers: start, faults and clean-up.
#![cfg(test)]

mod class_data;
mod cleanup;
mod control;
mod faults;
#[cfg(feature = "containers")]
mod in_containers;
mod links;
mod proxy;
mod refusals;
mod secure;
mod serving;
mod support;
