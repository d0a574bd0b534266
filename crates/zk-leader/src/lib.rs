//! Leader election on ZooKeeper in which nobody is silently out of the race.
//!
//! Of many processes one leads: it runs the scheduler, writes the index, answers for a shard.
//! When it dies, is cut off or steps down, the next one in line takes over.
//! A [`Selector`] runs a task while it leads and drops it as soon as it no longer does; a [`LeaderLatch`] only tells
//! whether one leads.
//!
//! Do not use it to run something once, where a [lock](zk_lock::FairLock) is enough;
//! nor to choose a primary whose data must not be lost, which the data's own replication has to decide;
//! nor as the only protection of data that must never be damaged by two writers at a time, see
//! [what a lock guarantees](zk_lock#guarantees).
//!
//! ```no_run
//! # async fn schedule(_: zk_leader::Lease) -> std::convert::Infallible { std::future::pending().await }
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
//! A participant belongs to one session and ends with it, visibly: [`End::SessionLost`].
//! [`SessionBuilder::supervise`](zk_core::SessionBuilder::supervise), as above, opens the next session and runs the same
//! again.
//! While the session lives, a participant whose leadership or place is lost gets in line again by itself, unless it is
//! told [otherwise](Rejoin).
//!
//! # Guarantees
//!
//! 1. No two participants of one election are [trusted](Lease::is_trusted) leaders at the same moment, whatever servers,
//!    networks and processes do, within the assumptions that [`Trusted`](zk_core::Trusted) lists, and as long as nobody
//!    deletes the nodes of others.
//! 2. The [fencing tokens](Lease::fencing_token) of successive leaders rise, without any assumption about clocks, also
//!    when the same participant leads again.
//! 3. A participant is [joining, waiting, leading or at its end](State), and whoever looks is told which.
//!    It is never waiting without a node in line: one whose node is deleted is told within about a round trip.
//! 4. The task of a selector has its [lease](Lease) from the beginning, and is dropped, at one of its awaits, before its
//!    node is given up; when it is cut off, before the ensemble lets the next one lead.
//! 5. A leader that [resigns](Handle::resign) leads until its task has ended; only then its node goes.
//! 6. Participants lead in the order in which the ensemble numbered them, and a leader that goes wakes one of them.
//! 7. An attempt to lead has a node of its own, and is gone before the next one begins: no late answer to an earlier one
//!    is taken for one to the present.
//! 8. Whatever is dropped, wherever, leaves nothing behind: the session removes the node in the background, also one whose
//!    creation was in doubt, and its end removes it for certain.
//!
//! Not guaranteed: that code which does not await, or what a task has spawned, stops with the leadership; that somebody
//! leads at every moment, since after a death the ensemble waits for the session timeout; anything against a process that
//! deletes the nodes of others or uses the path for something else.
//!
//! There are no priorities.
//! The ensemble numbers participants as they come, and each waits for one other; to let one pass others, those must
//! watch it, too, so that everybody is woken by everything, or the leader must give up for its sake again and again, and
//! whoever has less priority may wait for ever.
//! Who wants a certain process to lead lets the others [resign](Handle::resign) when they lead, and see in the
//! [participants](LeaderLatch::participants) who is next.
//!
//! # Failure behaviour
//!
//! | event | who waits | who leads |
//! |---|---|---|
//! | the connection breaks | keeps waiting, in its place | nothing, if it is back in time; otherwise [`Loss::TrustLapsed`], and it gets in line again |
//! | the session expires or is closed | [`End::SessionLost`] | [`Loss::SessionLost`], having been warned by [`Loss::TrustLapsed`] unless it was closed; then [`End::SessionLost`] |
//! | somebody deletes the node | gets in line again, at the end | [`Loss::NodeDeleted`] within about a round trip; gets in line again, at the end |
//! | somebody deletes the path | it is made anew, and all get in line again | [`Loss::NodeDeleted`], and the same |
//! | there is no connection at the start | [`State::Joining`] with the error, until there is one | – |
//! | the path may not be written, or its counter is used up | [`End::Refused`] | – |
//! | the process is stopped and goes on | goes on | the task is dropped before it goes on |
//! | the handle or the future is dropped | [`End::Left`] | [`Loss::Resigned`], [`End::Left`] |
//!
//! # Layout of the nodes
//!
//! ```text
//! /leaders/scheduler                                               container
//! ├── _c_0d8e3dcc-2f4a-4f0e-9c3f-3f0c7a1b9f11-lock-0000000007      ephemeral, leads
//! └── _c_9b0a2f1e-…-lock-0000000008                                waits for 7
//! ```
//!
//! The data is the id of the participant in UTF-8, followed by its metadata after a line break if it has any, see
//! [`ElectionOptions`].
//! The selector's layout, which is this one, is that of Apache Curator's `LeaderSelector`; the latch has `-latch-` in its
//! names, as Curator's `LeaderLatch`.
//! Ours and Curator's elect one leader among them on one path, and list each other.
//! A latch and a selector do not: they are two elections, even on one path.
//!
//! # Features
//!
//! None.

mod election;
mod error;
mod latch;
mod lease;
mod options;
mod participant;
mod selector;
mod state;

pub use error::End;
pub use error::Loss;
pub use error::ResignError;
pub use latch::Candidacy;
pub use latch::LeaderLatch;
pub use lease::Lease;
pub use options::ElectionOptions;
pub use options::Rejoin;
pub use participant::Participant;
pub use selector::Selector;
pub use state::Changes;
pub use state::Handle;
pub use state::State;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
