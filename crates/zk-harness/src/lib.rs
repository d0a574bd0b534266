//! Real ZooKeeper ensembles for tests and development: configured, started, broken and cleaned up.
//!
//! A test that needs ZooKeeper says so in one line and gets real servers of its own, on ports of their own,
//! ready to serve when the call returns:
//!
//! ```no_run
//! # async fn demo() -> Result<(), zk_harness::Error> {
//! use zk_harness::Ensemble;
//!
//! let ensemble = Ensemble::builder().servers(3).start().await?;
//! println!("connect to {}", ensemble.connect_string());
//!
//! let leader = ensemble.leader().await?;
//! leader.kill().await?; // SIGKILL: the other two elect a new one
//! ensemble.wait_quorum().await?;
//!
//! ensemble.down().await?;
//! # Ok(())
//! # }
//! ```
//!
//! Use it for tests, benchmarks and development machines.
//! It is not a way to run ZooKeeper in production: its settings favour a quick start and quick failover.
//!
//! What a network can do to a client is done by [fault proxies](FaultProxy) in front of the servers, and what it can do
//! to the servers among themselves by the [links](QuorumLinks) between them; both are those of [`zk_fault_proxy`].
//! [`zk_provision`] finds or downloads ZooKeeper and Java.
//! [`zk_history`] records what a test does to an ensemble, and judges it.
//!
//! # Guarantees
//!
//! 1. [`EnsembleBuilder::start`] returns only when every server answers, exactly one of them leads (a single server
//!    stands alone), and a node was written and read through each of them; otherwise it returns an error that carries
//!    the end of the right server's log.
//! 2. When an [`Ensemble`] is dropped, no server process is left.
//!    This holds after a panic, after Ctrl-C and after `kill -9` of the process that started it: a small guard process
//!    in a process group of its own reads a pipe whose other end only that process holds, and the kernel closes the
//!    pipe however the process ends.
//! 3. The files go with the processes, unless the thread that drops the ensemble is panicking: then the directory is
//!    kept and its path printed, so that a failed test leaves its evidence. [`Keep`] changes this.
//! 4. Two ensembles never share a port, also when started by different processes of one user at the same moment.
//!
//! # What happens when
//!
//! | event | what the caller sees |
//! |---|---|
//! | a setting is wrong | [`SpecError`] with the field, its value and the rule, before anything is touched |
//! | no ZooKeeper or Java on the machine | it is downloaded into the user's cache; without a network, an error that lists each place looked at |
//! | a server exits while starting | [`Error::ServerExited`] with its exit status and the end of its log |
//! | no quorum before the deadline | [`Error::NotServing`] with what each server answered last |
//!
//! # Files of an ensemble
//!
//! ```text
//! <directory>/
//!   ensemble.json            how it was started
//!   server-1/zoo-1.cfg       the server's configuration
//!   server-1/start.sh        starts this server by hand
//!   server-1/server.log      what it printed
//!   server-1/server.pid      its process id
//!   server-1/clock           how far its clock is moved, if it can be
//!   server-1/data/myid       its id, beside its snapshots
//!   server-1/txlog/          its transaction log
//! ```
//!
//! With [`DataStore::Memory`] `data` and `txlog` lie in the machine's memory file system instead.
//!
//! # Features
//!
//! - `download` (default): download ZooKeeper, and Java if there is none, when the machine has none.
//! - `containers`: servers in [containers](container), through testcontainers.
//! - `cli`: what the `zk-ensemble` program needs.

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

pub mod admin;
pub mod container;
pub mod fault;
pub mod nemesis;

mod class_data;
mod config;
mod ensemble;
mod error;
mod health;
mod older;
mod ports;
mod process;
mod profile;
mod reaper;
mod select;
mod server;
mod spec;
mod wait;

pub use ensemble::{Ensemble, EnsembleBuilder, Keep, ServerStatus, StartReport, Status};
pub use error::Error;
pub use health::{Health, Role};
pub use older::program_of_next_process;
pub use process::ProcessState;
pub use profile::{ParseProfileError, Profile};
pub use select::{ParseSelectorError, Selector};
pub use server::Server;
pub use spec::{DataStore, ServerSpec, Spec, SpecError, Warning};
pub use zk_fault_proxy::FaultProxy;
pub use zk_fault_proxy::links::QuorumLinks;
pub use zk_provision::Distribution;
