//! Barriers on ZooKeeper: processes that wait for each other.
//!
//! A [`Barrier`] blocks the processes that wait for it until it is removed: a migration that has to finish before
//! services start, a switch that an operator sets. Members of a [`DoubleBarrier`] start together, and finish together: the
//! workers of a computation that goes in steps.
//!
//! Use them for few, coarse steps. To let one process at a time do something, use a lock; to hand out work, a queue.
//! A double barrier does not replace members that die, and a step is not repeated: record what was done elsewhere.
//!
//! ```no_run
//! # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
//! use std::num::NonZeroU32;
//! use zk_barrier::{Barrier, DoubleBarrier};
//! use zk_core::Session;
//!
//! const WORKERS: NonZeroU32 = NonZeroU32::new(8).unwrap();
//!
//! let session = Session::builder("zk1:2181,zk2:2181,zk3:2181").connect().await?;
//! Barrier::new(&session, "/app/migration")?.wait().await?;
//! let steps = DoubleBarrier::new(&session, "/app/steps", WORKERS)?;
//! for step in 0..10 {
//!     let member = steps.enter().await?;
//!     println!("all eight begin step {step}");
//!     member.leave().await?;
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Guarantees
//!
//! 1. [`Barrier::wait`] returns only if the barrier was not set at some moment during the call. A lagging server does not
//!    let a waiter through, and neither does a change of the barrier's data.
//! 2. Of concurrent calls of [`Barrier::set`] that create the node, exactly one returns true, also if replies are lost.
//! 3. Removing the barrier notifies each waiter once. While it waits, a waiter sends one request per session timeout,
//!    however often other nodes change, and leaves no watch behind.
//!
//! A double barrier in its own layout, [`Layout::Rounds`]:
//!
//! 4. A round is opened only if, at one moment, at least as many members were in it as the opener's threshold says.
//!    Each of them passes, unless its session is lost, another client deletes its node, or its caller drops the call.
//!    A member that timed out is not among them: [`EnterError::TimedOut`] and being counted exclude each other. One that
//!    returned [`EnterError::OutcomeUnknown`] or [`EnterError::Failed`] may be.
//! 5. [`DoubleBarrier::enter`] returns only if the round was opened with this member in it, or if at some moment during
//!    the call this member and the one that opened the round were both in it. A round whose members all died, or that was
//!    left over from a crash, lets no member in.
//! 6. [`Member::leave`] returns `Ok` only if no member of the round is left: each has left, or its session is over. Then
//!    the round is over, and no member enters it any more.
//! 7. Rounds on one path follow each other, with numbers that grow ([`Member::round`]). A member that enters again after
//!    [`Member::leave`] returned `Ok` enters a later round, and is never taken for one of the last; a slow member of the
//!    last one does not change the next. After [`LeaveError::TimedOut`] or a dropped [`Member`] the round may go on, and
//!    the same process may join it again.
//! 8. Members that die are not waited for. Any member may die at any moment, the one that opened the round included.
//! 9. A call that fails or is dropped removes the member's node, in the background if necessary. All waits are
//!    notifications; none polls.
//!
//! A model test runs the decision functions of this crate through every interleaving of small rounds, and shows that the
//! known flaws of other clients break these guarantees. Lost replies are tested on simulated ensembles.
//!
//! Not guaranteed: that all waiters have returned when a barrier is set again; that a barrier is removed when the
//! process that set it dies; that members are still alive when `enter` returns; that a member whose process was paused
//! for longer than its session timeout knows that it is not in the round any more, see [`Member`]. [`Layout::Recipe`]
//! guarantees less, as it says.
//!
//! # Cancel safety
//!
//! Every future can be dropped at any await. Unless its documentation says otherwise, nothing has happened then, and
//! watches are removed in the background.
//!
//! # Failure behaviour
//!
//! | event | [`Barrier`] | [`DoubleBarrier`] |
//! |---|---|---|
//! | a reply is lost | the outcome is found out | the outcome is found out |
//! | the connection breaks | a wait goes on, and ends if the barrier was removed meanwhile | waits go on, and end if the round was opened or ended meanwhile |
//! | the session is lost | calls return a fatal error; a barrier that is set stays set | calls return [`EnterError::SessionLost`] or [`LeaveError::SessionLost`]; to others the member has left; [`Member::lost`] |
//! | a call is dropped | a wait leaves nothing; a `set` or `remove` in flight may still take effect | the member leaves in the background |
//! | a server lags | a wait first lets it catch up | members of that server notice later; none passes or leaves early |
//! | the process stops | a barrier that is set stays set | when its session expires, the others go on without it |
//! | all members of a round stop | | the next member that comes ends the round and begins another |
//! | another client deletes a member's node | | when the round is opened, entering fails with [`EnterError::NodeDeleted`]; inside, [`Member::lost`] |
//! | another client writes to `state` | | each write opens the round, for the members that are in it then |
//! | 10,000 members | 10,000 watches on one node, 10,000 notifications at its removal, and no request after that | each member writes twice, reads six times and is notified twice in a round; the opener alone lists the members, about log₂(members) times. A name has 46 bytes: a list of more than some 20,000 members exceeds the servers' limit of 1 MiB |
//!
//! # Observing
//!
//! The crate has no metrics: a wait lasts as long as the other members take, so its time means something only to the
//! application, which measures it around the call. `zk_core` measures the requests with its feature `metrics`.
//!
//! # Layout
//!
//! ```text
//! /app/migration                  a barrier: persistent, exists while it is set
//! /app/steps                      a double barrier
//! └── round                       the current round; its version counts withdrawals, its czxid is the round's number
//!     ├── state                   version 0 until the round is opened; then 1, with the name of the opener
//!     ├── _c_<uuid>-member        a member: ephemeral, with its description
//!     └── _c_<uuid>-member
//! ```
//!
//! The node of the barrier is that of Curator's `DistributedBarrier` and of kazoo's `Barrier`, which do not read its data.
//! All three are tested together on one path. Our data is `<session id>-<random number>`, which identifies the call that
//! set the barrier.
//!
//! A member opens a round in one transaction, which checks that no member has withdrawn since it counted. The last
//! member to leave deletes the round and creates the next one in one transaction, which servers refuse while there is a
//! member. So the nodes of an idle double barrier stay. Use `round` for nothing else: a node of another client in it
//! counts as a member.
//!
//! With [`Layout::Recipe`] a double barrier has the nodes of ZooKeeper's recipe, which Curator's
//! `DistributedDoubleBarrier` and kazoo's `DoubleBarrier` use as well. Members of all three are tested together in one
//! round:
//!
//! ```text
//! /app/steps                      a double barrier: persistent, unless it exists
//! ├── ready                       persistent, exists while a round is open
//! ├── _c_<uuid>-member            a member of ours: ephemeral, with its description
//! └── <uuid>                      a member of Curator, or of kazoo: without dashes
//! ```
//!
//! The rights that a session needs, and what each node permits, are in `docs/security.md` of the repository.

mod barrier;
mod decision;
mod double_barrier;
mod error;
mod layout;
mod member;
#[cfg(test)]
mod model;
mod recipe;
mod rounds;
mod wait;

pub use barrier::Barrier;
pub use double_barrier::DoubleBarrier;
pub use error::{EnterError, LeaveError, MemberLoss};
pub use layout::Layout;
pub use member::Member;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
