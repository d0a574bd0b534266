//! Elections on real servers.

#![cfg(test)]

use zk_leader::{LatchParticipant, LeaderLease, ParticipantState};
use zk_sim::wait::soon;
use zk_testkit::servers::{LONG, connect, example, with_servers};

mod auto_traits;
mod basic;
mod breadcrumb;
mod examples;
mod failover;
mod processes;
mod step_down;

async fn leading(participant: &LatchParticipant) -> LeaderLease {
    let lease = soon("it leads", participant.leading()).await;
    lease.expect("it stays in the race")
}

async fn until_waiting(participant: &LatchParticipant) {
    let mut changes = participant.handle().changes();
    soon("it waits", async {
        while !matches!(changes.next().await, Some(ParticipantState::Waiting { .. })) {}
    })
    .await;
}
