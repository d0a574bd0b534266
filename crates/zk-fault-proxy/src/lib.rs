//! A fault proxy that understands ZooKeeper's protocol and loses, delays or holds exactly the frames that a test names.
//!
//! A proxy has one address per server, which stays the same when the server is killed and started again.
//! Clients connect to these addresses.
//! Rules select frames by kind, path, session, server and number, and decide what happens to them.
//! The module [`links`] delays, limits, blocks and cuts the connections between the servers.
//!
//! ```no_run
//! # async fn demo(servers: [std::net::SocketAddr; 3]) -> Result<(), zk_fault_proxy::Error> {
//! use std::time::Duration;
//! use zk_fault_proxy::{Clients, FaultProxy, Match, Route};
//!
//! let proxy = FaultProxy::start(servers)?;
//!
//! // The server creates the node, and the client never receives the reply.
//! let lost = proxy.on(Match::create("/locks/**")).once().cut_on_reply();
//! // All new connections go to server 3.
//! proxy.route(Clients::All, Route::To(3))?;
//!
//! // … a client that connects to proxy.connect_string() takes the lock …
//!
//! lost.happened(Duration::from_secs(5)).await?;
//! assert_eq!(proxy.log().count(&Match::create("/locks/**")), 1, "it was not sent twice");
//! # Ok(())
//! # }
//! ```
//!
//! An ensemble of `zk-harness` starts a proxy in front of its servers with `EnsembleBuilder::proxied`.
//!
//! # Rules
//!
//! - A rule selects frames with a [`Match`] and does one thing: [pass](RuleBuilder::pass), [delay](RuleBuilder::delay),
//!   [hold](RuleBuilder::hold), [slow down](RuleBuilder::rate), cut [instead of](RuleBuilder::drop_then_cut),
//!   [after](RuleBuilder::forward_then_cut) or [on the reply to](RuleBuilder::cut_on_reply) the frame, or
//!   [discard](RuleBuilder::black_hole) everything from there on.
//! - Rules are tried in the order of their creation. The first one that applies takes the frame. A rule counts the
//!   frames that match it and that no earlier rule took. A rule for the n-th frame ends when it has taken that frame.
//! - Frames of one direction of a connection are never reordered: frames behind a delayed or held frame wait, too.
//!   A cut waits for the frames before it in its direction.
//! - A delay is as exact as tokio's timer: about a millisecond, and never too short.
//!
//! # Traffic without frames
//!
//! Four-letter words use the same addresses and pass unchanged.
//! A stream that does not begin with a handshake, such as TLS, passes unchanged, and so does a frame that cannot be
//! decoded; the log reports both as [`EventKind::NotUnderstood`].
//! Of a frame of more than 4 MiB only the header is decoded: it matches no path pattern.
//! The proxy buffers at most 8 MiB or 1024 frames for each direction of a connection; then the sender waits.
//!
//! # Differences that a client sees
//!
//! - When a server is down, or new connections are [refused](Route::Refuse), the proxy accepts a client's connection
//!   and resets it at once; a refused connection would fail a moment earlier.
//! - The proxy connects to the server when the client has sent its first frame.
//!   Until then the client has no connection to a server.
//! - When a server closes or resets its connection, the proxy delivers what it has received and does the same.
//! - A round trip takes 0.06 to 0.12 ms longer in the median: 0.22–0.29 ms direct and 0.29–0.41 ms through the proxy,
//!   in three runs each without rules and with 20 rules that do not match, on a machine with two cores that was busy
//!   with other work. In each run, a tenth of the direct round trips took more than 0.31–0.54 ms.
//!   `cargo run --release --example proxy_overhead` measures this: one server with its data in memory, and two sessions
//!   that send `exists` 20,000 times each, alternating in blocks of 500.
//!
//! # Cancel safety
//!
//! Every future can be dropped at any await. Unless its documentation says otherwise, it only reads.
//!
//! # Threads
//!
//! The proxy runs on a thread of its own, so that a test that blocks its runtime does not block the proxy.

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

pub mod codec;
pub mod links;

mod error;
mod proxy;
mod runtime_thread;
mod shared;
mod sockets;
#[cfg(test)]
mod wait;
mod wire;

pub use error::Error;
pub use proxy::{
    Clients, Direction, Event, EventKind, FaultProxy, Log, Match, Route, Rule, RuleBuilder,
    SessionSeen,
};
pub use sockets::Close;
pub use wire::client::{WireError, end_session, probe_writes};
pub use wire::{Op, Request};
