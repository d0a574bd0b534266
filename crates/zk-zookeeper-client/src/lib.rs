//! Sessions of `zk-core` over the crate `zookeeper-client`.
//!
//! An application that has or wants that crate uses the recipes of this workspace with it: it speaks the protocol in place
//! of `zk-wire`, behind the same [`Session`](zk_core::Session).
//! Use [`Session::builder`](zk_core::Session::builder), which connects with `zk-wire`, unless there is such a reason: it
//! can do more, as the table below shows.
//!
//! ```no_run
//! # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//! use zk_zookeeper_client::Connect;
//!
//! let connect = Connect::to("zk1:2181,zk2:2181,zk3:2181/app")
//!     .session_timeout(Duration::from_secs(15))
//!     .auth("digest", "ann:secret");
//! let session = connect.session().await?;
//! session.create("/config/size", "7").parents().await?;
//! session.close().await?;
//! # Ok(())
//! # }
//! ```
//!
//! The options that a `SessionBuilder` has for operations are those of views here: `Session::with_acl` and the others.
//! [`Sessions::with_connector`](zk_core::Sessions::with_connector) opens the next session after a loss with this crate,
//! too.
//!
//! # Guarantees
//!
//! 1. Each outcome is the one that `zk-wire` has: random programs of all operations that this crate has, with and without
//!    faults, have the same replies, refusals, stats and watch events on real servers over both, and on the simulated
//!    ensemble.
//! 2. A request whose reply is lost is reported as that, however the connection broke.
//! 3. A request is sent when its future is first polled, never before, and not while there is no connection. One that was
//!    reported as not sent is not sent later.
//! 4. No log, debug output or error of this crate contains credentials.
//!
//! # Cancel safety
//!
//! A call that connects can be dropped at any time: what remains is at most a session that the ensemble ends after its
//! timeout.
//!
//! # Failures
//!
//! | what happens | what the caller sees |
//! |---|---|
//! | no server grants a session in time | [`ConnectError::Transport`](zk_core::ConnectError::Transport), with the last error of the client |
//! | a server refuses the credentials, or requires others | [`ConnectError::AuthFailed`](zk_core::ConnectError::AuthFailed); in a session, [`ErrorKind::AuthFailed`](zk_core::ErrorKind::AuthFailed) |
//! | the chroot does not exist | [`ConnectError::Transport`](zk_core::ConnectError::Transport), from [`Connect::session`] |
//! | an operation that the table below does not have | [`ErrorKind::Unsupported`](zk_core::ErrorKind::Unsupported); nothing is sent |
//! | a watch that the session could not set again on another server | [`ErrorKind::InvalidArgument`](zk_core::ErrorKind::InvalidArgument); nothing is sent |
//!
//! # Limits
//!
//! What sessions of `zk-wire` have, and these do not:
//!
//! | | here |
//! |---|---|
//! | the newest zxid of each reply | the greatest one in the stats of the reply, or none. Read-backs of lost replies work; commits of other sessions renew no lease |
//! | the role of the server | unknown: a lease costs four empty writes per session timeout, on any server |
//! | a shorter session timeout that a server grants on a move | unknown, so a lease assumes that all servers have the same limits |
//! | each address of a name | the client tries one after the other at each connect, and one of them per round |
//! | TLS, SASL, tracking the ensemble, moving to another server on demand, replaced credentials | none |
//! | a setting for the release of the servers and for their `jute.maxbuffer` | none: servers before 3.6 refuse subscriptions, and those before 3.5 every create, and a request of more than 1048575 bytes is refused before it is sent |
//! | reads of many nodes in one request | read one by one; those that must be one request are `Unsupported` |
//! | the configuration, the identities, the ephemeral nodes and the number of nodes below a node | `Unsupported` |
//! | a request that was not sent by its deadline is known as such | it counts as sent, so a write is reported as *outcome unknown* |
//! | any number of watches | 120 KiB of watched paths per session: the client cannot set more again on another server, and would never reconnect |
//! | a reply that is not valid costs only its request | it breaks the connection |
//!
//! More about the client, and how `zk-core` handles it:
//!
//! - It leaves Nagle's algorithm on: a request that is made while an earlier one has no reply may wait for that reply.
//!   Requests that are first polled in one task step are sent together, and in order.
//! - It reports only its newest state. Each break is counted all the same, unless several of them are over before a reply
//!   or the link's task looks: these count as one.
//! - It loses persistent watches at each reconnect. Here they end with the link, and a subscription sets them again.
//! - It removes all watches on a node when the last one it knows is dropped, also one whose reply is in flight.
//! - A persistent watch that is dropped while the session has another watch on the same node stays with the server, where
//!   it costs a message for each change.
//! - It declares a session expired after 7/5 of its timeout without a server, as `zk-wire` does.
//! - It ends a session when its last handle is dropped, and only when every operation in flight has completed or was
//!   dropped: one that was polled once and then neither polled nor dropped delays `Session::close`.
//! - The pauses between its rounds over the servers double without a cap: a single server that was down for ten seconds
//!   may be noticed ten seconds after it is up again.

mod connect;
mod convert;
mod header;
mod link;
mod transport;
mod watch;
mod watch_quota;

pub use connect::Connect;
pub use transport::ClientTransport;

use std::sync::{Mutex, MutexGuard, PoisonError};

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
