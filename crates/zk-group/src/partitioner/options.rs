//! The settings of a partitioner.

use std::time::Duration;

use super::allocation::Allocation;

/// The settings of a partitioner.
///
/// # Defaults
///
/// - [`allocation`](Self::with_allocation): [`Allocation::Rendezvous`]
/// - [`settle_time`](Self::with_settle_time): 15 s
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionerOptions {
    pub(super) allocation: Allocation,
    pub(super) settle_time: Duration,
}

impl PartitionerOptions {
    /// Sets the function that allocates items to members. All members use the same one.
    ///
    /// The default is [`Allocation::Rendezvous`]. In a group with kazoo, it must be [`Allocation::Kazoo`].
    #[must_use]
    pub const fn with_allocation(mut self, allocation: Allocation) -> Self {
        self.allocation = allocation;
        self
    }

    /// Sets how long members and items must not have changed before they are acted on, so that a member that leaves and
    /// returns within that time moves nothing.
    ///
    /// The member of a process that died stays until its session expires; if the process has restarted by then, its id is in
    /// the group twice. Choose a time above the session timeout, so that this moves nothing either.
    ///
    /// The default is 15 s. If they never settle, the newest ones are acted on after ten times that. Until then, all items
    /// stay with their owners. Time without a connection does not count; after it, they have to settle anew. With zero, each
    /// change is acted on at once.
    #[must_use]
    pub const fn with_settle_time(mut self, settle_time: Duration) -> Self {
        self.settle_time = settle_time;
        self
    }
}

impl Default for PartitionerOptions {
    fn default() -> Self {
        Self {
            allocation: Allocation::default(),
            settle_time: Duration::from_secs(15),
        }
    }
}
