//! Where releases of ZooKeeper differ.
//!
//! Pure: no I/O and no clock.

/// Whose ways the servers of an ensemble have, where releases differ.
///
/// | | [`V3_8`](Self::V3_8), as 3.8.0 | [`V3_9`](Self::V3_9), as 3.9.3 |
/// |---|---|---|
/// | the stat of a create in a transaction, unless of a container or with a time to live (ZOOKEEPER-4026) | not told | told |
/// | a watch of another kind on a node that the session watches already (ZOOKEEPER-4466) | takes its place | comes on top |
/// | the transaction behind what a persistent watch tells (ZOOKEEPER-4655) | not told | told |
/// | whether a node exists that the session may not read | is told | is refused |
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Release {
    /// ZooKeeper 3.8.0.
    V3_8,
    /// ZooKeeper 3.9.3, the default.
    #[default]
    V3_9,
}
