//! Caches on real servers.

#![cfg(test)]

use zk_sim::wait::{pass, soon};
use zk_testkit::servers::{connect, connect_for, example};

mod auto_traits;
mod basic;
mod kinds;
mod nemesis;
mod processes;
#[path = "../support/replay.rs"]
mod replay;
#[path = "../support/words.rs"]
mod words;
