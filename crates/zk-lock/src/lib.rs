//! Distributed locks on ZooKeeper whose guards know when they may no longer be relied on.
//!
//! A [`FairLock`] lets one of many processes at a time do something: run a nightly job, change a schema, own a shard.
//! It is granted in order of arrival. Its [`Guard`] notifies when the lock is lost, which can happen to any lock over a
//! network at any time.
//!
//! | type | what it does |
//! |---|---|
//! | [`FairLock`] | an exclusive lock, granted in order of arrival |
//! | [`CohortLock`] | a fair lock whose tasks of one process share a place in the queue and hand the lock over in memory |
//! | [`RwLock`] | a fair lock that readers share and a writer holds alone |
//! | [`ReentrantLock`] | a fair lock that its owner may acquire again |
//! | [`Semaphore`] | grants up to a limit of leases at a time, each a [`SemaphoreLease`] |
//! | [`MultiLock`] | acquires several locks of any kinds, all or none |
//! | [`RaceLock`] | a lock without a queue, for a handful of contenders that do not need an order |
//! | [`OneShotLease`] | a lease that is taken for a time and outlives its session; it depends on clocks |
//!
//! All locks have the same functions: those of the trait [`Lock`], which need not be imported to use them.
//! An [`RwLock`] has them on its two halves, [`reader`](RwLock::reader) and [`writer`](RwLock::writer).
//! A [`MultiLock`] has those that acquire, and `run`; it has no path, session or events of its own.
//! Their guards all dereference to [`HeldLock`].
//!
//! Do not use a distributed lock
//!
//! - to protect work in one process: a mutex is a thousand times faster;
//! - for what one conditional write does, such as [`set(…).version(…)`](zk_core::Set::version) or a
//!   [transaction](zk_core::Session::transaction): that needs no lock;
//! - as the only protection of data that two concurrent writers would corrupt; see
//!   [what a lock guarantees](guarantees).
//!
//! ```no_run
//! # async fn migrate(_: zk_lock::FencingToken) {}
//! # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
//! use zk_core::Session;
//! use zk_lock::FairLock;
//!
//! let session = Session::builder("zk1:2181,zk2:2181,zk3:2181").connect().await?;
//! let lock = FairLock::new(&session, "/locks/schema")?;
//!
//! let guard = lock.acquire().await?;
//! tokio::select! {
//!     () = migrate(guard.fencing_token()) => guard.release().await?,
//!     loss = guard.lost() => eprintln!("stopped: {loss}"),
//! }
//! // The same, shorter:
//! lock.run(|token| migrate(token)).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Guarantees
//!
//! 1. No two guards of one lock are [valid](HeldLock::is_valid) at the same moment, whatever servers, networks and
//!    processes do. This rests on the assumptions that [`SessionLease`](zk_core::SessionLease) lists, and on no other
//!    client deleting the nodes of holders or ending the sessions of others. A waiter whose node is deleted, or whose
//!    session is ended, is never granted the lock.
//! 2. The [fencing tokens](Guard::fencing_token) of successive holders increase, without any assumption about clocks.
//! 3. Contenders are granted the lock in the order in which the ensemble numbered them. A [`CohortLock`] is one
//!    contender with many tasks, which are granted the lock in the order in which they asked.
//! 4. A waiter wakes only when one of the two contenders ahead of it leaves. A release therefore wakes two waiters, and
//!    the first of them holds the lock at once. A waiter keeps its place while its connection is broken.
//! 5. A dropped future or guard leaves no node behind, even if the reply to a create was lost. The session deletes the
//!    node in the background. If there is a connection, the request leaves before any later request of the session.
//!    The end of the session deletes the node in any case.
//! 6. All futures are [cancel safe](#cancel-safety) at every await, except [`Semaphore::set_limit`] and those that take a
//!    [`OneShotLease`]. Futures that delete nodes of other clients document what they may leave half done.
//! 7. A reader of an [`RwLock`] waits only for the writers ahead of it; a writer waits for every contender ahead of it.
//!    No other writer holds the lock between the two halves of a [downgrade](WriteGuard::downgrade) or an
//!    [upgrade](ReadGuard::upgrade). Tokens increase from writer to writer, and to and from the readers between them; a
//!    downgraded writer keeps its own token.
//! 8. All guards of one owner of a [`ReentrantLock`] share one node and one token. The last guard releases both.
//! 9. At most as many leases of a [`Semaphore`] as its limit are valid at the same moment, under the assumptions of
//!    guarantee 1. Several leases, and the locks of a [`MultiLock`], are granted together or not at all.
//! 10. [`Guard::yield_now`] hands the lock over and joins the queue again in one transaction, which is committed at most
//!     once: the contender has one node, or none after an error.
//!
//! Not guaranteed: any order among the waiters of a [`RaceLock`], whose release wakes all of them; that a holder stops
//! when it loses the lock; fairness among callers of `try_acquire`; anything against a process
//! that deletes the nodes of others or uses the path for something else.
//!
//! # Conventions
//!
//! Unless a function states otherwise:
//!
//! - If the session ends, an acquire returns [`AcquireError::SessionLost`], also while it waits. A release returns
//!   [`ReleaseError::Lost`]. Every other operation returns an error of the class [`Fatal`](zk_core::ErrorClass::Fatal).
//! - A timed-out acquire gives up its place in the queue, and nothing is held. The session deletes the node in the
//!   background, as it does for a dropped [`Guard`].
//! - The cost of an acquire is in the documentation of the lock's type. `acquire_with_progress` costs as much, and `run`
//!   and `run_timeout` a release more than the acquire.
//! - A handle is cheap to create and to clone. Creating one sends no request.
//! - Threads without a runtime wait with `zk_core::blocking::block_on(lock.acquire())`, see the feature `blocking` of
//!   `zk_core`. Releases in the background run on the runtime of the session, so guards may be dropped on any thread,
//!   also by a panic.
//! - The node at the path of a lock, and its parents, are created on first use, as container nodes where the servers
//!   support them; in the layout of kazoo, whose locks need the path to stay, as persistent nodes. Use the path for
//!   nothing else.
//!
//! # Cancel safety
//!
//! Every future can be dropped at any await. Unless its documentation says otherwise:
//!
//! - one that acquires gives up its place in the queue, and nothing is held: of several locks, none. One that runs a
//!   body drops it, too;
//! - one that takes a guard by value drops it, which releases the lock in the background, also if it would change or
//!   yield it;
//! - one that reads or waits has done nothing, and no event is lost.
//!
//! # Failure behaviour
//!
//! | event | waiter | holder |
//! |---|---|---|
//! | the connection breaks | keeps waiting, in its place | not affected if the connection is back in time; otherwise [`LockLoss::SessionLeaseExpired`] |
//! | the session expires or is closed | [`AcquireError::SessionLost`] | [`LockLoss::SessionLost`]; on an expiry, [`LockLoss::SessionLeaseExpired`] comes before it |
//! | another client deletes the node | [`AcquireError::NodeDeleted`], at its next wake-up, or within a round trip if it is next in line | [`LockLoss::NodeDeleted`] within about a round trip |
//! | the reply to a request is lost | not affected | not affected; [`ReleaseError::Pending`] if the release cannot be finished in time |
//! | a server lags behind | waits longer, but never for its own node | not affected |
//! | the parent is deleted or reaped | the parent is created again | – |
//! | the counter of the parent is used up | [`AcquireError::SequenceExhausted`] | – |
//! | any of these during a [downgrade](WriteGuard::downgrade) or an [upgrade](ReadGuard::upgrade) | – | the same; an error that is not a loss returns the guard unchanged |
//! | any of these during a [yield](Guard::yield_now) | as a waiter, once the lock is handed over | [`YieldError::Lost`]; without a connection [`YieldError::GivenUp`] after the operation timeout |
//! | two readers upgrade, or a writer waits | keeps waiting | [`UpgradeError::Contended`] at once for the later one, which still reads |
//! | the process is stopped and resumes | resumes waiting | [`LockLoss::SessionLeaseExpired`]; [`FairLock::run`] drops its body before the body resumes |
//!
//! # Inspecting and revoking
//!
//! An [`Inspector`] shows who holds a lock and who waits for it, for locks of all kinds except a [`RaceLock`], whose
//! only node is its path, and for those of other clients (in a terminal: `zk locks PATH`). It can
//!
//! - [ask](Revoke) a contender to release the lock, with a reason and a deadline, and return its reply;
//! - [remove](Inspector::remove) exactly one contender's node, or [reap](Inspector::reap) nodes by age.
//!
//! `acquire_with_progress` reports who is ahead while it waits, and `events` what happens to the guards of a lock.
//! An [`RwLock`] has both on its halves; a [`MultiLock`] has no `events`.
//!
//! # Layout of the nodes
//!
//! ```text
//! /locks/schema                                                   container
//! ├── _c_0d8e3dcc-2f4a-4f0e-9c3f-3f0c7a1b9f11-lock-0000000007     ephemeral, holds the lock
//! ├── _c_9b0a2f1e-…-lock-0000000008                               waits for 7
//! └── _c_51c7d0aa-…-lock-0000000009                               waits for 8
//! ```
//!
//! A read/write lock:
//!
//! ```text
//! /locks/catalogue                                                container
//! ├── _c_0d8e3dcc-…-__READ__0000000003                            ephemeral, a downgraded writer, reads
//! ├── _c_9b0a2f1e-…-__READ__0000000004                            reads as well
//! ├── _c_51c7d0aa-…-__WRIT__0000000005                            waits for 3 and 4
//! └── _c_77d1c1f0-…-__READ__0000000006                            waits for 5
//! ```
//!
//! The data of a node identifies its owner, see [`OwnerInfo`]; requests to release the lock are lines below that.
//! The layouts are those of Apache Curator's `InterProcessMutex` and `InterProcessReadWriteLock`, and Curator and this
//! crate exclude each other on one path. [`Layout`] documents other clients.
//! A [`Semaphore`] has the layout of Curator's `InterProcessSemaphoreV2`, with its limit in the data of its path.
//! A [`RaceLock`] is one ephemeral node at its path.
//!
//! The rights that a session needs, and what each node permits, are in `docs/security.md` of the repository.
//!
//! # Features
//!
//! Off by default:
//!
//! - `metrics`: durations of waits and holdings for the facade `metrics`; `describe_metrics` lists them.

mod any_lock;
mod cohort;
mod conditional_delete;
mod contender;
mod error;
mod events;
mod fair;
mod fencing_token;
mod guard;
#[cfg(any(doc, doctest))]
#[doc = include_str!("../docs/lock-guarantees.md")]
pub mod guarantees {}
mod held;
mod held_node;
mod inspect;
mod labels;
mod layout;
mod limit_error;
mod lock;
mod measure;
#[cfg(feature = "metrics")]
mod metrics;
#[cfg(test)]
mod model;
mod multi;
mod node_monitor;
mod one_shot_lease;
mod options;
mod order;
mod owner;
mod pending_deletes;
mod progress;
mod queue;
mod race;
mod reap;
mod reentrant;
mod retry;
mod revoke;
mod rw;
mod semaphore;
mod waiter;

pub use any_lock::{AnyGuard, AnyLock};
pub use cohort::{CohortGuard, CohortLimits, CohortLock, CohortToken};
pub use conditional_delete::Removal;
pub use contender::Contender;
pub use error::{
    AcquireError, Ahead, LockLoss, ReleaseError, RunError, SequenceExhausted, TimedOut, YieldError,
};
pub use events::{LockEvent, LockEvents};
pub use fair::FairLock;
pub use fencing_token::FencingToken;
pub use guard::{Guard, LockGuard};
pub use held::HeldLock;
pub use inspect::{ContenderStatus, Inspector, LockSnapshot, Role};
pub use layout::Layout;
pub use limit_error::LimitError;
pub use lock::Lock;
#[cfg(feature = "metrics")]
pub use metrics::describe_metrics;
pub use multi::{MultiGuard, MultiLock, MultiLockError, MultiTxnError};
pub use one_shot_lease::{OneShotLease, OneShotLeaseOptions, TakeLeaseError};
pub use options::LockOptions;
pub use owner::OwnerInfo;
pub use progress::AcquireProgress;
pub use race::{RaceGuard, RaceLock};
pub use reap::{Reap, ReapError};
pub use reentrant::{ReentrantGuard, ReentrantLock};
pub use revoke::{Revocation, RevocationRequest, Revoke, RevokeError};
pub use rw::{
    DowngradeError, ReadGuard, ReadLock, RwLock, RwLockError, UpgradeError, WriteGuard, WriteLock,
};
pub use semaphore::{Semaphore, SemaphoreLease};
pub use waiter::Waiter;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
