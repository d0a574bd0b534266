//! The client of `zk-wire` against the simulated ensemble of `zk-sim`, byte for byte.
//!
//! The state machine of a session and the simulated servers share no code. In-memory streams under paused time carry
//! their bytes, and are cut at every one of them.
#![cfg(test)]

mod byte_stream;
mod cuts;
mod protocol;
