//! Injects faults into servers and sessions by method calls.
//!
//! | fault | call | undone by | requires |
//! |---|---|---|---|
//! | a server's process dies | [`Server::kill`], [`Server::stop`] | [`Server::start`] | nothing |
//! | a long garbage collection | [`Server::pause`] | [`Server::resume`] | nothing |
//! | a rolling upgrade | [`Ensemble::restart_rolling`] | not applicable | nothing |
//! | a full disk | [`Server::fill_disk`] | [`Server::free_disk`] | Linux |
//! | a clock that jumps | [`Server::shift_clock`] | [`Server::shift_clock`] by zero | [`Spec::movable_clock`], which needs libfaketime |
//! | an expired session | [`Ensemble::expire`] | not possible | nothing |
//!
//! None of them requires root.
//! If a requirement is missing, the call returns an error with the remedy; it never ignores a fault.
//!
//! [`Spec::movable_clock`]: crate::Spec::movable_clock

mod clock;
mod disk;
mod expire;
mod java;
mod rolling;

#[cfg(doc)]
use crate::{Ensemble, Server};

pub use crate::movable_clock::ClockShift;
pub use crate::unavailable::Unavailable;
