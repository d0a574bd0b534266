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
//! Failures can be had at random as well, for as many seeds as there is time for: see [`check()`] and [`Chaos`].
//!
//! # The model
//!
//! Requests that write go from the session's server to the leader, which orders them in a log and commits them as long
//! as it and more than half of all servers answer; each server has applied a beginning of the log, by default all.
//! A session is attached to one server, which answers reads from what it has applied, and writes when it has applied
//! them; the requests of a session are carried out in their order.
//! A server may stop, pause and come back; without a leader, or with too few others, none serves and their links break.
//! The servers that run elect the one with the highest number, whose transactions begin another epoch; it has everything
//! that was acknowledged, and counts the time of every session from its own beginning.
//!
//! | what takes time | how long | set by |
//! |---|---|---|
//! | a message between client and server | 1 ms each way | [`latency`](EnsembleBuilder::latency) |
//! | a client without a link tries the next server | 10 ms, after a round over all of them in vain twice as long each time, up to 320 ms | [`reconnect_after`](EnsembleBuilder::reconnect_after) |
//! | a client notices a silent link | a share of the session timeout, see [`silence`](SessionHandle::silence) | |
//! | a client without a link gives the session up | 7/5 of its timeout | |
//! | the leader expires a session it does not hear of | its timeout | [`timeout`](Connect::timeout) |
//! | the servers do without one that is paused | 1 s | [`sync_limit`](EnsembleBuilder::sync_limit) |
//! | servers without a leader elect one | 300 ms | [`election`](EnsembleBuilder::election) |
//! | a server that comes back serves | 200 ms | [`joining`](EnsembleBuilder::joining) |
//!
//! A client with a link is heard of all the time: its pings are not simulated.
//!
//! # Guarantees
//!
//! 1. Nothing here reads a clock but Tokio's, or draws a number but from the [seed](EnsembleBuilder::seed): on a
//!    current-thread runtime with paused time, the same calls give the same answers in the same order, with the same
//!    zxids and times. That holds with sessions of `zk-core` on top, whose unique names and pauses come from the seed,
//!    too.
//! 2. Requests are judged as servers of ZooKeeper 3.8 and 3.9 judge them, whichever [`Release`] is set, in the order of
//!    their checks, and watches tell what they tell there: more than 100,000 random operations in each run of the tests
//!    are carried out on both and compared.
//! 3. A server answers a session only in the order of its requests, and tells of a change before it answers a read that
//!    shows it.
//! 4. What was acknowledged survives every failure there is. A write whose leader died before it was committed survives or
//!    vanishes, as the test says.
//! 5. After a session has moved to another server and synced, a write that was stuck before never lands.
//! 6. A session expires only by a leader that has not heard of it for its timeout, or by [`expire`](SessionHandle::expire).
//! 7. A request leaves when its future is first polled; one that was never polled is not sent, and dropping it later
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
//! | [`kill_leader`](Script::kill_leader) | carried out by the next leader, or never | the link breaks, and no other one comes before an election |
//! | [`hold`](Script::hold) | carried out | no answer until released |
//! | [`refuse`](Script::refuse) | not carried out | the fault |
//! | [`misreport`](Script::misreport) | carried out | the fault |
//! | [`cut`](SessionHandle::cut), [`move_to`](SessionHandle::move_to) | what has arrived goes on | the link breaks and comes back |
//! | [`silence`](SessionHandle::silence) | nothing passes | nothing for a while, then the link breaks and comes back |
//! | [`partition`](SessionHandle::partition) | the leader expires the session after its timeout | no link; given up after 7/5 of the timeout |
//! | [`expire`](SessionHandle::expire) | the session's ephemeral nodes go | told by its server, when that has applied it |
//! | [`lag`](ServerHandle::lag) | the server's sessions read what was | no answer to writes and syncs until it has caught up |
//! | [`stop`](ServerHandle::stop) | the server is away, maybe the leader or the quorum with it | the link breaks |
//! | [`pause`](ServerHandle::pause) | the server does nothing | as of a silent link |
//! | [`max_request`](EnsembleBuilder::max_request) | not carried out | the link breaks |
//! | [`Chaos`] | any of these at random | any of these |
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
//! - There are no quotas, observers and reconfigurations, and an address of the `ip` scheme is nobody's.
//! - A write is committed in one moment: there are no servers of a quorum that have heard of it earlier than others, and
//!   no two servers that both lead.
//! - New access rules hold for the next request. A real leader judges what is in flight behind them by the old ones.
//! - The nodes that go with a session go in the order of their paths. On real servers there is no order.
//! - A session that only reads is not taken over from or by another server.
//! - Servers without persistent watches ([`without_persistent_watches`](EnsembleBuilder::without_persistent_watches)) are
//!   those of the chosen release in everything else.
//! - Persistent watches end with the link, as over the client crate that `zk-core` uses. What of them that crate leaves
//!   with a server, is left here, too.
//! - Answers have no limit of size, as that crate sets none.
//!
//! The crate has no features.

mod access;
mod chaos;
mod check;
mod chroot;
mod connect;
mod control;
mod digest;
mod driver;
mod drop_fault;
mod ensemble;
mod faults;
mod jobs;
mod leader;
pub mod matching;
mod release;
mod request_log;
mod script;
mod server;
mod server_reply;
mod size;
mod transport;
mod tree;
pub mod wait;
mod watches;
mod world;

pub use chaos::Chaos;
pub use chaos::Disturbance;
pub use chaos::InjectedDisturbance;
pub use check::Check;
pub use check::Checked;
pub use check::TestResult;
pub use check::check;
pub use connect::Connect;
pub use control::ServerHandle;
pub use control::SessionHandle;
pub use drop_fault::DropFault;
pub use ensemble::Ensemble;
pub use ensemble::EnsembleBuilder;
pub use faults::Script;
pub use faults::Scripted;
pub use release::Release;
pub use request_log::LoggedRequest;
pub use request_log::RequestOutcome;
pub use script::Proposal;
pub use transport::SimTransport;
pub use tree::Counters;
pub use tree::Kind;
pub use tree::Node;
pub use tree::Tree;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
