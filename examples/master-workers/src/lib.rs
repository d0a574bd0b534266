//! An example application over all crates of this workspace: a master that assigns tasks, and workers that do them.
//!
//! It is the classic ZooKeeper application, built to survive failures of processes, networks and servers: start some
//! processes against a running ensemble, submit tasks, and kill anything.
//! The [README](readme) is a five-minute walk-through, and lists what each file shows.
//!
//! # What it guarantees
//!
//! 1. An acknowledged submission becomes exactly one task, and that task has exactly one result.
//! 2. At each moment a task is in one place: it waits, or one worker has it, or it is done.
//! 3. A worker that was killed, disconnected or stopped does not keep its tasks: other workers do them.
//! 4. A deposed master changes nothing, even if it does not know yet that it was deposed.
//!
//! Not guaranteed: that the *work* of a task is done once. A process may die between the work and the transaction that
//! records it; then another worker repeats the work. Work that must not be repeated has to detect that it was done, for
//! instance by the number of the task.
//!
//! Also not guaranteed: that data survives manual deletion. Deleted base nodes are created again, and a worker whose
//! node is deleted registers again under another name, but the tasks below the deleted nodes are lost.
//! If the node of the task numbers is deleted, numbers start again: numbers of waiting tasks are skipped, but a task
//! whose number already has a result gets no second one, and its text appears in no result.
//!
//! # Limits
//!
//! A text has at most 64 KiB. At most about 1,000 tasks wait, plus 10,000 texts in the inbox; beyond that submitting
//! fails, and the error states how many texts were accepted.
//! Results are unbounded; [`prune`] deletes old ones.
//!
//! # When a reply is lost
//!
//! A transaction whose reply was lost may have been applied, and is not retried automatically. The application handles
//! this in three ways:
//!
//! - Registering under a unique name retries: if the name is taken, the first attempt was applied (`worker.rs`).
//! - Moving a task needs no reply: the next read shows where the task is, and a second attempt fails, because the task
//!   is no longer in its previous place ([`Outcome::Unknown`](master::Outcome::Unknown)).
//! - Finishing a task must know whether this worker finished it, and uses a
//!   [token](zk_core::Transaction::commit_marked) to find out (`worker.rs`).
//!
//! # Cancel safety
//!
//! Every future can be dropped at any await. Unless its documentation says otherwise, a request in flight may be
//! carried out, as a whole or not at all. Other workers take over the tasks of a dropped worker when its session has
//! ended.
//!
//! # Session loss
//!
//! Unless its documentation says otherwise, a function that uses a session returns an error.
//!
//! # Nodes
//!
//! ```text
//! /app
//! ├── config                           the settings, in TOML; absent is the defaults
//! ├── election                         who is the master: zk-leader
//! ├── inbox                            what was submitted: zk-queue
//! ├── tasks/task-0000000017            a waiting task: its text
//! ├── workers/worker-3-10000002f       ephemeral: worker 3 is registered; its process
//! ├── assigned/worker-3-10000002f      exists while the worker may have tasks
//! │   └── task-0000000016              a task of the worker
//! ├── done/task-0000000015             a result, in TOML
//! ├── worker-numbers, task-numbers     zk-id
//! ├── services/processes               the status endpoints: zk-discovery
//! ├── markers                          of transactions whose reply may be lost: zk-core
//! └── prune-lock                       zk-lock
//! ```

#![expect(
    clippy::exhaustive_enums,
    clippy::exhaustive_structs,
    reason = "an application changes as a whole: no other crate depends on its types"
)]
#![expect(
    clippy::missing_panics_doc,
    reason = "the only panics are for invalid paths of the tree, which cannot occur"
)]

mod assignment_view;
pub mod master;
mod member;
pub mod metrics_endpoint;
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

pub use member::Member;
pub use node::Node;
pub use reporter::Reporter;
pub use status_endpoint::StatusEndpoint;
pub use stop::{Stop, Stopper};
pub use tree::{ForeignName, TaskId, Tree, WorkerName};

#[doc = include_str!("../README.md")]
pub mod readme {}
