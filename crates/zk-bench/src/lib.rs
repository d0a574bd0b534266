//! Workloads, and the least that any client could do for the same: measured side by side, in one run.
//!
//! A figure of a distributed lock says little alone: it is mostly the disk, the number of cores and the ensemble.
//! So each workload has a *reference* that does the unavoidable part of the same work on the wire client itself, on
//! sessions placed on the same servers, and the two alternate (ours, reference, ours, reference, …), so that whatever
//! else the machine does hits both. What is worth comparing over machines and days is the ratio.
//!
//! | group | ours | reference |
//! |---|---|---|
//! | `uncontended` | one session acquires and releases | create and delete of an ephemeral sequential node |
//! | `contention/<n>` | n sessions acquire and release, holding for no time | the bare chain of n sessions |
//! | `handover` | one session releases, another one waits | one session deletes a node, another one watches it |
//! | `race/<n>` | n sessions acquire and release the lock without a queue | the same with the fair lock |
//!
//! The *bare chain* is a queue of nodes made beforehand, with all watches set: each session deletes its next node as
//! soon as it is told that the node before is gone. A lock has to enlist for each turn, so no lock reaches it.
//!
//! - [`wire`] has the references, [`lock`] the workloads of the lock, as functions that return a [`Round`].
//! - [`race`] sets the lock next to those of Curator, kazoo and the client crate, [`report`] writes that down.
//! - [`cache`] has the workloads of the cache, which it runs next to Curator's and to the bare reads.
//! - [`Contest`] lets them alternate under criterion, on an ensemble that [`Stage`] starts.
//! - [`Standing`] is what a contest came to, [`table()`] and [`Record`] show and keep it.
//! - [`ids`] measures what an id costs, without an ensemble.
//!
//! `cargo xtask bench lock`, `bench id`, `bench cache`, `bench queue` and `bench fleet` run them; `BENCHMARKS.md` has
//! figures, with the machine they are from.

mod baton;
pub mod cache;
mod chart;
mod contest;
mod facts;
pub mod ids;
pub mod lock;
mod other_work;
pub mod race;
mod record;
pub mod report;
mod round;
mod settings;
mod stage;
mod standing;
mod table;
mod trace;
mod traffic;
pub mod unfair;
pub mod wire;

pub use self::baton::Baton;
pub use self::contest::Contest;
pub use self::contest::Side;
pub use self::facts::Facts;
pub use self::other_work::OtherWork;
pub use self::other_work::WorkMeter;
pub use self::record::Record;
pub use self::round::Latencies;
pub use self::round::Round;
pub use self::settings::Settings;
pub use self::stage::Stage;
pub use self::standing::Reference;
pub use self::standing::Spread;
pub use self::standing::Standing;
pub use self::table::table;
pub use self::trace::Trace;
pub use self::traffic::Traffic;
