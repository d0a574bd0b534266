//! Real servers, started, broken and cleaned up.
#![cfg(test)]

mod cleanup;
mod control;
mod refusals;
mod serving;
mod support;
