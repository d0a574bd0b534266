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

pub use clock::ClockShift;
pub(crate) use clock::{FILE as CLOCK_FILE, Library as ClockLibrary, UNMOVED};

/// The error for a fault or container that is not possible on this machine.
#[derive(Debug, thiserror::Error)]
#[error("{fault} is not possible here: {reason}")]
#[non_exhaustive]
pub struct Unavailable {
    /// The fault, such as "a clock that jumps".
    pub fault: &'static str,
    /// The missing requirement and the remedy.
    pub reason: String,
}
