//! A simulated ZooKeeper ensemble in memory.

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
