//! The layout of services and instances below a base path, and the format of their nodes.
//!
//! Pure: no I/O and no clock.

use std::fmt;

use zk_core::codec::{DecodeError, EncodeError};
use zk_core::{NodePath, ParsePathError};

use crate::instance::Instance;
#[cfg(doc)]
use crate::instance::InstanceBuilder;

/// Maps services to node paths below a base.
///
/// [`Curator`](crate::Curator), [`Dubbo`](crate::Dubbo) and [`Serverset`](crate::Serverset) are the layouts of other
/// clients.
pub trait Layout: fmt::Debug + Send + Sync + 'static {
    /// Returns the node whose children are the instances of a service.
    ///
    /// # Errors
    ///
    /// If the path is not a valid node path.
    fn parent(&self, base: &NodePath, service: &str) -> Result<NodePath, ParsePathError>;

    /// Returns the service of a child of the base; `None` if the child is not a service.
    fn service(&self, child: &str) -> Option<String>;

    /// Returns whether a child of a service's node, given by its name, is an instance. Other children are ignored, and
    /// not [quarantined](crate::Quarantined). By default every child is one.
    fn is_instance(&self, node: &str) -> bool {
        let _ = node;
        true
    }

    /// Returns whether the [parent](Self::parent) and missing ancestors are created as persistent nodes. By default they
    /// are container nodes, if the servers support these, which the servers delete once they are empty.
    ///
    /// Return true if another client of the layout creates the parent only once, or ends its watch when the parent is
    /// deleted.
    fn has_persistent_parent(&self) -> bool {
        false
    }
}

/// Decodes an instance with a payload `P` from a node; sufficient to follow a service.
pub trait ReadFormat<P>: Layout {
    /// Decodes an instance of `service` from the name and data of its node.
    ///
    /// Preserve the registration time with [`InstanceBuilder::registration_time`]; an update of an instance that was
    /// decoded without one writes its previous time.
    ///
    /// # Errors
    ///
    /// If the node is not a valid instance; it is then [quarantined](crate::Quarantined).
    fn decode(&self, service: &str, node: &str, data: &[u8]) -> Result<Instance<P>, BadEntry>;
}

/// Encodes an instance with a payload `P` into a node; required to register.
pub trait Format<P>: ReadFormat<P> {
    /// Returns the name and the data of the node of an instance.
    ///
    /// The name or the data should differ between two registrations. Including the
    /// [registration time](Instance::registration_time) ensures that: it is unique per create of this process.
    /// The difference identifies the creator of a node after a lost reply, and after a dropped call whose request may
    /// still create its node.
    /// A format that encodes all registrations of an instance alike works as well, with two drawbacks: registering
    /// first waits for all background removals of the session, and two registries of one session may both regard one
    /// node as theirs.
    ///
    /// # Errors
    ///
    /// If the format cannot express the instance.
    fn encode(&self, instance: &Instance<P>) -> Result<Entry, EncodeError>;
}

/// The name and the data of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "name and data are all that is written"
)]
pub struct Entry {
    /// The name.
    pub name: String,
    /// The data.
    pub data: Vec<u8>,
}

/// Why a node is not a valid instance.
///
/// The messages may quote the data of the node; the debug output does not.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadEntry {
    /// The data cannot be decoded.
    #[error("it cannot be decoded")]
    Undecodable(#[from] DecodeError),
    /// The node contains an instance of another service.
    #[error("it is an instance of service {found:?}, not of {expected:?}")]
    OtherService {
        /// The service in the data.
        found: String,
        /// The service of the parent node.
        expected: String,
    },
    /// The id in the data does not match the name of the node.
    #[error("its id {found:?} does not match the node {node:?}")]
    OtherId {
        /// The id in the data.
        found: String,
        /// The name of the node.
        node: String,
    },
    /// The data is too large.
    #[error("it has {length} bytes, more than the limit of {most}; see `with_most_bytes`")]
    TooLarge {
        /// Its size.
        length: usize,
        /// The [limit](crate::ProviderOptions::with_most_bytes).
        most: usize,
    },
    /// Its address contains a control character, such as a line break.
    #[error("its address contains a control character")]
    ControlCharacter,
    /// The session may not read the node.
    #[error("the session may not read it; grant READ on the node")]
    Unreadable,
    /// The code that decodes the payload panicked.
    #[error("its decoder panicked; see the output of the panic")]
    Panicked,
}

impl BadEntry {
    /// Returns the reason and position without any data of the node, which may be secret.
    pub(crate) fn in_short(&self) -> String {
        match self {
            Self::Undecodable(error) => {
                let place = error.position();
                let place = place.map_or_else(String::new, |place| format!(" at {place}"));
                format!("{}: {:?}{place}", error.format(), error.kind())
            }
            Self::OtherService { .. } => "it is of another service".to_owned(),
            Self::OtherId { .. } => "it has the id of another node".to_owned(),
            Self::TooLarge { .. } | Self::ControlCharacter | Self::Unreadable | Self::Panicked => {
                self.to_string()
            }
        }
    }
}

/// Omits the data of the node.
impl fmt::Debug for BadEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BadEntry({})", self.in_short())
    }
}
