//! A simulated ZooKeeper ensemble in memory: unit tests without a server, and failures by script.
//!
//! Code that holds a [`Session`](zk_core::Session) is tested here in microseconds, and against what seldom happens on
//! real servers: the answer to a certain request is lost, a server lags behind, a session expires between two steps.
//! Failures are meant for requests, not for moments, so that a test does not depend on timing.
//! Under Tokio's paused time an hour of waiting takes no time, and the same test does the same each time.
//! It is no judge of ZooKeeper itself: use `zk-harness` to see that real servers do what is assumed here, for anything
//! that depends on their timing, and for load.
//!
//! ```
//! use zk_core::Session;
//! use zk_sim::{Ensemble, matching};
//!
//! /// The code to be tested: counts a visit, and never twice.
//! async fn count(session: &Session) -> Result<(), zk_core::Error> {
//!     let (data, stat) = session.get("/visits").await?;
//!     session.set("/visits", [data, vec![b'|']].concat()).version(stat.version).await?;
//!     Ok(())
//! }
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), zk_core::Error> {
//! let sim = Ensemble::new(3);
//! let session = sim.connect().await;
//! session.create("/visits", "").await?;
//!
//! sim.on(matching::sets("/visits")).lose_reply();
//! let error = count(&session).await.unwrap_err();
//! assert!(error.is_outcome_unknown());
//! assert_eq!(sim.tree().node("/visits").unwrap().data(), b"|");
//! assert_eq!(sim.session(session.id()).server(), Some(2));
//! # Ok(())
//! # }
//! ```
//!
//! # The model
//!
//! One leader orders all writes in a log; each server has applied a beginning of it, by default all.
//! A session is attached to one server, which answers reads from what it has applied, and writes when it has applied
//! them; the requests of a session are carried out in their order.
//! A message between client and server takes a millisecond each way.
//! When a link breaks, the client tries the next server ten milliseconds later, and its watches go along.
//!
//! # Guarantees
//!
//! 1. Nothing here reads a clock but Tokio's, or draws a number: on a current-thread runtime with paused time, the same
//!    calls give the same answers in the same order, with the same zxids and times.
//! 2. Writes are judged as servers of ZooKeeper 3.9 judge them, in the order of their checks; the tests carry out one
//!    list of operations on both and compare.
//! 3. A server answers a session only in the order of its requests, and tells of a change before it answers a read that
//!    shows it.
//! 4. After a session has moved to another server and synced, a write that was stuck before never lands.
//! 5. A request leaves when its future is first polled; one that was never polled is not sent, and dropping it later
//!    does not call it back.
//!
//! # Failures
//!
//! | script | what is so | what the client sees |
//! |---|---|---|
//! | [`lose_request`](Script::lose_request) | not carried out | the link breaks |
//! | [`lose_reply`](Script::lose_reply) | carried out | the link breaks |
//! | [`stall`](Script::stall) | carried out when released, unless the session has moved before | the link breaks |
//! | [`stall_then_move`](Script::stall_then_move) | carried out | the link breaks, the next server does not show it yet |
//! | [`hold`](Script::hold) | carried out | no answer until released |
//! | [`refuse`](Script::refuse) | not carried out | the fault |
//! | [`misreport`](Script::misreport) | carried out | the fault |
//! | [`cut`](SessionHandle::cut), [`move_to`](SessionHandle::move_to) | what has arrived goes on | the link breaks and comes back |
//! | [`partition`](SessionHandle::partition) | the leader expires the session after its timeout | no link; given up after 7/5 of the timeout |
//! | [`expire`](SessionHandle::expire) | the session's ephemeral nodes go | told by its server, when that has applied it |
//! | [`lag`](ServerHandle::lag) | the server's sessions read what was | no answer to writes and syncs until it has caught up |
//!
//! [`Ensemble::requests`] tells what became of each request, [`Ensemble::tree`] what there is, and
//! [`Ensemble::watch_count`] what is still watched.
//!
//! # Layout of the nodes
//!
//! A new ensemble has the nodes a server makes: `/zookeeper`, `/zookeeper/config` and `/zookeeper/quota`.
//! [`Tree::nodes`] leaves them out.
//!
//! # What it does not do
//!
//! There are no elections, read-only servers, quotas, persistent watches and limits of size, and an address of the
//! `ip` scheme is nobody's.
//! A link breaks at once and both sides know it: there are no silent links yet.
//! The crate has no features.

mod access;
mod answer;
mod connect;
mod control;
mod digest;
mod ensemble;
mod faults;
mod log;
pub mod matching;
mod record;
mod script;
mod server;
mod shared;
mod transport;
mod tree;
mod watches;
mod world;

pub use connect::Connect;
pub use control::ServerHandle;
pub use control::SessionHandle;
pub use ensemble::Ensemble;
pub use ensemble::EnsembleBuilder;
pub use faults::Script;
pub use faults::Scripted;
pub use record::Fate;
pub use record::Seen;
pub use transport::SimTransport;
pub use tree::Counters;
pub use tree::Kind;
pub use tree::Node;
pub use tree::Tree;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
