//! Where instances are, and how they are written.
//!
//! Pure: no I/O and no clock.

use std::fmt;

use zk_core::NodePath;
use zk_core::ParsePathError;
use zk_core::codec::DecodeError;
use zk_core::codec::EncodeError;

use crate::instance::Instance;
#[cfg(doc)]
use crate::instance::InstanceBuilder;

/// Where the services and their instances are below a base.
///
/// [`Curator`](crate::Curator) and [`Dubbo`](crate::Dubbo) are those of other clients.
pub trait Layout: fmt::Debug + Send + Sync + 'static {
    /// Returns the node whose children are the instances of a service.
    ///
    /// # Errors
    ///
    /// When there can be no such node.
    fn parent(&self, base: &NodePath, service: &str) -> Result<NodePath, ParsePathError>;

    /// Returns the name of the service that a child of the base stands for; `None` if it is none.
    fn service(&self, child: &str) -> Option<String>;
}

/// How an instance with a payload `P` is read from a node; what follows a service needs no more.
pub trait ReadFormat<P>: Layout {
    /// Reads an instance of `service` from a node of this name with this data.
    ///
    /// The registration time that was written is kept with [`InstanceBuilder::registration_time`]; an update of an instance
    /// that was read without one writes the one that it had.
    ///
    /// # Errors
    ///
    /// When it is none; the node is then [quarantined](crate::Quarantined).
    fn decode(&self, service: &str, node: &str, data: &[u8]) -> Result<Instance<P>, BadEntry>;
}

/// How an instance with a payload `P` is written into a node; what registers needs it.
pub trait Format<P>: ReadFormat<P> {
    /// Returns the name and the data of the node of an instance.
    ///
    /// Two registrations have to differ in one of both, as their
    /// [registration times](Instance::registration_time) do, which is another one for each create of this process.
    /// When an answer was lost, and when a call was dropped whose request may still make its node, it is that which tells
    /// whose node is there.
    /// An instance whose registrations are all written alike is registered as well, with these drawbacks: it waits first
    /// until all is removed that the session is removing in the background, and two registries of one session may both
    /// take one node for theirs.
    ///
    /// # Errors
    ///
    /// When the format cannot express it.
    fn encode(&self, instance: &Instance<P>) -> Result<Entry, EncodeError>;
}

/// The name and the data of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "a node has nothing else that is written"
)]
pub struct Entry {
    /// The name.
    pub name: String,
    /// The data.
    pub data: Vec<u8>,
}

/// Why a node among the instances of a service is none.
///
/// The messages may quote what the node has; the debug output does not.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadEntry {
    /// It cannot be read.
    #[error("it cannot be decoded")]
    Undecodable(#[from] DecodeError),
    /// It says that it is an instance of another service.
    #[error("it is of the service {found:?}, and not of {expected:?}")]
    OtherService {
        /// The service it says.
        found: String,
        /// The service below which it is.
        expected: String,
    },
    /// It says that it is an instance that belongs into another node.
    #[error("it has the id {found:?}, and is in the node {node:?}")]
    OtherId {
        /// The id it says.
        found: String,
        /// The name of the node.
        node: String,
    },
    /// It is larger than is read.
    #[error("it has {length} bytes, and at most {most} are read; see `with_most_bytes`")]
    TooLarge {
        /// Its size.
        length: usize,
        /// The [limit](crate::ProviderOptions::with_most_bytes).
        most: usize,
    },
    /// The server does not let this session read it.
    #[error("the server does not let it be read; the session needs READ on the node")]
    Unreadable,
    /// The code that decodes the payload panicked.
    #[error("its decoder panicked; see the output of the panic")]
    Panicked,
}

impl BadEntry {
    /// Says what is wrong and where, without anything of what the node has, which may be a secret.
    pub(crate) fn in_short(&self) -> String {
        match self {
            Self::Undecodable(error) => {
                let place = error.position();
                let place = place.map_or_else(String::new, |place| format!(" at {place}"));
                format!("{}: {:?}{place}", error.format(), error.kind())
            }
            Self::OtherService { .. } => "it is of another service".to_owned(),
            Self::OtherId { .. } => "it has the id of another node".to_owned(),
            Self::TooLarge { .. } | Self::Unreadable | Self::Panicked => self.to_string(),
        }
    }
}

/// Without what the node has.
impl fmt::Debug for BadEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BadEntry({})", self.in_short())
    }
}
