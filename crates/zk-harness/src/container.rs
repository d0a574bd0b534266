//! Servers in containers, as an alternative to processes on this machine.
//!
//! With the feature `containers`, [`EnsembleBuilder::containers`](crate::EnsembleBuilder::containers) starts each server
//! in a container of its own, through testcontainers, on a private network of the ensemble.
//! Everything else stays as it is: the same [`Ensemble`](crate::Ensemble) and the same [`Server`](crate::Server), whose
//! process is then a container that is started, stopped, killed, paused and [taken off its
//! network](crate::Server::disconnect).
//!
//! What differs:
//!
//! - The port of a server on this machine changes whenever its container starts or comes back to its network. Ask for
//!   [`Ensemble::connect_string`](crate::Ensemble::connect_string) again.
//! - Data lies in the containers, on disk. [`DataStore::Memory`](crate::DataStore::Memory), ports of one's own, fault
//!   proxies, movable clocks, full disks and detached ensembles are for processes.
//! - The containers and the network go when the ensemble is dropped, also by a panic. A test that is killed with
//!   `kill -9` leaves them; the next ensemble in containers that is started on this machine removes them, unless the
//!   machine was restarted meanwhile.

#[cfg(feature = "containers")]
mod fleet;
#[cfg(feature = "containers")]
mod image;
#[cfg(feature = "containers")]
mod member;
#[cfg(not(feature = "containers"))]
mod none;
#[cfg(feature = "containers")]
mod stale;

use crate::fault::{Unavailable, decide, is_set};

#[cfg(feature = "containers")]
pub(crate) use fleet::Fleet;
#[cfg(feature = "containers")]
pub use fleet::probe;
#[cfg(feature = "containers")]
pub use image::ContainerImage;
#[cfg(feature = "containers")]
pub(crate) use member::Member as Container;
#[cfg(not(feature = "containers"))]
pub(crate) use none::{Container, ContainerImage, Fleet};

/// Answers whether there is a container engine, for a test that is not run without one.
///
/// With `ZK_HARNESS_REQUIRE_CONTAINERS` set to anything but `0` or nothing, the lack of one is an error instead of a line
/// on standard error: set it where tests that are not run would go unnoticed, such as in CI.
///
/// # Errors
///
/// `probed`, where the variable says that an engine is required.
pub fn require<T>(probed: Result<T, Unavailable>) -> Result<Option<T>, Unavailable> {
    decide(probed, is_set("ZK_HARNESS_REQUIRE_CONTAINERS"))
}

/// What is done to a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    Start,
    Stop,
    Kill,
    Pause,
    Resume,
    Disconnect,
    Connect,
}

impl Act {
    /// What it is called in an error.
    #[cfg_attr(
        not(feature = "containers"),
        expect(dead_code, reason = "there are no containers to speak of")
    )]
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Stop => "stop",
            Self::Kill => "kill",
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Disconnect => "disconnect",
            Self::Connect => "connect",
        }
    }
}
