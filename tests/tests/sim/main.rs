//! The client of `zk-wire` against the simulated ensemble of `zk-sim`, byte for byte.
//!
//! The state machine of a session and the simulated servers share no code. In-memory streams under paused time carry
//! their bytes, and are cut at every one of them.
#![cfg(test)]

use zk_wire::{Acl, CreateMode, NewNode, NodePath};

mod byte_stream;
mod cuts;
mod keeper;
mod protocol;
mod servers;

fn node_path(path: &str) -> NodePath {
    NodePath::parse(path).expect("it is a path")
}

fn node(path: &str, mode: CreateMode) -> NewNode {
    NewNode {
        path: node_path(path),
        data: b"data"[..].into(),
        acl: Acl::open(),
        mode,
    }
}
