//! A fault proxy for ZooKeeper, and links between its servers that can be slowed, blocked and cut.

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
