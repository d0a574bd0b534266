//! Counters and shared values on real servers.

#![cfg(test)]

use zk_testkit::servers::{connect, with_servers};

mod auto_traits;
mod basic;
