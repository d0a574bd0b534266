//! A fault proxy that understands ZooKeeper's protocol: it loses exactly the request or the reply that a test names.
//!
//! The module [`links`] does the same to the connections between the servers: it delays, limits, blocks and cuts them.
//!
//! A proxy has one address per server, which stays the same when the server is killed and started again. Clients connect
//! to these addresses. Rules say what becomes of a frame: by its kind, its path, its session, its server and its number.
//!
//! ```no_run
//! # async fn demo(servers: [std::net::SocketAddr; 3]) -> Result<(), zk_fault_proxy::Error> {
//! use std::time::Duration;
//! use zk_fault_proxy::{Clients, FaultProxy, Match, Steer};
//!
//! let proxy = FaultProxy::start(servers)?;
//!
//! // The server makes the node, and the client never hears of it.
//! let lost = proxy.on(Match::create("/locks/**")).once().cut_on_reply();
//! // Whoever connects from now on comes to server 3.
//! proxy.steer(Clients::All, Steer::To(3))?;
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
//! - A rule takes frames by a [`Match`] and does one thing: [pass](RuleBuilder::pass), [delay](RuleBuilder::delay),
//!   [hold](RuleBuilder::hold), [slow down](RuleBuilder::rate), cut [instead of](RuleBuilder::drop_then_cut),
//!   [after](RuleBuilder::forward_then_cut) or [on the answer to](RuleBuilder::cut_on_reply) the frame, or
//!   [swallow](RuleBuilder::black_hole) everything from there on.
//! - The first rule whose turn it is takes the frame, in the order in which they were made. A rule counts the frames
//!   that match it and that no rule before it has taken. One for the n-th frame is spent when it has taken it.
//! - The frames of one direction of a connection never overtake each other: what is behind a delayed or held frame
//!   waits too. A cut waits for what came before it in its direction.
//! - A delay is as exact as a timer of tokio: to about a millisecond, and never too short.
//!
//! # What passes
//!
//! Four-letter words come to the same address and pass as they are. So does whatever is not understood: a stream that
//! does not begin with a handshake, such as TLS, is passed on without being looked at, and a frame that cannot be read
//! passes untouched; both are [noted](What::NotUnderstood). A frame of more than 4 MiB is known by its header only:
//! its path fits no pattern, and it is passed on as it comes.
//! For each direction of a connection at most 8 MiB or 1024 frames wait in the proxy; then its sender waits.
//!
//! # What a client sees that is different
//!
//! - When a server is down, or new connections are [steered nowhere](Steer::Nowhere), a client's connection is still
//!   accepted, and then reset at once; a refused connection would fail a moment earlier.
//! - The proxy connects to the server when the client has sent its first frame. A client that connects and says nothing
//!   is connected to nobody.
//! - When a server closes or resets its connection, so does the proxy, after what it had still to deliver.
//! - A round trip takes longer: on a machine with two cores, busy with other work, 0.06 to 0.12 ms longer in the median
//!   of three runs each with no rules and with 20 that do not match (0.22–0.29 ms direct, 0.29–0.41 ms through the
//!   proxy; in each run a tenth of the direct ones took more than 0.31–0.54 ms). That is
//!   `cargo run --release --example proxy_overhead`: one server with its data in memory, two sessions that ask `exists`
//!   20,000 times each, in turn in blocks of 500.
//!
//! # Threads
//!
//! The proxy works on a thread of its own, so that a test that blocks its runtime does not block the proxy.

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

pub mod links;

mod error;
mod proxy;
#[cfg(test)]
mod wait;
mod wire;

pub use error::Error;
pub use proxy::Clients;
pub use proxy::Close;
pub use proxy::Direction;
pub use proxy::Event;
pub use proxy::FaultProxy;
pub use proxy::Log;
pub use proxy::Match;
pub use proxy::Op;
pub use proxy::Request;
pub use proxy::Rule;
pub use proxy::RuleBuilder;
pub use proxy::SessionSeen;
pub use proxy::Steer;
pub use proxy::What;
pub use wire::WireError;
pub use wire::end_session;
pub use wire::probe_writes;
