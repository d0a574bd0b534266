//! Servers in containers, as an alternative to processes on this machine.
//!
//! With the feature `containers`, [`EnsembleBuilder::containers`](crate::EnsembleBuilder::containers) starts each server
//! in a container of its own, through testcontainers, on a private network of the ensemble.
//! Everything else stays as it is: the same [`Ensemble`](crate::Ensemble) and the same [`Server`](crate::Server), whose
//! process is then a container that is started, stopped, killed, paused and [taken off its
//! network](crate::Server::disconnect).
//!
//! # What differs
//!
//! What containers cannot do is refused with an error that says what would be right.
//!
//! | | servers that are processes | servers in containers |
//! |---|---|---|
//! | `zk-ensemble up` | the default | `--backend containers` |
//! | needs | nothing: ZooKeeper and Java are found or downloaded | a container engine, and the feature `containers` |
//! | ZooKeeper | [`Spec::zookeeper`](crate::Spec::zookeeper) | the same with [`ContainerImage::Debian`]; another image has its own |
//! | start, stop, kill, restart, pause, resume, rolling restart | yes | yes |
//! | detach, attach, logs, sessions that expire | yes | yes |
//! | port for clients | stays; can be chosen | changes whenever the container starts or comes back to its network, none while it is stopped; cannot be chosen |
//! | process id | yes | none; the container's name instead |
//! | data | on disk or in memory, in the ensemble's directory | on disk, in the containers |
//! | files that are [kept](crate::Keep) after a failure | all | logs and configuration |
//! | fault proxies: `--proxied`, `partition`, `slow`, `cut` | yes | refused |
//! | links between servers | yes | refused; [`Server::disconnect`](crate::Server::disconnect) takes one off the network |
//! | full disk: `fill-disk` | yes | refused |
//! | movable clock: `clock` | yes | refused |
//! | after `kill -9` of the process that started it | a guard process cleans up at once | the files go at once, containers and network when the next ensemble in containers is started, unless the machine was restarted meanwhile |
//!
//! As the port for clients changes, ask for [`Ensemble::connect_string`](crate::Ensemble::connect_string) again after a
//! server was started.
//!
//! The program `zk-ensemble` uses [`ContainerImage::Debian`], which needs no registry, unless `ZK_HARNESS_IMAGE` names an
//! image.

#[cfg(feature = "containers")]
mod containers;
#[cfg(feature = "containers")]
mod image;
#[cfg(feature = "containers")]
mod member;
#[cfg(not(feature = "containers"))]
mod none;
#[cfg(feature = "containers")]
mod stale;

#[cfg(feature = "containers")]
pub(crate) use containers::Fleet;
#[cfg(feature = "containers")]
pub use image::ContainerImage;
#[cfg(feature = "containers")]
pub(crate) use member::Member as Container;
#[cfg(not(feature = "containers"))]
pub(crate) use none::{Container, ContainerImage, Fleet};

/// What the names of an ensemble's containers and network begin with.
pub(crate) const PREFIX: &str = "zk-harness-";

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
    /// Copy what it has printed to the server's log file, and go on doing so.
    FollowLog,
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
            Self::FollowLog => "read the log of",
        }
    }
}
