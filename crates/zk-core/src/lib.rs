//! ZooKeeper sessions, operations and typed errors: the foundation of all recipe crates.
//!
//! A [`Session`] is one ZooKeeper session. A [`SessionBuilder`] connects it, clones share it, and it is never silently
//! replaced by another one.
//! Operations are builders that end in `.await`, each with one deadline.
//! If a recipe crate does what you need, use that crate; use this one for plain operations.
//!
//! ```no_run
//! # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
//! use zk_core::Session;
//!
//! let session = Session::builder("127.0.0.1:2181").connect().await?;
//! let (path, _) = session.create("/app/config", "first").parents().await?;
//! session.set(&path, "second").version(0).await?;
//! let (data, stat) = session.get(&path).await?;
//! assert_eq!((&*data, stat.version), (&b"second"[..], 1));
//! session.close().await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Guarantees
//!
//! 1. A write is never blindly repeated. If its reply is lost, the session lets the server catch up
//!    ([`Sync::with_quorum`]), reads the nodes, and repeats the write only if they show that it was not applied;
//!    otherwise the outcome is unknown ([`ErrorKind::OutcomeUnknown`]). A repeated [`Set`], [`SetAcl`], [`Delete`] or
//!    [`Transaction`] therefore never undoes a later write of another client, with or without a version.
//!    Two operations repeat without this check: a [`Create`], whose second reply shows what became of the first, and
//!    which may restore a node that another client deleted in between; and a [recursive](Delete::recursive) delete,
//!    which also deletes nodes that were created meanwhile.
//! 2. A read is repeated after a connection loss, as the [`RetryPolicy`] says, until the deadline of the call.
//! 3. Every call has one deadline, which includes retries and the creation of parents. A call that could not be sent by
//!    then returns an error that says so, and is not sent later.
//! 4. A lost session stays lost. Every later operation returns a fatal error, every watch fires, and
//!    [`Session::lost`] resolves with the [reason](SessionEnd). A caller that was notified of the loss sees the session
//!    as lost. [`Sessions`] opens a new session for an application that wants one, and handles that only read or
//!    announce go on with it: those that accept a [`SessionSource`], and whatever [`Sessions::keep`] makes again.
//! 5. A node created with [`protected`](Create::protected) is created once, even if replies are lost, unless another
//!    client deletes it while the outcome is still unknown: then it may be created again.
//!    A node created with [`owned`](Create::owned) is deleted with its handle, and replaced at most once by
//!    [`OwnedNode::replace_with`], even if replies are lost.
//!    A dropped call of any of these kinds leaves no node behind, wherever it was dropped.
//! 6. A transaction applies all its changes or none, and its error names the operation that was refused.
//!    A transaction with an idempotency token ([`IdempotencyTokens`], [`Transaction::commit_marked`]) is applied at most
//!    once and knows its outcome, even if its reply is lost; with `commit_marked` unless another client deletes the token
//!    meanwhile.
//!    [`Session::update`] never applies its function twice because a reply was lost.
//! 7. A [`Watch`] fires once, on the first change after its read, even if the session has moved to another server.
//! 8. A [`Subscription`] reports when its consumer has to read again, and misses no change after that: the watch is set
//!    before the report, and again after each connection loss. What it buffers for a slow consumer is bounded.
//!    No consumer delays the session or another consumer.
//! 9. [`wait_for_creation`](Session::wait_for_creation), [`wait_for_deletion`](Session::wait_for_deletion) and
//!    [`NodeTracker`] miss no change between their read and their watch.
//! 10. While [`SessionLease::is_valid`] returns true, the ensemble has not given what the session holds to another
//!     client. [`SessionLease`] lists the assumptions.
//! 11. A [`PersistentNode`] is created again whenever it is gone, once, and with each session of the application; and it
//!     never takes over an ephemeral node of another session.
//!
//! # Errors
//!
//! Unless its documentation says otherwise, an operation whose reply did not arrive by the deadline returns
//! [`ErrorKind::NotConnected`] if it could not be sent. Otherwise a read returns [`ErrorKind::TimedOut`] or
//! [`ErrorKind::ConnectionLost`], and a write [`ErrorKind::OutcomeUnknown`].
//!
//! # Cancel safety
//!
//! Every future can be dropped at any await. One that was never polled has done nothing, but drops its arguments.
//! Unless its documentation says otherwise, one that was polled has no lasting effect: an operation only reads, and a
//! wait or a stream misses no change. Owned nodes, tokens and watches are removed in the background, also if a request
//! in flight creates or sets them later, and other background work goes on. Operations that write say what may still be
//! applied, because a request in flight cannot be recalled.
//!
//! # Cost
//!
//! Unless its documentation says otherwise, an operation costs one round trip, and one more after each connection loss.
//!
//! # Failure behaviour
//!
//! | event | what the caller sees |
//! |---|---|
//! | the connection breaks during a read | nothing; the read is repeated |
//! | the connection breaks during a write, and no other client writes | usually nothing; the write is repeated or found to be done. Each operation documents its exceptions |
//! | the connection breaks during a write, and the nodes do not show whether it was applied | [`ErrorKind::OutcomeUnknown`] |
//! | the connection breaks under a subscription | [`Update::Stale`], then [`Update::Resynchronize`] on the next server |
//! | a consumer is slower than its notifications | [`Update::Resynchronize`] in place of those that do not fit |
//! | no server can be reached | [`ConnectionState::Suspended`]; [`ErrorKind::NotConnected`] at the deadline |
//! | the server is reached but does not reply | [`ErrorKind::TimedOut`], for a write [`ErrorKind::OutcomeUnknown`] |
//! | the session expires | [`ErrorKind::SessionExpired`] from then on; [`ConnectionState::Lost`] with the [reason](SessionEnd), [`WatchEvent::SessionLost`], [`Update::SessionLost`] |
//! | the server has no quorum | the session does not connect to it, unless [`SessionBuilder::allow_read_only`] is set; then writes return [`ErrorKind::ReadOnlyServer`] |
//! | a request is larger than servers accept | [`ErrorKind::TooLarge`]; nothing is sent |
//! | the future of a call is dropped | see [Cancel safety](#cancel-safety); a request that was sent cannot be recalled |
//!
//! Unless its documentation states otherwise, every operation of a lost session returns a fatal error, and
//! [`Error::is_outcome_unknown`] returns whether a write was in flight.
//!
//! # Nodes
//!
//! A [`PersistentNode`] creates missing parents as containers, and a TTL node has a child `touch`.
//! The name of a protected or owned node begins with `_c_<uuid>-`, as with Curator's protection, and so does that of an
//! idempotency token. The token of [`Transaction::commit_marked`] is named `_c_<uuid>-marker` and deleted soon after.
//! The crate creates no other nodes of its own.
//!
//! # Typed values
//!
//! A [`codec`] writes and reads values instead of bytes: [`Raw`](codec::Raw) and [`Text`](codec::Text) are always
//! available; the features `json`, `toml` and `gzip`, off by default, add the others.
//!
//! # Observability
//!
//! Each operation has a `tracing` span `zk.operation` with its `operation`, `path`, `attempts` and `outcome`.
//! [`Session::counters`] counts calls, retries, connection losses and watches.
//! Data and credentials appear in no span, log, error or debug output.
//!
//! # Limits
//!
//! A subscription reports neither the data of a node nor what happened while it was [stale](Update::Stale), because
//! servers keep no record of that (ZOOKEEPER-4698). The consumer reads the node and compares `czxid` and `mzxid`.
//! On servers before 3.6, which have no persistent watches, a subscription sets two one-shot watches on each node; a
//! large tree exceeds the number of watches of a session.
//! All operations need a Tokio runtime with time and I/O enabled. A session stays on the runtime that connected it;
//! handles may be dropped anywhere. Threads without a runtime use the module `blocking`, behind the feature of that
//! name, for this crate and for all recipes.

#[cfg(feature = "blocking")]
pub mod blocking;
mod call;
pub mod codec;
mod connect_diagnosis;
mod counters;
mod deadline;
mod engine;
mod ensemble_config;
mod error;
mod idempotency_tokens;
mod join_all;
mod kept;
mod lease_clock;
mod lease_proof;
mod listener;
#[cfg(feature = "metrics")]
mod metrics;
mod operation;
pub mod outcome;
mod owned_node;
mod persistent_node;
mod retry;
mod sequence;
mod session;
mod session_defaults;
mod session_handle;
mod session_source;
mod sessions;
mod state;
mod subscription;
mod supervisor;
mod tracker;
pub mod transport;
mod update;
mod update_data;
mod watch;

pub use bytes::Bytes;
pub use connect_diagnosis::ConnectDiagnosis;
pub use counters::Counts;
pub use ensemble_config::EnsembleConfig;
pub use error::{Error, ErrorClass, ErrorKind, Operation};
pub use idempotency_tokens::{CommitError, Committed, IdempotencyTokens, LeaderTimestamp};
pub use kept::{Kept, SessionBound};
pub use listener::{Listener, ListenerEnd};
#[cfg(feature = "metrics")]
pub use metrics::describe_metrics;
pub use operation::{
    Create, Delete, DescendantCount, Ephemerals, Exists, ExistsWatched, Get, GetAcl, GetConfig,
    GetDecoded, GetStat, GetWatched, IdPlace, List, ListWatched, OperationFuture, ReadError,
    ReadMany, Set, SetAcl, Sync, Transaction, WaitForCreation, WaitForDeletion, WhoAmI,
};
pub use owned_node::{CreateClaimed, CreateOwned, OwnedNode, ReplaceError};
pub use persistent_node::{
    PersistentNode, PersistentNodeError, PersistentNodeOptions, PersistentNodeProblem,
    PersistentNodeState, PresentNode,
};
pub use retry::{Jitter, RetryPolicy};
pub use sequence::Sequence;
pub use session::builder::{ConnectError, SessionBuilder};
pub use session::{Session, SessionLease, Standby};
pub use session_source::SessionSource;
pub use sessions::{RunError, Sessions, SessionsEnd};
pub use state::{ConnectionState, StateChanges};
pub use subscription::{Subscribe, Subscription};
pub use tracker::{NodeTracker, Tracked, TrackedNode};
pub use transport::WatchEvent;
pub use update::Update;
pub use update_data::{UpdateData, Updated};
pub use watch::Watch;
/// The client below a session, whose settings [`SessionBuilder::config`] takes: hosts, certificates, SASL, limits.
pub use zk_wire as wire;
pub use zk_wire::{
    Acl, AclEntry, ConnectString, CreateMode, Host, Identity, IntoNodePath, MultiResult, NodePath,
    ParseConnectStringError, ParsePathError, Permissions, SessionEnd, SessionId, Stat,
};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
