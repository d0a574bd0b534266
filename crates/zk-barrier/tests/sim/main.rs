//! Barriers on a simulated ensemble, under paused time: each failure happens exactly where the test wants it.

#![cfg(test)]

use std::num::NonZeroU32;

use zk_barrier::DoubleBarrier;
use zk_core::Session;
use zk_sim::Ensemble;

mod barrier;
mod cancellation;
mod chaos;
mod cost;
mod faults;
#[path = "../shared/history.rs"]
mod history;
mod recipe;
mod rounds;

/// The path of the tests.
const PATH: &str = "/barriers/a";
/// The node of the current round.
const ROUND: &str = "/barriers/a/round";

fn double(session: &Session, threshold: u32) -> DoubleBarrier {
    let threshold = NonZeroU32::new(threshold).expect("a threshold is not zero");
    DoubleBarrier::new(session, PATH, threshold).expect("the path is valid")
}

/// The members in the current round, as the leader has them.
fn members(ensemble: &Ensemble) -> usize {
    let tree = ensemble.tree();
    let round = tree.node(ROUND);
    round.map_or(0, |round| {
        round.children().filter(|name| *name != "state").count()
    })
}
