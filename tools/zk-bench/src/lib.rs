//! Benchmarks of the recipes, each measured next to the minimum that the servers allow for the same work.
//!
//! The absolute rate of a distributed lock mostly depends on the disk, the number of cores and the ensemble.
//! Each workload therefore has a *reference*, which does only the unavoidable part of the work with the wire client, on
//! sessions with the same servers. The two alternate (ours, reference, ours, reference, …), so that other load on the
//! machine affects both. Compare ratios, not rates, between machines and between days.
//!
//! | group | ours | reference |
//! |---|---|---|
//! | `uncontended` | one session acquires and releases | create and delete of an ephemeral sequential node |
//! | `contention/<n>` | n sessions acquire and release, holding for no time | the pre-made chain of n sessions |
//! | `yielding/<n>` | n sessions yield the lock to each other, holding for no time | the pre-made chain of n sessions |
//! | `recreating/<n>` | n sessions acquire and release, holding for no time | the re-creating chain of n sessions |
//! | `handover` | one session releases, another one waits | one session deletes a node, another one watches it |
//! | `race/<n>` | n sessions acquire and release the lock without a queue | the same with the fair lock |
//!
//! The *pre-made chain* is a queue of nodes that are created and watched in advance: each session deletes its next node
//! as soon as it is notified that the preceding node is gone. A lock must create a node for each turn, so no lock is as
//! fast. In the *re-creating chain* each session also creates its next node then, as a lock does.
//!
//! - [`baseline`] and [`recreating_chain()`] are the references, and [`lock`] the workloads of locks. All of them return
//!   a [`Round`].
//! - [`comparison`] measures the lock next to those of Curator, kazoo and the client crate; [`report`] writes the
//!   result.
//! - [`cache`] measures the cache next to Curator's and to plain reads.
//! - [`wire`] measures `zk-wire` next to other clients.
//! - [`PairedBenchmark`] alternates the two sides under criterion, on an ensemble that [`Fixture`] starts.
//! - [`Spread`] summarises the figures of several rounds; [`table()`] starts a table of them.
//! - [`ids`] measures the cost of an id, without an ensemble.
//!
//! `cargo xtask bench lock`, `bench id`, `bench cache`, `bench queue`, `bench fleet` and
//! `bench wire` run them. `BENCHMARKS.md`
//! contains figures and describes the machine.
//!
//! # Cancel safety
//!
//! A dropped future may leave its sessions open until the servers expire them, and with them their ephemeral nodes.
//! Locks are released in the background.

pub mod baseline;
pub mod cache;
mod cached;
pub mod comparison;
mod cpu;
mod environment;
mod fixture;
mod handover_probe;
pub mod ids;
pub mod lock;
mod other_work;
mod paired;
mod recreating_chain;
pub mod report;
mod round;
mod settings;
mod table;
mod trace;
mod traffic;
pub mod wire;
mod woken_readers;

pub use self::cpu::cpu_time;
pub use self::environment::Environment;
pub use self::fixture::{Fixture, followers_first, open, servers};
pub use self::handover_probe::HandoverProbe;
pub use self::other_work::{OtherWork, WorkMeter};
pub use self::paired::{PairedBenchmark, Side};
pub use self::recreating_chain::recreating_chain;
pub use self::report::publish;
pub use self::round::{Latencies, Round};
pub use self::settings::Settings;
pub use self::table::{Spread, table};
pub use self::trace::Trace;
pub use self::traffic::Traffic;
