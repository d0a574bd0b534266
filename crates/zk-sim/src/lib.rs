//! A simulated ZooKeeper ensemble in memory, for unit tests without a server and with scripted failures.
//!
//! Tests of code that uses a [`Session`](zk_core::Session) take microseconds here, and can cause failures that are rare
//! on real servers: the reply to a certain request is lost, a server lags, a session expires between two steps.
//! Failures are tied to requests, not to times, so that a test does not depend on timing.
//! With Tokio's paused time an hour of waiting takes no time, and a test does the same each time.
//! The simulation proves nothing about ZooKeeper itself: use `zk-harness` to check that real servers behave as assumed
//! here, for anything that depends on their timing, and for load.
//!
//! ```
//! use zk_core::Session;
//! use zk_sim::{Ensemble, matching};
//!
//! /// The code under test: counts a visit, and never twice.
//! async fn count(session: &Session) -> Result<(), zk_core::Error> {
//!     let (data, stat) = session.get("/visits").await?;
//!     session.set("/visits", [&data[..], b"|"].concat()).version(stat.version).await?;
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
//! [`Chaos`] injects random failures, and [`check()`] repeats a test with many seeds.
//!
//! # The model
//!
//! A server forwards writes to the leader, which appends them to a log and commits them while a quorum, including
//! itself, responds. Each server has applied a prefix of the log, by default all of it.
//! A session is attached to one server, which answers reads from the transactions that it has applied, and writes once
//! it has applied them. The requests of a session are executed in order.
//! A server can stop, pause and come back. Without a leader or a quorum no server serves, and their links break.
//! The running servers elect the one with the highest number, which begins a new epoch. It has every acknowledged
//! transaction, and restarts the timeout of every session.
//!
//! | event | time | set by |
//! |---|---|---|
//! | a message between client and server | 1 ms each way | [`latency`](EnsembleBuilder::latency) |
//! | a client without a link tries the next server | 10 ms, doubled after each round over all servers, up to 320 ms | [`reconnect_after`](EnsembleBuilder::reconnect_after) |
//! | a client notices a silent link | a share of the session timeout, see [`silence`](SessionHandle::silence) | |
//! | a client without a link gives up the session | 7/5 of its timeout | |
//! | a server reports to the leader which sessions have sent something | a quarter of the session timeout, the longest that servers allow | |
//! | the leader expires a session that it has not heard of | its timeout | [`timeout`](Connect::timeout) |
//! | the servers exclude a paused server | 1 s, the `syncLimit` times the `tickTime` of a real ensemble | |
//! | servers without a leader elect one | 300 ms | |
//! | a restarted server serves | 200 ms | |
//!
//! A session of this crate with a link keeps itself alive: it counts as sending a ping in each third of its timeout.
//! When its link fails, its last message is still reported, unless its server fails, too.
//! The leader hears at once of the messages to itself, and of those of [clients on byte streams](#clients-on-byte-streams).
//!
//! # Guarantees
//!
//! 1. The crate reads only Tokio's clock, and draws random numbers only from the [seed](EnsembleBuilder::seed): on a
//!    current-thread runtime with paused time, the same calls return the same replies in the same order, with the same
//!    zxids and times. This includes sessions of `zk-core`, which take their unique names and retry delays from the
//!    seed.
//! 2. Requests are checked as by servers of ZooKeeper 3.8 or 3.9, depending on the [`Release`], in the order of the
//!    servers' checks, and watches report the same events: each run of the tests executes more than 100,000 random
//!    operations on both and compares them.
//! 3. A server answers the requests of a session in order, and reports a change before it answers a read that shows it.
//! 4. An acknowledged write survives every failure. A write whose leader died before the commit survives or vanishes,
//!    as the test chooses.
//! 5. After a session has moved to another server and synced, a write that was stuck before is never applied.
//! 6. A session expires only when the leader has not heard of it for its timeout, or by
//!    [`expire`](SessionHandle::expire).
//! 7. A request is sent when its future is first polled. A future that was never polled sends nothing; dropping one
//!    later does not cancel its request.
//!
//! # Cancel safety
//!
//! Every future can be dropped at any await. Unless its documentation says otherwise, it only waits; one that takes a
//! future or a condition drops that as well. A dropped [`Connect`] may leave its session open until its timeout, and a
//! request is not cancelled (guarantee 7).
//!
//! # Failures
//!
//! | failure | effect on the servers | effect on the client |
//! |---|---|---|
//! | [`postpone`](Script::postpone) | applied | the link breaks, and the next one carries the request |
//! | [`lose_request`](Script::lose_request) | not applied | the link breaks |
//! | [`lose_reply`](Script::lose_reply) | applied | the link breaks |
//! | [`stall`](Script::stall) | applied when released, unless the session has moved before | the link breaks |
//! | [`stall_then_move`](Script::stall_then_move) | applied | the link breaks, the next server does not show the write yet |
//! | [`kill_leader`](Script::kill_leader) | applied by the next leader, or never | the link breaks, and returns after an election |
//! | [`hold`](Script::hold) | applied | no reply until released |
//! | [`refuse`](Script::refuse) | not applied | the fault |
//! | [`misreport`](Script::misreport) | applied | the fault |
//! | [`cut`](SessionHandle::cut), [`move_to`](SessionHandle::move_to) | requests that arrived proceed | the link breaks and comes back |
//! | [`silence`](SessionHandle::silence) | no message arrives | nothing for a while, then the link breaks and comes back |
//! | [`partition`](SessionHandle::partition) | the leader expires the session one timeout after it last heard of it | no link; gives up after 7/5 of the timeout |
//! | [`expire`](SessionHandle::expire) | the session's ephemeral nodes are deleted | notified once its server has applied it |
//! | [`delay_end`](SessionHandle::delay_end) | none | a reply reports the end of the session before the link does |
//! | [`lag`](ServerHandle::lag) | the server answers reads with old data | no reply to writes and syncs until the server has caught up |
//! | [`stop`](ServerHandle::stop) | the server is down, perhaps also the leader or the quorum | the link breaks |
//! | [`pause`](ServerHandle::pause) | the server does nothing | the same as with a silent link |
//! | [`max_request`](EnsembleBuilder::max_request) | not applied | the link breaks |
//! | [`Chaos`] | any of these at random | any of these |
//!
//! [`Ensemble::requests`] returns the outcome of each request, [`Ensemble::tree`] the nodes, and
//! [`Ensemble::watch_count`] the number of watches.
//!
//! # Layout of the nodes
//!
//! A new ensemble has the nodes that a server creates: `/zookeeper`, `/zookeeper/config` and `/zookeeper/quota`.
//! [`Tree::nodes`] omits them.
//!
//! # Clients on byte streams
//!
//! A client in any language can be tested on the same servers: [`Ensemble::listen`] listens on a port of 127.0.0.1 for
//! each of them, and [`Ensemble::serve`] serves one connection on any byte stream, such as an in-memory stream under
//! paused time. The program `zk-sim serve`, with the feature `cli`, does the first without any Rust:
//!
//! ```text
//! $ zk-sim serve --seed 7 --fault 'lose-reply:create:/locks/**'
//! 127.0.0.1:40001,127.0.0.1:40002,127.0.0.1:40003
//! ```
//!
//! It is ready within milliseconds, and ends on SIGTERM or ctrl-c. Real servers behave the same with these differences:
//!
//! - It is for unit tests. Everything is in memory and is kept until the end: nodes, sessions and the log of all
//!   transactions. Nothing is written to a disk, nothing survives the process, and there is no TLS. It is nothing for
//!   production, and for measurements neither.
//! - Sessions have the timeout that their clients request, however short or long.
//! - SASL has no mechanism, and `reconfig` is disabled. `whoAmI` returns no identity of the scheme `ip`.
//! - The stat of a container or TTL node has no owner. A sequential node needs a name before its number.
//! - The four-letter words are `ruok`, `isro` and `srvr`; they are not logged as requests, and neither are pings,
//!   `setWatches`, `removeWatches` and other requests that `zk-core` has not.
//! - The port of a stopped server accepts connections and closes them.
//!
//! Such a client reconnects by itself and chooses its server: [`reconnect_after`](EnsembleBuilder::reconnect_after),
//! [`latency`](EnsembleBuilder::latency), the pause of [`cut_for`](SessionHandle::cut_for) and the targets of
//! [`move_to`](SessionHandle::move_to) and [`stall_then_move`](Script::stall_then_move) are not for it, and
//! [`postpone`](Script::postpone) loses the request. All other failures apply. Its persistent watches survive a
//! reconnect, as on real servers. The leader expires its session when it has not heard of it for the session timeout.
//!
//! # What it does not do
//!
//! - There are no quotas, observers or reconfigurations, and no session matches an ACL entry of the scheme `ip`.
//! - A write is committed at one time: no server of a quorum knows it earlier than another, and there are never two
//!   leaders.
//! - A new ACL applies to the next request. A real leader checks requests in flight after it against the old one.
//! - The ephemeral nodes of a session are deleted in the order of their paths. On real servers the order is undefined.
//! - A read-only session cannot move to or from another server.
//! - The configuration of the ensemble is empty, as that of a single server.
//! - Servers without persistent watches ([`without_persistent_watches`](EnsembleBuilder::without_persistent_watches))
//!   otherwise behave as the chosen release.
//! - Persistent watches of a session of this crate end with the link, as with the client crate that `zk-core` uses. Watches that this crate leaves
//!   on a server remain here as well.
//! - Replies have no size limit, because that crate sets none.
//!
//! # Features
//!
//! `cli`: the program `zk-sim`.

mod access;
mod chaos;
mod check;
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
mod wire_request;
mod wire_server;
mod world;

pub use chaos::{Chaos, Disturbance, InjectedDisturbance};
pub use check::{Check, Checked, TestResult, check};
pub use connect::Connect;
pub use control::{ServerHandle, SessionHandle};
pub use drop_fault::DropFault;
pub use ensemble::{Ensemble, EnsembleBuilder};
pub use faults::{Script, Scripted};
pub use release::Release;
pub use request_log::{LoggedRequest, RequestOutcome};
pub use script::Proposal;
pub use transport::SimTransport;
pub use tree::{Counters, Kind, Node, Tree};
pub use wire_server::SimListener;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
