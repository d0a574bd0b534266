//! An example application over all crates of this workspace: a master that assigns tasks, and workers that do them.
//!
//! It is the classical application of ZooKeeper, done so that it survives what happens to processes, networks and
//! servers: start some processes against a running ensemble, submit tasks, and kill what you like.
//! The [README](readme) is a walk of five minutes.
//!
//! # What it guarantees
//!
//! 1. A text whose submission was answered becomes one task, and that has one result.
//! 2. A task is in one place at each moment: it waits, or one worker has it, or it is done.
//! 3. A worker that is gone, killed, cut off or stopped, does not keep its tasks: they are done by others.
//! 4. A master that is one no longer changes nothing, even if it does not know yet.
//!
//! Not guaranteed: that the *work* of a task is done once. Between the work and the transaction that says so a process may
//! die, and then another one does it again. Work that must not be done twice has to be able to tell that it was done, for
//! instance by the number of the task.
//!
//! Nor that nothing is lost of what a person deletes. The nodes that everything stands on are made again, and a worker
//! whose node is deleted begins anew under another name; the tasks that were below are gone.
//! Where the node of the numbers is deleted, they begin anew: numbers of tasks that wait are passed over, but a task whose
//! number has a result already gets no other one, and its text is in no result.
//!
//! # What it bears
//!
//! A text has 64 KiB at most, some 1,000 tasks wait at most, and 10,000 texts more in the inbox; then submitting is
//! refused, and the error says how many were accepted.
//! Results have no bound: [`prune`] is for that.
//!
//! # When an answer is lost
//!
//! A transaction whose answer was lost may have been carried out, and is not sent again by itself. There are three ways to
//! deal with that here:
//!
//! - Whoever registers under a name that nobody else has sends it again: that the name is taken says that the first try was
//!   carried out (`worker.rs`).
//! - Whoever moves a task needs no answer: the next look shows where it is, and a second try is refused, as the task is not
//!   where it was ([`Outcome::Unknown`](master::Outcome::Unknown)).
//! - Whoever finishes a task wants to know whether it was this worker who did, and lets a
//!   [marker](zk_core::Transaction::commit_marked) tell (`worker.rs`).
//!
//! # What to read
//!
//! | file | what it shows |
//! |---|---|
//! | `node.rs` | a process and its sessions: [`supervise`](zk_core::SessionBuilder::supervise), and everything built anew with each |
//! | [`plan`] | the decision who gets what, pure, and tested without a server |
//! | [`master`] | an election ([`Selector`](zk_leader::Selector)), transactions that [check it](zk_leader::Lease::txn), a queue whose items [become nodes](zk_queue::Claim::acknowledge_with), numbers ([`SequenceIds`](zk_id::SequenceIds)) |
//! | `assignments.rs` | three [caches](zk_cache) that show three moments, and why that does no harm |
//! | [`worker`] | a number leased ([`WorkerIds`](zk_id::WorkerIds)), a registration, a [transaction whose answer may be lost](zk_core::Transaction::commit_marked) |
//! | [`settings`] | a typed value that follows a document in TOML ([`Typed`](zk_config::Typed)) |
//! | [`submit`] | offers to a [`WorkQueue`](zk_queue::WorkQueue) |
//! | [`status_endpoint`] | processes that are [registered](zk_discovery::Registry::keep_registered) and [picked](zk_discovery::Providers::pick) |
//! | [`prune`] | a [`FairLock`](zk_lock::FairLock), and writes that it guards |
//!
//! # Nodes
//!
//! ```text
//! /app
//! ├── config                           the settings, in TOML; absent is the defaults
//! ├── election                         who is the master: zk-leader
//! ├── inbox                            what was submitted: zk-queue
//! ├── tasks/task-0000000017            a task that nobody has, and what it is
//! ├── workers/worker-3-10000002f       ephemeral: worker 3 is there, and its process
//! ├── assigned/worker-3-10000002f      as long as it may have tasks
//! │   └── task-0000000016              a task that it has
//! ├── done/task-0000000015             a result, in TOML
//! ├── worker-numbers, task-numbers     zk-id
//! ├── services/processes               who can be asked what it did last: zk-discovery
//! ├── markers                          of transactions whose answer may be lost: zk-core
//! └── prune-lock                       zk-lock
//! ```

#![expect(
    clippy::exhaustive_enums,
    clippy::exhaustive_structs,
    reason = "an application is changed as a whole: nobody builds on its types"
)]
#![expect(
    clippy::missing_panics_doc,
    reason = "what could panic is that a path of the tree is none"
)]

mod assignment_view;
mod bootstrap;
pub mod master;
mod node;
mod pause;
pub mod plan;
pub mod prune;
mod reporter;
pub mod settings;
pub mod status;
pub mod status_endpoint;
mod stop;
pub mod submit;
mod tree;
pub mod worker;

pub use node::Node;
pub use reporter::Reporter;
pub use status_endpoint::StatusEndpoint;
pub use stop::Stop;
pub use stop::Stopper;
pub use tree::ForeignName;
pub use tree::TaskId;
pub use tree::Tree;
pub use tree::WorkerName;

#[doc = include_str!("../README.md")]
pub mod readme {}
