//! The errors of a semaphore's limit.

use zk_core::NodePath;

/// The limit of a semaphore does not allow an acquire, however many leases are free.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LimitError {
    /// More leases were requested than the limit allows at all.
    #[error(
        "{wanted} leases of semaphore {path} were requested, but its limit is {limit}; request fewer or raise the limit"
    )]
    TooMany {
        /// The path of the semaphore.
        path: NodePath,
        /// The number of requested leases.
        wanted: u32,
        /// The limit.
        limit: u32,
    },
    /// Zero leases were requested.
    #[error("zero leases were requested; request at least one")]
    ZeroLeases,
    /// The stored limit is not the limit of this handle.
    #[error(
        "semaphore {path} has the stored limit {stored}, but this handle was created with {own}; \
         call `set_limit`, create the handle with {stored}, or make it adopt the stored limit"
    )]
    Differs {
        /// The path of the semaphore.
        path: NodePath,
        /// The stored limit.
        stored: u32,
        /// The limit of this handle.
        own: u32,
    },
    /// The data at the path is not a limit: the path may be in use for something else.
    #[error(
        "the data of semaphore {path} is not a decimal number up to 4294967295; \
         use another path, or store a limit with `set_limit`"
    )]
    NotANumber {
        /// The path of the semaphore.
        path: NodePath,
    },
}
