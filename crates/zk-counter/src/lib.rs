//! A number and a value in a node that many processes change: an atomic counter, a shared count and a shared value.
//!
//! | | [`AtomicCounter`] | [`SharedCount`] | [`SharedValue`] |
//! |---|---|---|---|
//! | what it is | a number of 64 bits that processes add to | a number of 32 bits that processes follow | bytes that processes follow |
//! | a read | two round trips, as new as the leader | from memory | from memory |
//! | a change | add, set, compare and set | set, or set if it was not overwritten | the same, or what a function makes of it |
//! | shares its node with | Curator's `DistributedAtomicLong` and `DistributedAtomicInteger`, kazoo's `Counter` | Curator's `SharedCount`; [`Format::Integer`] | Curator's `SharedValue` and `DistributedAtomicValue` |
//!
//! Every change goes through the leader and its quorum. Do not use them to count what happens thousands of times a second in
//! many processes: add up in each process, and add the sums. For ids, the blocks of `zk-id` need a write for a thousand of
//! them. What only one process at a time may do needs a lock, of `zk-lock`.
//!
//! ```no_run
//! # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
//! use zk_core::{RetryPolicy, Session};
//! use zk_counter::{AtomicCounter, CounterOptions, SharedCount};
//!
//! let sessions = Session::builder("zk1:2181,zk2:2181,zk3:2181").sessions(RetryPolicy::default());
//! let orders = AtomicCounter::new(&sessions, "/app/orders", &CounterOptions::default())?;
//! println!("order {}", orders.increment().await?);
//!
//! let parallelism = SharedCount::start(&sessions, "/app/parallelism", 4)?;
//! let now = parallelism.synchronized().await?;
//! parallelism.try_set(&now, now.value + 1).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Guarantees
//!
//! 1. A change is applied at most once, and one that was reported as done exactly once, whatever requests and replies are
//!    lost and whichever servers die. Its outcome is known while its session lives, or until the time limit.
//! 2. A change is applied to the value that it was decided on: no other write comes in between, be it one that wrote the
//!    same, nor a node that was deleted and created again with the same version.
//! 3. A number never wraps around. A result that does not fit is refused, and changes nothing.
//! 4. A call that returns with an error whose outcome is not unknown has changed nothing, and will not; but it may have
//!    created a missing node, with the initial number or value.
//! 5. A read of an [`AtomicCounter`] is not older than any change that was acknowledged before it began, as far as a `sync`
//!    guarantees.
//! 6. A consumer of a shared value sees values in the order of the writes, and the newest one in the end.
//!    [`is_synchronized`](SharedValue::is_synchronized) says whether changes may be missing for now.
//!
//! Not guaranteed: fairness between processes; that a consumer sees every value; anything if another client deletes the
//! ephemeral node of a change in doubt: then its outcome is unknown. Other clients of the same node, Curator's and kazoo's,
//! keep their own faults: after a lost reply they may add twice.
//!
//! # Cancel safety
//!
//! Every future can be dropped at any await, and leaves no ephemeral node that outlives its handle. A read or a wait has
//! done nothing, and no change is lost. A change that is part of a write in flight may be applied; otherwise it is
//! withdrawn.
//!
//! # Failure behaviour
//!
//! | event | counter | shared value and count |
//! |---|---|---|
//! | the connection breaks, a request or a reply is lost | nothing; the call takes longer | the same; not synchronised until it has caught up |
//! | the session is lost with a write in flight | [`CounterError::Failed`], of unknown outcome | the same |
//! | the session is lost otherwise | calls wait for the next one of [`Sessions`](zk_core::Sessions); with one session, [`CounterError::Ended`] | the same; the value in memory stays as it was |
//! | no connection until the time limit | [`CounterError::TimedOut`]: nothing was changed. With a write in flight [`CounterError::OutcomeUnknown`] | [`CounterError::TimedOut`] without a session, otherwise [`CounterError::Failed`], which says whether the outcome is unknown |
//! | the future is dropped | withdrawn, unless a write in flight has it; no later attempt has it | a write in flight may be applied |
//! | a server lags | its first attempt may be in vain; the next ones read behind a `sync` | the value in memory is as old as the server |
//! | the process is stopped, and goes on | as if the connection was broken | the same |
//! | the process dies | what was in flight is applied or not; its ephemeral node goes with the session | the same |
//! | many processes write at once | each write succeeds for one of them; the others pause for a random time, of up to a second, and try again with all calls that have arrived | the same, each call by itself |
//! | the node is deleted | begins again with the [initial](CounterOptions::with_initial) number | `None` until the next write |
//! | the node has other data | [`CounterError::NotACounter`] | a count: [`CounterError::NotACounter`] |
//!
//! # Layout of the nodes
//!
//! ```text
//! /app/orders               8 bytes, big-endian; or 4 bytes, or digits
//! └── _c_<uuid>-token       ephemeral, no data: one for each process that has written
//! /app/parallelism          4 bytes, big-endian
//! ```
//!
//! The node and its parents are persistent.
//! Curator's and kazoo's recipes ignore the children; to delete the node, its children have to be deleted first.
//! They are tested together on one path, with Curator 5.4 and kazoo 2.8.
//!
//! The rights that a session needs, and what each node permits, are in `docs/security.md` of the repository.
//!
//! # No lock
//!
//! Curator's counter gives up after so many conflicts, or, if it was made with a `PromotedToLock`, goes on under a lock.
//! Here no lock is needed: a process has one write in flight for all its callers, so that a conflict costs it a delay and
//! not throughput, and the pauses between attempts are random and grow.
//! A lock would cost two more writes for each change, and not keep out other clients of the node.
//!
//! # Observing
//!
//! The operations have the spans of [`zk_core`]. A warning is logged if the node of a shared value cannot be created.
//!
//! The crate has no metrics: a change is the operation `update` of the session, which `zk_core` measures with its
//! feature `metrics`, retries included, and what the value means only the application knows.

mod batch;
mod call_queue;
mod counter;
mod counter_task;
mod decision;
mod error;
mod format;
mod shared_count;
mod shared_value;
mod value_writer;

pub use counter::{AtomicCounter, CompareAndSetOutcome, CounterOptions};
pub use error::CounterError;
pub use format::Format;
pub use shared_count::{CountChanges, SharedCount};
pub use shared_value::{SharedValue, TrySetOutcome, ValueChanges, Versioned};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
