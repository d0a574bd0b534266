//! Runs real ZooKeeper ensembles for tests and development, and injects faults into them.
//!
//! One call starts the servers of a test, on ports of their own; they serve when it returns:
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
//! It is not for production: its settings favour a quick start and quick failover.
//!
//! [Fault proxies](FaultProxy) in front of the servers inject network faults between clients and servers, and the
//! [links](QuorumLinks) do so between the servers; both are from [`zk_fault_proxy`].
//! [`zk_provision`] finds or downloads ZooKeeper and Java, and [`zk_history`] records and checks what a test does.
//!
//! # Guarantees
//!
//! 1. [`EnsembleBuilder::start`] returns when every server answers, exactly one of them leads (a single server is
//!    standalone), and a node was written and read through each of them. Otherwise it returns an error with the end of
//!    the log of the failed server.
//! 2. When an [`Ensemble`] is dropped, no server process is left.
//!    This holds after a panic, after Ctrl-C and after `kill -9` of the process that started it: a small guard process
//!    in a process group of its own reads a pipe from that process, which the kernel closes however the process ends.
//! 3. The files are removed with the processes, unless the thread that drops the ensemble is panicking: then the
//!    directory is kept and its path printed, for the analysis of a failed test. [`Keep`] changes this.
//! 4. Two ensembles never share a port, even if different processes of one user start them at the same time.
//!
//! # Cancel safety
//!
//! Every future can be dropped at any await. Unless its documentation says otherwise, it only reads, or it sends a
//! signal or a request on the first poll, and dropping it only stops the waiting. The node of an unfinished probe is
//! removed with its session.
//!
//! # Failures
//!
//! | event | what the caller sees |
//! |---|---|
//! | a setting is invalid | [`SpecError`] with the field, its value and the rule, before anything is started |
//! | no ZooKeeper or Java on the machine | it is downloaded into the user's cache; without a network, an error that lists the searched places |
//! | a server exits while starting | [`Error::ServerExited`] with the end of its log |
//! | no quorum before the deadline | [`Error::NotServing`] with each server's last answer |
//!
//! # Files of an ensemble
//!
//! Only the user who started it may access them. A directory that exists already keeps its mode.
//!
//! ```text
//! <directory>/
//!   ensemble.json            the settings, if it was detached or kept
//!   server-1/zoo-1.cfg       the server's configuration
//!   server-1/jaas.conf       the users of its SASL mechanism
//!   server-1/certificate.pem what it shows to clients with TLS, and its key; to servers peer-certificate.pem
//!   server-1/start.sh        starts this server in the foreground
//!   server-1/server.log      its output
//!   server-1/server.pid      its process id
//!   server-1/clock           the offset of its clock, if that is movable
//!   server-1/data/myid       its id, next to its snapshots
//!   server-1/txlog/          its transaction log
//!   certificates/            the authority and the certificates for clients
//! ```
//!
//! With [`DataStore::Memory`], `data` and `txlog` are in the memory file system instead.
//!
//! # Features
//!
//! - `download` (default): downloads ZooKeeper and Java if the machine has none.
//! - `tls`: creates [`certificates`], for servers that also listen for TLS.
//! - `containers`: runs servers in [containers](container), through testcontainers.
//! - `cli`: the dependencies of the program `zk-ensemble`.

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

pub mod admin;
#[cfg(feature = "tls")]
pub mod certificates;
pub mod container;
pub mod fault;
pub mod nemesis;

mod class_data;
mod config;
mod ensemble;
mod error;
mod health;
mod movable_clock;
mod older;
mod ports;
mod private_files;
mod process;
mod profile;
mod reaper;
mod select;
mod server;
mod spec;
mod unavailable;
mod unique_name;
mod wait;

pub use ensemble::{Ensemble, EnsembleBuilder, Keep, ServerStatus, StartReport, Status};
pub use error::Error;
pub use health::{Health, Role};
pub use older::program_of_next_process;
pub use process::ProcessState;
pub use profile::{ParseProfileError, Profile};
pub use select::{ParseSelectorError, Selector};
pub use server::Server;
pub use spec::{DataStore, SaslDigest, ServerSpec, Spec, SpecError, Warning, superuser_digest};
pub use zk_fault_proxy::FaultProxy;
pub use zk_fault_proxy::links::QuorumLinks;
pub use zk_provision::Distribution;
