//! Groups on real servers.

#![cfg(test)]

mod auto_traits;
#[cfg(feature = "partitioner")]
#[path = "../shared/oracle.rs"]
mod oracle;
#[cfg(feature = "partitioner")]
mod partitioner;
mod servers;
