//! Sweeps of all recipes: each test shares its ensemble between several stories.
//!
//! The number of a story is that of the requests it has at least.

#![cfg(test)]

mod barrier;
mod counter;
mod group;
mod leader;
mod one_shot_lease;
mod operations;
mod other_locks;
mod partitioner;
mod persistent_node;
mod queue;
mod rw;
mod semaphore;

use zk_sweep::{Stage, lock};

#[tokio::test(flavor = "multi_thread")]
async fn operations_take_effect_once_or_their_outcome_is_unknown() {
    let stage = Stage::new().await;
    tokio::join!(
        stage.sweep(
            "create with parents",
            1,
            operations::create_with_its_parents
        ),
        stage.sweep("protected create", 1, operations::create_protected),
        stage.sweep("sequential create", 1, operations::create_sequential),
        stage.sweep("owned create", 1, operations::create_owned_and_drop),
        stage.sweep("reads", 1, operations::reads),
        stage.sweep("set with a version", 1, operations::set_with_a_version),
        stage.sweep("set", 1, operations::set_anything),
        stage.sweep("delete", 1, operations::delete),
        stage.sweep("guaranteed delete", 1, operations::delete_guaranteed),
        stage.sweep("transaction", 1, operations::transaction),
    );
    stage.down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn persistent_nodes_and_members_of_groups_are_there_once() {
    let stage = Stage::new().await;
    tokio::join!(
        stage.sweep("ephemeral", 10, persistent_node::ephemeral),
        stage.sweep(
            "persistent sequential",
            10,
            persistent_node::persistent_sequential
        ),
        stage.sweep("ttl", 10, persistent_node::ttl),
        stage.sweep("group", 8, group::joins_and_leaves),
        stage.sweep("partitioner", 16, partitioner::shares),
    );
    stage.down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn locks_are_granted_and_leave_nothing() {
    let stage = Stage::new().await;
    tokio::join!(
        lock::sweep(&stage),
        stage.sweep("cohort", 5, other_locks::cohort),
        stage.sweep("reentrant", 5, other_locks::reentrant),
        stage.sweep("race", 5, other_locks::race),
        stage.sweep("several", 5, other_locks::life_of_several_locks),
        stage.sweep("rw", 9, rw::life_of_a_writer_and_reader),
        stage.sweep("semaphore", 15, semaphore::life_of_leases),
        stage.sweep("one-shot lease", 10, one_shot_lease::take_and_renew),
    );
    stage.down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn leaders_lead_alone_and_members_of_barriers_meet() {
    let stage = Stage::new().await;
    tokio::join!(
        stage.sweep("leader", 5, leader::life_of_a_candidate),
        stage.sweep("breadcrumb", 6, leader::fail_over),
        stage.sweep("barrier", 1, barrier::barrier),
        stage.sweep("rounds", 1, barrier::rounds),
        stage.sweep("recipe", 1, barrier::recipe),
    );
    stage.down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn items_and_counts_are_neither_lost_nor_doubled() {
    let stage = Stage::new().await;
    tokio::join!(
        stage.sweep("offers", 1, queue::offers),
        stage.sweep("takes", 1, queue::takes),
        stage.sweep("works", 1, queue::works),
        stage.sweep("shared works", 1, queue::shared_works),
        stage.sweep("counter", 10, counter::counts),
        stage.sweep("shared value", 10, counter::shares),
    );
    stage.down().await;
}
