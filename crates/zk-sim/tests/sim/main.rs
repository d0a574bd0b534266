//! Sessions of zk-core on a simulated ensemble.
#![cfg(test)]

mod chaos;
mod expiry;
mod faults;
mod oracle;
mod persistent;
mod quorum;
mod sessions;
mod watches;
