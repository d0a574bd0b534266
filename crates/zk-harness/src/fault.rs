//! Faults on demand: what breaks in a data centre, as calls.
//!
//! | fault | call | undone by | needs |
//! |---|---|---|---|
//! | a server's process dies | [`Server::kill`], [`Server::stop`] | [`Server::start`] | nothing |
//! | a long garbage collection | [`Server::pause`] | [`Server::resume`] | nothing |
//! | a rolling upgrade | [`Ensemble::restart_rolling`] | by itself | nothing |
//! | a full disk | [`Server::fill_disk`] | [`Server::free_disk`] | Linux |
//! | a clock that jumps | [`Server::shift_clock`] | [`Server::shift_clock`] by zero | [`Spec::movable_clock`], which needs libfaketime |
//! | an expired session | [`Ensemble::expire`] | nothing can | nothing |
//!
//! None of them needs root.
//! What a fault needs and is not there is an error that says what would help, never a fault that silently did not
//! happen.
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

/// A fault cannot be made on this machine.
#[derive(Debug, thiserror::Error)]
#[error("{fault} cannot be made here: {reason}")]
#[non_exhaustive]
pub struct Unavailable {
    /// The fault, such as "a clock that jumps".
    pub fault: &'static str,
    /// What is missing, and what would help.
    pub reason: String,
}
