//! Runs servers in containers instead of processes on this machine.
//!
//! With the feature `containers`, [`EnsembleBuilder::containers`](crate::EnsembleBuilder::containers) starts each server
//! in a container of its own, through testcontainers, on a private network of the ensemble.
//! [`Ensemble`](crate::Ensemble) and [`Server`](crate::Server) are the same; a server is then a container that can be
//! started, stopped, killed, paused and [disconnected from its network](crate::Server::disconnect).
//!
//! # Differences
//!
//! An operation that containers do not support returns an error with the remedy.
//!
//! | | servers that are processes | servers in containers |
//! |---|---|---|
//! | `zk-ensemble up` | the default | `--backend containers` |
//! | needs | nothing: ZooKeeper and Java are found or downloaded | a container engine, and the feature `containers` |
//! | ZooKeeper | [`Spec::zookeeper`](crate::Spec::zookeeper) | the same with [`ContainerImage::Debian`]; another image has its own |
//! | start, stop, kill, restart, pause, resume, rolling restart | yes | yes |
//! | detach, attach, logs, sessions that expire | yes | yes |
//! | client port | constant; can be chosen | changes whenever the container starts or is reconnected to its network; none while it is stopped; cannot be chosen |
//! | process id | yes | none; the container's name instead |
//! | data | on disk or in memory, in the ensemble's directory | on disk, in the containers |
//! | files that are [kept](crate::Keep) after a failure | all | logs and configuration |
//! | fault proxies: `--proxied`, `partition`, `slow`, `cut` | yes | refused |
//! | links between servers | yes | refused; [`Server::disconnect`](crate::Server::disconnect) disconnects a server from the network |
//! | full disk: `fill-disk` | yes | refused |
//! | movable clock: `clock` | yes | refused |
//! | after `kill -9` of the process that started it | a guard process cleans up at once | the files are removed at once; containers and network when the next ensemble in containers starts, unless the machine was restarted meanwhile |
//!
//! The client port changes, so call [`Ensemble::connect_string`](crate::Ensemble::connect_string) again after a server
//! was started.
//!
//! The program `zk-ensemble` uses the image in `ZK_HARNESS_IMAGE`, or else [`ContainerImage::Debian`], which needs no
//! registry.

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
pub(crate) use containers::Containers;
#[cfg(feature = "containers")]
pub use image::ContainerImage;
#[cfg(feature = "containers")]
pub(crate) use member::Member as Container;
#[cfg(not(feature = "containers"))]
pub(crate) use none::{Container, ContainerImage, Containers};

/// The prefix of the names of an ensemble's containers and network.
pub(crate) const PREFIX: &str = "zk-harness-";

/// An action on a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ContainerAction {
    Start,
    Stop,
    Kill,
    Pause,
    Resume,
    Disconnect,
    Connect,
    /// Copies its output to the server's log file, now and from then on.
    FollowLog,
}

impl ContainerAction {
    /// Returns the verb for error messages.
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
