//! Leader election on ZooKeeper in which no participant silently drops out.
//!
//! One of many processes leads: it runs the scheduler, writes the index, or serves a shard.
//! If it dies, is cut off or resigns, the next participant takes over.
//! A [`Selector`] runs a task while it leads, and drops the task as soon as it no longer leads. A [`LeaderLatch`] only
//! reports whether its participant leads.
//!
//! Do not use an election to run something once, where a [lock](zk_lock::FairLock) is enough; to choose the primary of
//! replicated data, which the replication itself must decide; or as the only protection of data that two writers at a
//! time would damage, see [what a lock guarantees](zk_lock#guarantees).
//!
//! ```no_run
//! # async fn schedule(_: zk_leader::LeaderLease) -> std::convert::Infallible { std::future::pending().await }
//! # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
//! use std::ops::ControlFlow;
//! use zk_core::{RetryPolicy, Session};
//! use zk_leader::Selector;
//!
//! Session::builder("zk1:2181,zk2:2181,zk3:2181")
//!     .supervise(RetryPolicy::default(), async |session| {
//!         let selector = Selector::new(&session, "/leaders/scheduler").expect("a good path");
//!         selector
//!             .run(async |lease| {
//!                 schedule(lease).await;
//!                 ControlFlow::Break(())
//!             })
//!             .await
//!     })
//!     .await?;
//! # Ok(())
//! # }
//! ```
//!
//! # One session, one participant
//!
//! A participant belongs to one session and ends with it: [`ParticipantEnd::SessionLost`].
//! [`SessionBuilder::supervise`](zk_core::SessionBuilder::supervise), as above, opens the next session and runs the
//! same function again. [`Sessions::keep`](zk_core::Sessions::keep) does it for a latch, see [`LatchParticipant`].
//! While the session lives, a participant that loses its leadership or its node joins again by itself, unless
//! [`Rejoin::Never`] is set.
//!
//! # Guarantees
//!
//! 1. No two participants of one election are [valid](LeaderLease::is_valid) leaders at the same moment, whatever
//!    servers, networks and processes do, under the assumptions of [`SessionLease`](zk_core::SessionLease), and as long
//!    as no client deletes the nodes of others.
//! 2. The [fencing tokens](LeaderLease::fencing_token) of successive leaders rise, without any assumption about clocks,
//!    also if the same participant leads again.
//! 3. A participant is [joining, waiting, leading or ended](ParticipantState), and its handles report which.
//!    It never waits without a node: if its node is deleted, it is notified within about a round trip.
//! 4. The task of a selector has its [lease](LeaderLease) from the beginning. The task is dropped, at one of its
//!    awaits, before its node is deleted; if it is cut off, before the ensemble lets the next participant lead.
//! 5. A leader that [resigns](ParticipantHandle::resign) leads until its task has ended. Only then its node is deleted.
//! 6. Participants lead in the order in which the ensemble numbered them, and the end of a leadership wakes one of
//!    them.
//! 7. Each attempt to lead has its own node, and ends before the next attempt begins: a late reply to an earlier
//!    attempt does not affect the current one.
//! 8. A dropped future or handle leaves nothing behind, except a [`Breadcrumb`]. The session deletes the node in the
//!    background, even if the reply to its creation was lost, and the end of the session deletes it for certain.
//!
//! Not guaranteed: that code which does not await, or tasks that the task spawned, stop with the leadership; that there
//! is a leader at every moment, since after a death the ensemble waits for the session timeout; protection against a
//! process that deletes the nodes of others or uses the path for something else.
//!
//! There are no priorities.
//! The ensemble numbers participants in the order of their arrival, and each waits for its predecessor. To let a
//! participant overtake others, either those must watch it too, so that every change wakes every participant, or the
//! leader must resign for it repeatedly, and a participant with a lower priority may wait for ever.
//! To make a certain process lead, let the others [resign](ParticipantHandle::resign) when they lead, and see in the
//! [participants](LeaderLatch::participants) which one is next.
//!
//! # Cancel safety
//!
//! Every future can be dropped at any await. Unless its documentation says otherwise:
//!
//! - one that runs a task drops it, and the participant leaves; its node is deleted in the background;
//! - a request to resign or to leave stays in force;
//! - any other has done nothing: a participant stays in the queue, and no state is lost.
//!
//! # Failure behaviour
//!
//! Unless stated otherwise, a call fails with an error of the [class](zk_core::ErrorClass) *fatal* once the session is
//! lost, and methods that wait for a participant return [`ParticipantEnd::SessionLost`].
//!
//! | event | waiter | leader |
//! |---|---|---|
//! | the connection breaks | keeps its place and waits | no effect if it is back in time; otherwise [`LeadershipLoss::SessionLeaseExpired`], and it joins again |
//! | the session expires or is closed | [`ParticipantEnd::SessionLost`] | [`LeadershipLoss::SessionLost`], after [`LeadershipLoss::SessionLeaseExpired`] unless it was closed; then [`ParticipantEnd::SessionLost`] |
//! | another client deletes the node | joins again, at the end of the queue | [`LeadershipLoss::NodeDeleted`] within about a round trip; joins again, at the end of the queue |
//! | another client deletes the path | the path is created again, and all join again | [`LeadershipLoss::NodeDeleted`], and the same |
//! | there is no connection at the start | [`ParticipantState::Joining`] with the error, until there is one | – |
//! | the path is not writable, or its counter is used up | [`ParticipantEnd::Refused`] | – |
//! | the process is paused and resumes | continues | the task is dropped before it continues |
//! | the handle or the future is dropped | [`ParticipantEnd::Left`] | [`LeadershipLoss::Resigned`], [`ParticipantEnd::Left`] |
//!
//! # Layout of the nodes
//!
//! ```text
//! /leaders/scheduler                                               container
//! ├── _c_0d8e3dcc-2f4a-4f0e-9c3f-3f0c7a1b9f11-lock-0000000007      ephemeral, leads
//! └── _c_9b0a2f1e-…-lock-0000000008                                waits for 7
//! ```
//!
//! The data of a node is the id of the participant in UTF-8. Metadata follows after a line break, if there is any, see
//! [`ElectionOptions`].
//! This is the layout of a selector, and of Apache Curator's `LeaderSelector`. A latch has `-latch-` in its names, as
//! Curator's `LeaderLatch` has.
//! Participants of this crate and of Curator on one path elect one leader among them, and list each other.
//! A latch and a selector are two elections, even on one path.
//!
//! The rights that a session needs, and what each node permits, are in `docs/security.md` of the repository.
//!
//! # Asking the leader to step down
//!
//! Any process may [ask](LeaderLatch::request_step_down) the present leader to resign, for example before its host is
//! restarted. A leader receives such requests if its [options](ElectionOptions::with_step_down) say so: then it has an
//! *inbox* beside the election, which is the node of a reader of a read/write lock.
//!
//! ```text
//! /leaders/scheduler-step-down                                     container
//! └── _c_51c7d0aa-…-__READ__0000000003                             ephemeral, the inbox of the leader
//! ```
//!
//! The label in its data is the fencing token of the leader, so that the inbox of a former one is ignored. Requests are
//! the [revocations](zk_lock::Revoke) of the lock. The nodes of the election itself are not affected.
//!
//! # Fencing the old active of a fail-over pair
//!
//! Where the resource cannot compare [fencing tokens](LeaderLease::fencing_token), the next leader has to stop the
//! former one before it acts itself. A [`Breadcrumb`] is the record of whom, as in Hadoop's `ActiveStandbyElector`.
//!
//! # Features
//!
//! Off by default:
//!
//! - `metrics`: durations of leaderships and states of participants for the facade `metrics`; `describe_metrics` lists
//!   them.

mod breadcrumb;
mod election;
mod error;
mod latch;
mod leadership;
mod lease;
#[cfg(feature = "metrics")]
mod metrics;
mod options;
mod participant;
mod selector;
mod state;
mod step_down;

pub use breadcrumb::{Breadcrumb, TakeOverError};
pub use error::{LeadershipLoss, ParticipantEnd, ResignError};
pub use latch::{LatchParticipant, LeaderLatch};
pub use lease::LeaderLease;
#[cfg(feature = "metrics")]
pub use metrics::describe_metrics;
pub use options::{ElectionOptions, Rejoin};
pub use participant::Participant;
pub use selector::Selector;
pub use state::{ParticipantHandle, ParticipantState, StateChanges};
pub use step_down::{RequestStepDown, StepDown, StepDownError, StepDownPolicy, StepDownRequest};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
