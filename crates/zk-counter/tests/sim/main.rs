//! Counters and shared values on a simulated ensemble, under paused time.

#![cfg(test)]

use zk_core::Session;
use zk_counter::{AtomicCounter, CounterOptions};
use zk_sim::Ensemble;
use zk_sim::wait::{pass, polled, soon, until};

mod basic;
mod calls;
mod chaos;
mod faults;
mod golden;
mod sessions;
mod shared;
mod shared_chaos;

/// The counter at `/c`.
fn counter(session: &Session) -> AtomicCounter {
    AtomicCounter::new(session, "/c", &CounterOptions::default()).expect("a good path")
}

/// The number of the node at `/c`.
fn number(sim: &Ensemble) -> i64 {
    let tree = sim.tree();
    let node = tree.node("/c").expect("the node exists");
    i64::from_be_bytes(node.data().try_into().expect("eight bytes"))
}
