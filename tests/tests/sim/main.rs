//! The client of `zk-wire` against the simulated ensemble of `zk-sim`, byte for byte.
//!
//! The state machine of a session and the simulated servers share no code. In-memory streams under paused time carry
//! their bytes, and are cut at every one of them.
#![cfg(test)]

use bytes::Bytes;
use zk_wire::{AclEntry, CreateMode, NewNode};

mod byte_stream;
mod cuts;
mod keeper;
mod protocol;
mod servers;

fn node(path: &str, mode: CreateMode) -> NewNode {
    NewNode {
        path: path.to_owned(),
        data: Bytes::from_static(b"data"),
        acl: vec![AclEntry::open()],
        mode,
    }
}
