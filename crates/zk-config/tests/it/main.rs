//! Configuration on real servers.

#![cfg(test)]

use zk_sim::wait::soon;
use zk_testkit::servers::{LONG, connect, with_servers};

mod auto_traits;
mod faults;
mod readers;
#[path = "../shared/scenario.rs"]
mod scenario;
