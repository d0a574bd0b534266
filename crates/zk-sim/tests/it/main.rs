//! The simulated ensemble compared with real servers.
#![cfg(test)]

mod random;
mod real;
