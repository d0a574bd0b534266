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
//! 1. A write is sent at most once.
//!    When its answer is lost, the error says so ([`ErrorKind::OutcomeUnknown`]); it is never repeated blindly.
//! 2. A read is repeated after a connection loss, until the deadline of the call.
//! 3. Every call has one deadline, retries and parents included.
//!    A call that could not be sent by then says so, and is not sent later.
//! 4. A lost session stays lost: every later operation answers a fatal error.
//!
//! # Failure behaviour
//!
//! | event | what the caller sees |
//! |---|---|
//! | the connection breaks during a read | nothing; the read is repeated |
//! | the connection breaks during a write | [`ErrorKind::OutcomeUnknown`] |
//! | no server can be reached | [`ErrorKind::NotConnected`] at the deadline |
//! | the server is reached but does not answer | [`ErrorKind::TimedOut`], for a write [`ErrorKind::OutcomeUnknown`] |
//! | the session expires | [`ErrorKind::SessionExpired`], for ever; [`Session::lost`] resolves |
//!
//! # What it does not do yet
//!
//! A write in flight cannot be called back: dropping its future leaves the outcome unknown, see [`Create`].
//! There are no watches, transactions and namespaces.
//! Everything needs a Tokio runtime with its time and I/O drivers enabled, and a session stays on the runtime that
//! connected it.

mod acl;
mod call;
mod connect_string;
mod counters;
mod deadline;
mod engine;
mod error;
mod operation;
mod outcome;
mod path;
mod probe;
mod retry;
mod sequence;
mod session;
mod stat;
mod state;
mod supervisor;
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
pub use operation::Create;
pub use operation::CreateOwned;
pub use operation::Delete;
pub use operation::Exists;
pub use operation::ExistsWatched;
pub use operation::Get;
pub use operation::GetAcl;
pub use operation::GetStat;
pub use operation::GetWatched;
pub use operation::List;
pub use operation::ListWatched;
pub use operation::OperationFuture;
pub use operation::OwnedNode;
pub use operation::Set;
pub use operation::SetAcl;
pub use operation::Sync;
pub use operation::Transaction;
pub use path::NodePath;
pub use path::ParsePathError;
pub use probe::Unanswered;
pub use retry::Jitter;
pub use retry::RetryPolicy;
pub use sequence::Sequence;
pub use session::ConnectError;
pub use session::Session;
pub use session::SessionBuilder;
#[cfg(feature = "tls")]
pub use session::Tls;
pub use session::Trusted;
pub use stat::SessionId;
pub use stat::Stat;
pub use state::ConnectionState;
pub use state::StateChanges;
pub use supervisor::SuperviseError;
pub use transport::Changed;
pub use transport::CreateMode;
pub use transport::WatchEvent;
pub use watch::Watch;
