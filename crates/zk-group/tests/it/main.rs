//! Groups on real servers.

#![cfg(test)]

mod auto_traits;
mod servers;
