//! Locks on ZooKeeper whose guards know when they may no longer be relied on.
//!
//! A [`FairLock`] lets one of many processes at a time do something: run a nightly job, change a schema, own a shard.
//! It is granted in the order of arrival, and its [`Guard`] tells when the lock is lost, which a lock over a network
//! can be at any time.
//! An [`RwLock`] is shared by readers and had alone by a writer, and a [`ReentrantLock`] is one that its owner may acquire
//! again; what holds for the [`FairLock`] below holds for them.
//!
//! A [`Semaphore`] lets so many at a time, each with a [`Lease`]; a [`MultiLock`] takes several locks, all or none;
//! a [`RaceLock`] has no queue, for a handful of contenders that do not mind the order.
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
//! Where many tasks of one process want the same lock, a [`CohortLock`] saves them the way to the ensemble: they hand
//! the lock over among themselves, for a bounded time when others wait.
//!
//! # Guarantees
//!
//! 1. No two guards of one lock are [trusted](Guard::is_trusted) at the same moment, whatever servers, networks and
//!    processes do, within the assumptions that [`Trusted`](zk_core::Trusted) lists, and as long as nobody deletes the
//!    nodes of holders or ends the sessions of others from outside. A waiter to which that happens is granted nothing.
//! 2. The [fencing tokens](Guard::fencing_token) of successive holders rise, without any assumption about clocks.
//! 3. Contenders are granted the lock in the order in which the ensemble numbered them. (A [`CohortLock`] is one
//!    contender of many tasks, which are granted it in the order in which they asked.)
//! 4. A waiter is woken when one of the two before it goes, and otherwise not: a release wakes two waiters, of which the
//!    first one holds the lock at once. It keeps its place while its connection is broken.
//! 5. Whenever a future or guard of this crate is dropped, nothing of it stays behind: the session removes the node in
//!    the background, with a request that leaves before any later one if there is a connection, also one whose creation was in doubt, and its end removes it for certain.
//! 6. The futures are cancel safe at every await, except [`Semaphore::set_limit`]; those that delete nodes of others
//!    say what they leave half done.
//! 7. A reader of an [`RwLock`] waits for the writers before it alone, a writer for everyone before it.
//!    Of a [writer that becomes a reader](WriteGuard::downgrade), and of a
//!    [reader that becomes a writer](ReadGuard::upgrade), it holds that no other writer had the lock in between.
//!    Tokens rise from writer to writer, and to and from the readers between them; a writer that becomes a reader keeps
//!    its own.
//! 8. All guards of an owner of a [`ReentrantLock`] are of one node with one token, which goes with the last of them.
//! 9. Of one semaphore no more leases than its limit are trusted at the same moment, under the assumptions of the first
//!    guarantee; several leases, and the locks of a [`MultiLock`], are granted together or not at all.
//!
//! Not guaranteed: any order among those who wait for a [`RaceLock`], whose release wakes all of them; that a holder is
//! stopped when it loses the lock; fairness among those who try with [`try_acquire`](FairLock::try_acquire); anything
//! against a process that deletes the nodes of others or uses the path for something else.
//!
//! # Failure behaviour
//!
//! | event | who waits | who holds |
//! |---|---|---|
//! | the connection breaks | keeps waiting, in its place | nothing, if it is back in time; otherwise [`Loss::TrustLapsed`] |
//! | the session expires or is closed | [`AcquireError::SessionLost`] | [`Loss::SessionLost`], having been warned by [`Loss::TrustLapsed`] unless it was closed |
//! | somebody deletes the node | [`AcquireError::NodeLost`], at its next wake-up, or within a round trip if it is the next in line | [`Loss::NodeDeleted`] within about a round trip |
//! | the reply to a request is lost | nothing | nothing; [`ReleaseError::Pending`] if the release cannot be finished in time |
//! | a server lags behind | waits longer, never for itself | nothing |
//! | the parent is deleted or reaped | the parent is made anew | – |
//! | the counter of the parent is used up | [`AcquireError::SequenceExhausted`] | – |
//! | any of these during a [downgrade](WriteGuard::downgrade) or an [upgrade](ReadGuard::upgrade) | – | the same; with an error that is no loss the guard is given back, as it was |
//! | two readers want to write, or a writer waits | keeps waiting | [`UpgradeError::Contended`] at once for the one that came later, which still reads |
//! | the process is stopped and goes on | goes on | [`Loss::TrustLapsed`]; [`FairLock::run`] drops its body before it goes on |
//!
//! # From outside
//!
//! An [`Inspector`] shows who holds a lock and who waits for it, of any kind and of other clients, too
//! (in a terminal: `zk locks PATH`). It can
//!
//! - [ask](Revoke) a contender to give up, with a reason and a deadline, and be answered;
//! - [remove](Inspector::remove) exactly one contender's node, or [reap](Inspector::reap) by age.
//!
//! Who is ahead can be [told](FairLock::acquire_telling) while one waits, and what becomes of the guards of a lock to
//! whoever [listens](FairLock::events).
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
//! Those of a read/write lock:
//!
//! ```text
//! /locks/catalogue                                                container
//! ├── _c_0d8e3dcc-…-__READ__0000000003                            ephemeral, was a writer and reads now
//! ├── _c_9b0a2f1e-…-__READ__0000000004                            reads, too
//! ├── _c_51c7d0aa-…-__WRIT__0000000005                            waits for 3 and 4
//! └── _c_77d1c1f0-…-__READ__0000000006                            waits for 5
//! ```
//!
//! The data of a node says who its owner is, see [`OwnerInfo`]; requests to give up the lock are lines below that.
//! The layouts are those of Apache Curator's `InterProcessMutex` and `InterProcessReadWriteLock`, and they and ours
//! exclude each other on one path;
//! [`Layout`] says how it is with other clients.
//! A [`Semaphore`] has the layout of Curator's `InterProcessSemaphoreV2` and its limit in the data of its path, and a
//! [`RaceLock`] is one ephemeral node at its path.
//!
//! # Features
//!
//! None.

mod cohort;
mod conditional_delete;
mod contender;
mod error;
mod events;
mod fair;
mod guard;
#[cfg(any(doc, doctest))]
#[doc = include_str!("../docs/lock-guarantees.md")]
pub mod guarantees {}
mod guard_set;
mod inspect;
mod layout;
#[cfg(test)]
mod model;
mod multi;
mod node_monitor;
mod options;
mod order;
mod owner;
mod queue;
mod race;
mod reap;
mod reentrant;
mod retry;
mod revoke;
mod rw;
mod semaphore;
mod waiter;

pub use cohort::CohortGuard;
pub use cohort::CohortLimits;
pub use cohort::CohortLock;
pub use cohort::CohortToken;
pub use conditional_delete::Removal;
pub use contender::Contender;
pub use error::AcquireError;
pub use error::Ahead;
pub use error::Loss;
pub use error::ReleaseError;
pub use error::RunError;
pub use error::SequenceExhausted;
pub use error::TimedOut;
pub use events::LockEvent;
pub use events::LockEvents;
pub use fair::FairLock;
pub use guard::FencingToken;
pub use guard::Guard;
pub use guard_set::ReleaseErrors;
pub use inspect::Inspector;
pub use inspect::Picture;
pub use inspect::Role;
pub use inspect::Standing;
pub use layout::Layout;
pub use multi::MultiAcquireError;
pub use multi::MultiGuard;
pub use multi::MultiLock;
pub use multi::MultiLockError;
pub use multi::SeveralSessions;
pub use options::LockOptions;
pub use owner::OwnerInfo;
pub use race::RaceGuard;
pub use race::RaceLock;
pub use reap::Reap;
pub use reap::ReapError;
pub use reentrant::ReentrantGuard;
pub use reentrant::ReentrantLock;
pub use revoke::Revocation;
pub use revoke::RevocationRequest;
pub use revoke::Revoke;
pub use revoke::RevokeError;
pub use rw::DowngradeError;
pub use rw::MakeError;
pub use rw::ReadGuard;
pub use rw::RwLock;
pub use rw::UpgradeError;
pub use rw::WriteGuard;
pub use semaphore::AcquireLeaseError;
pub use semaphore::BadLimit;
pub use semaphore::Lease;
pub use semaphore::LeaseTimedOut;
pub use semaphore::Semaphore;
pub use waiter::Waiter;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
