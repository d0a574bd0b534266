//! Tests the search and provisioning of ZooKeeper, with real files, a real HTTP server and the machine's own apt.
#![cfg(test)]
#![cfg(feature = "download")]

mod archive;
mod cached;
mod concurrency;
mod foreign;
mod http;
mod installed;
mod packages;
mod real;
mod servers;
mod settings;
mod world;
