//! Locks on ZooKeeper whose guards know when they may no longer be relied on.
//!
//! A [`FairLock`] lets one of many processes at a time do something: run a nightly job, change a schema, own a shard.
//! It is granted in the order of arrival, and its [`Guard`] tells when the lock is lost, which a lock over a network
//! can be at any time.
//!
//! Do not use it to protect work in one process, where a mutex does it a thousand times faster;
//! nor for what a single conditional write does, such as [`set(…).version(…)`](zk_core::Set::version) or a
//! [transaction](zk_core::Session::transaction): then no lock is needed at all;
//! nor as the only protection of data that must never be damaged by two writers at a time, see
//! [what a lock guarantees](guarantees).
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
//! 1. No two guards of one lock are [trusted](Guard::is_trusted) at the same moment, whatever servers, networks and
//!    processes do, within the assumptions that [`Trusted`](zk_core::Trusted) lists, and as long as nobody deletes the
//!    nodes of others.
//! 2. The [fencing tokens](Guard::fencing_token) of successive holders rise, without any assumption about clocks.
//! 3. Contenders are granted the lock in the order in which the ensemble numbered them.
//! 4. A waiter is woken when the one before it goes, and otherwise not: a release wakes one waiter.
//!    It keeps its place while its connection is broken.
//! 5. Whenever a future or guard of this crate is dropped, nothing of it stays behind: the session removes the node in
//!    the background, also one whose creation was in doubt, and its end removes it for certain.
//! 6. The futures are cancel safe at every await.
//!
//! Not guaranteed: that a holder is stopped when it loses the lock; fairness among those who try with
//! [`try_acquire`](FairLock::try_acquire); anything against a process that deletes the nodes of others or uses the path
//! for something else.
//!
//! # Failure behaviour
//!
//! | event | who waits | who holds |
//! |---|---|---|
//! | the connection breaks | keeps waiting, in its place | nothing, if it is back in time; otherwise [`Loss::TrustLapsed`] |
//! | the session expires or is closed | [`AcquireError::SessionLost`] | [`Loss::SessionLost`], having been warned by [`Loss::TrustLapsed`] unless it was closed |
//! | somebody deletes the node | [`AcquireError::NodeLost`], when it would have been its turn | [`Loss::NodeDeleted`] within about a round trip |
//! | the reply to a request is lost | nothing | nothing; [`ReleaseError::Pending`] if the release cannot be finished in time |
//! | a server lags behind | waits longer, never for itself | nothing |
//! | the parent is deleted or reaped | the parent is made anew | – |
//! | the counter of the parent is used up | [`AcquireError::SequenceExhausted`] | – |
//! | the process is stopped and goes on | goes on | [`Loss::TrustLapsed`]; [`FairLock::run`] drops its body before it goes on |
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
//! The data of a node says who its owner is, see [`LockOptions::with_owner`].
//! The layout is that of Apache Curator's `InterProcessMutex`, and the two exclude each other on one path;
//! [`Layout`] says how it is with other clients.
//!
//! # Features
//!
//! None.

mod contender;
mod error;
mod fair;
mod guard;
#[cfg(any(doc, doctest))]
#[doc = include_str!("../docs/lock-guarantees.md")]
pub mod guarantees {}
mod keeper;
mod layout;
mod options;
mod order;
mod queue;

pub use contender::Contender;
pub use error::AcquireError;
pub use error::Ahead;
pub use error::Loss;
pub use error::ReleaseError;
pub use error::RunError;
pub use error::SequenceExhausted;
pub use error::TimedOut;
pub use fair::FairLock;
pub use guard::FencingToken;
pub use guard::Guard;
pub use layout::Layout;
pub use options::LockOptions;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
