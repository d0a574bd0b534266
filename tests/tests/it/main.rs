//! Tests across crates and against other clients, on real servers.

#![cfg(test)]

mod lock;
mod peers;
