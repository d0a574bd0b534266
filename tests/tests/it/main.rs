//! Tests across crates and against other clients, on real servers.

#![cfg(test)]

mod barrier;
mod clients;
mod compatibility;
mod counter;
mod counters;
mod discovery;
mod expire;
mod group;
mod id;
mod java_frames;
mod leader;
mod lock;
mod nemesis;
mod oldest_servers;
mod peers;
mod queue;
mod secure;
mod sessions;
mod simulated;
