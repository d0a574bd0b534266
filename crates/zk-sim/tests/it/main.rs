//! Sessions of zk-core on a simulated ensemble.
#![cfg(test)]

mod expiry;
mod faults;
mod real;
mod sessions;
mod watches;
