//! The differences between releases of ZooKeeper.
//!
//! Pure: no I/O and no clock.

use zk_core::transport::Request;

/// The release whose behaviour the servers of an ensemble have.
///
/// | | [`V3_8`](Self::V3_8), as 3.8.0 | [`V3_9`](Self::V3_9), as 3.9.3 |
/// |---|---|---|
/// | the stat of a create in a transaction, except for containers and TTL nodes (ZOOKEEPER-4026) | missing | returned |
/// | a watch of another kind on a node that the session already watches (ZOOKEEPER-4466) | replaces it | is added |
/// | the zxid in an event of a persistent watch (ZOOKEEPER-4655) | missing | present |
/// | a change that a watch has missed without a connection, of a node that the session may not read | reported | not reported |
/// | `exists` of a node that the session may not read | answered | refused |
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Release {
    /// ZooKeeper 3.8.0.
    V3_8,
    /// ZooKeeper 3.9.3, the default.
    #[default]
    V3_9,
}

/// Returns whether servers know a request since 3.6.
pub(crate) const fn is_of_3_6(request: &Request) -> bool {
    matches!(
        request,
        Request::AddWatch { .. }
            | Request::MultiRead(_)
            | Request::GetEphemerals { .. }
            | Request::GetAllChildrenNumber { .. }
            | Request::WhoAmI
    )
}
