//! Ids on real servers.

#![cfg(test)]

use zk_sim::wait::soon;
use zk_testkit::servers::{LONG, connect, example, with_servers};

mod auto_traits;
mod basic;
mod blocking;
mod examples;
mod threads;
