//! ZooKeeper sessions, typed errors and operations: what every recipe stands on.
//!
//! A [`Session`] is one ZooKeeper session: built from a [`SessionBuilder`], returned connected, cheap to clone and
//! never silently replaced by another one.
//! Its operations are builders that end in `.await`, each under one deadline.
//! Use a recipe crate instead when one does the job; use this crate for the plain operations under them.
//!
//! ```no_run
//! # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
//! use zk_core::Session;
//!
//! let session = Session::builder("127.0.0.1:2181").connect().await?;
//! let (path, _) = session.create("/app/config", "first").parents().await?;
//! session.set(&path, "second").version(0).await?;
//! let (data, stat) = session.get(&path).await?;
//! assert_eq!((data.as_slice(), stat.version), (b"second".as_slice(), 1));
//! session.close().await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Guarantees
//!
//! 1. A write is never blindly repeated.
//!    When its answer is lost the nodes are read, once the server has caught up: it is made again only if they show that
//!    it was not applied; otherwise the outcome is unknown ([`ErrorKind::OutcomeUnknown`]).
//!    So no repetition of a [`Set`], [`SetAcl`], [`Delete`] or [`Transaction`] undoes what another client has written
//!    since, with or without a version.
//!    Two repeat without that look: a [`Create`], whose second answer tells what became of the first, and which may bring
//!    back a node that another client has deleted in between; and a [recursive](Delete::recursive) delete, which takes
//!    what appears meanwhile with it.
//! 2. A read is repeated after a connection loss, as the [`RetryPolicy`] says, until the deadline of the call.
//! 3. Every call has one deadline, retries and parents included.
//!    A call that could not be sent by then says so, and is not sent later.
//! 4. A lost session stays lost, and whoever is told so finds it lost: every later operation answers a fatal error,
//!    every watch fires, [`Session::lost`] resolves and says [why](SessionEnd).
//!    [`SessionBuilder::supervise`] opens the next one for an application that wants it.
//! 5. A node made with [`protected`](Create::protected) is made once, whatever is lost on the way, unless another
//!    client deletes it while its answer is still unknown: then it may be made again.
//!    One made with [`owned`](Create::owned) goes with its handle. A call of either that is dropped, wherever, leaves
//!    nothing.
//! 6. A transaction makes all its changes or none, and an error names the part that was refused.
//!    One with a marker ([`Transaction::commit_marked`]) knows whether it was made although its answer was lost.
//! 7. A [`Watch`] fires once, on the first change after its read, whichever server the session is connected to then.
//! 8. A [`Subscription`] says when to read again what it is about, and misses nothing after that: it is armed before it
//!    says so, again after each break, and what it keeps for a slow consumer is bounded.
//!    No consumer holds up the session or another consumer.
//! 9. What waits for a node ([`wait_for_creation`](Session::wait_for_creation),
//!    [`wait_for_deletion`](Session::wait_for_deletion), [`NodeTracker`]) misses nothing between its look and its watch.
//! 10. While [`Trusted::is_trusted`] says so, the ensemble has not given what the session holds to anybody else; what
//!     that rests on is listed there.
//!
//! # Failure behaviour
//!
//! | event | what the caller sees |
//! |---|---|
//! | the connection breaks during a read | nothing; the read is repeated |
//! | the connection breaks during a write, and no other client writes | mostly nothing; the write is repeated or found to be done; each operation says when it cannot be |
//! | the connection breaks during a write, and nothing tells whether it was applied | [`ErrorKind::OutcomeUnknown`] |
//! | the connection breaks under a subscription | [`Update::Stale`], then [`Update::Resynchronize`] on the next server |
//! | a consumer takes less than is told | [`Update::Resynchronize`] in the place of what does not fit |
//! | no server can be reached | [`ConnectionState::Suspended`]; [`ErrorKind::NotConnected`] at the deadline |
//! | the server is reached but does not answer | [`ErrorKind::TimedOut`], for a write [`ErrorKind::OutcomeUnknown`] |
//! | the session expires | [`ErrorKind::SessionExpired`], for ever; [`ConnectionState::Lost`] with the [reason](SessionEnd), [`WatchEvent::SessionLost`], [`Update::SessionLost`] |
//! | the server is cut off from the quorum | not connected to, unless [`SessionBuilder::allow_read_only`]; then [`ErrorKind::ReadOnlyServer`] for writes |
//! | the request is larger than servers read | [`ErrorKind::TooLarge`], nothing is sent |
//! | too much is under watch | [`ErrorKind::TooManyWatches`], nothing is sent |
//! | the future of a call is dropped | see `Cancel safety` of each; what was sent cannot be called back |
//!
//! # Nodes
//!
//! The name of a protected or owned node begins with `_c_<uuid>-`, which is the form of Curator's protection; the marker
//! of a transaction is named `_c_<uuid>-marker`, and goes soon after.
//! Nothing else is written that was not asked for.
//!
//! # Values as types
//!
//! A [`codec`] writes and reads values instead of bytes: [`Raw`](codec::Raw) and [`Text`](codec::Text) always, JSON, TOML
//! and gzip by the features `json`, `toml` and `gzip`, which are off by default.
//!
//! # Observing
//!
//! Each operation has a `tracing` span `zk.operation` with its `operation`, `path`, `attempts` and `outcome`;
//! [`Session::counters`] counts calls, retries, connection losses and watches.
//! Data and credentials are in no span, log, error or debug output.
//!
//! # What it does not do
//!
//! A subscription does not tell what data a node has, nor what happened while it was [stale](Update::Stale): servers keep no
//! record of that (ZOOKEEPER-4698). It is for its consumer to read, and to compare by `czxid` and `mzxid`.
//! On servers before 3.6, which have no persistent watches, a subscription takes two one-shot watches for each node; a
//! large tree does not fit into what a session can have.
//! Everything needs a Tokio runtime with its time and I/O drivers enabled, and a session stays on the runtime that
//! connected it; handles may be dropped anywhere.

mod acl;
mod call;
pub mod codec;
mod connect_string;
mod counters;
mod deadline;
mod engine;
mod error;
mod listener;
mod operation;
mod outcome;
mod path;
mod probe;
mod retry;
mod sequence;
mod session;
mod stat;
mod state;
mod subscription;
mod supervisor;
mod tracker;
pub mod transport;
mod trust;
mod watch;

pub use acl::Acl;
pub use acl::AclEntry;
pub use acl::Permissions;
pub use connect_string::ConnectString;
pub use connect_string::ParseConnectStringError;
pub use connect_string::ServerAddress;
pub use counters::Counts;
pub use error::Error;
pub use error::ErrorClass;
pub use error::ErrorKind;
pub use error::Operation;
pub use listener::Listener;
pub use listener::ListenerEnd;
pub use operation::Committed;
pub use operation::Create;
pub use operation::CreateClaimed;
pub use operation::CreateOwned;
pub use operation::Delete;
pub use operation::Exists;
pub use operation::ExistsWatched;
pub use operation::Get;
pub use operation::GetAcl;
pub use operation::GetDecoded;
pub use operation::GetStat;
pub use operation::GetWatched;
pub use operation::IdPlace;
pub use operation::List;
pub use operation::ListWatched;
pub use operation::OperationFuture;
pub use operation::OwnedNode;
pub use operation::ReadError;
pub use operation::Set;
pub use operation::SetAcl;
pub use operation::Sync;
pub use operation::Transaction;
pub use operation::WaitForCreation;
pub use operation::WaitForDeletion;
pub use path::NodePath;
pub use path::ParsePathError;
pub use probe::Unanswered;
pub use retry::Jitter;
pub use retry::RetryPolicy;
pub use sequence::Sequence;
pub use session::ConnectError;
pub use session::Session;
pub use session::SessionBuilder;
pub use session::Standby;
#[cfg(feature = "tls")]
pub use session::Tls;
pub use session::Trusted;
pub use stat::SessionId;
pub use stat::Stat;
pub use state::ConnectionState;
pub use state::StateChanges;
pub use subscription::Subscribe;
pub use subscription::Subscription;
pub use subscription::Update;
pub use supervisor::SuperviseError;
pub use tracker::NodeTracker;
pub use tracker::Track;
pub use tracker::Tracked;
pub use tracker::TrackedNode;
pub use transport::Changed;
pub use transport::CreateMode;
pub use transport::SessionEnd;
pub use transport::WatchEvent;
pub use watch::Watch;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
