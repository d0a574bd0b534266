//! Where instances are, and how they are written.

use std::fmt;

use zk_core::NodePath;
use zk_core::ParsePathError;
use zk_core::codec::DecodeError;
use zk_core::codec::EncodeError;

use crate::instance::Instance;

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

/// How an instance with a payload `P` is written into a node, and read from it.
pub trait Format<P>: Layout {
    /// Returns the name and the data of the node of an instance.
    ///
    /// # Errors
    ///
    /// When the format cannot express it.
    fn encode(&self, instance: &Instance<P>) -> Result<Entry, EncodeError>;

    /// Reads an instance of `service` from a node of this name with this data.
    ///
    /// # Errors
    ///
    /// When it is none; the node is then [quarantined](crate::Quarantined).
    fn decode(&self, service: &str, node: &str, data: &[u8]) -> Result<Instance<P>, BadEntry>;
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
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
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
