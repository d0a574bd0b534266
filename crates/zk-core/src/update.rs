//! The updates of subscriptions.

use zk_wire::NodePath;

use crate::transport::WatchEvent;

/// What a [`Subscription`](crate::Subscription) reports.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Update {
    /// The consumer must read again what it relies on. Changes before this update may have been missed; later changes
    /// are reported.
    ///
    /// The first update of every subscription, repeated each time the watch was set again or the buffer overflowed.
    Resynchronize,
    /// No change is reported until the next [`Resynchronize`](Self::Resynchronize), because the connection broke, or
    /// because the watch is replaced by one that also covers another subscription of the same node.
    Stale,
    /// A node changed.
    ///
    /// The node may have changed again since. The consumer may already have seen this change in a read after the last
    /// [`Resynchronize`](Self::Resynchronize).
    Changed {
        /// The path of the node, relative to the namespace.
        path: NodePath,
        /// How it changed; never [`WatchEvent::SessionLost`].
        event: WatchEvent,
        /// The transaction of the change: a read whose [`Stat`](crate::Stat) has this `mzxid` or a later one contains it,
        /// and for children this `pzxid`. Servers before 3.9 do not send it.
        zxid: Option<i64>,
    },
    /// The session is over. The last update.
    SessionLost,
}

/// Kinds of changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kinds(u8);

impl Kinds {
    pub(crate) const fn all() -> Self {
        Self(u8::MAX)
    }

    pub(crate) const fn contains(self, event: WatchEvent) -> bool {
        self.0 & Self::bit(event) != 0
    }

    const fn bit(event: WatchEvent) -> u8 {
        match event {
            WatchEvent::Created => 1,
            WatchEvent::Deleted => 2,
            WatchEvent::DataChanged => 4,
            WatchEvent::ChildrenChanged => 8,
            WatchEvent::SessionLost => 16,
        }
    }
}

impl FromIterator<WatchEvent> for Kinds {
    fn from_iter<I: IntoIterator<Item = WatchEvent>>(events: I) -> Self {
        let bits = events.into_iter().map(Self::bit);
        Self(bits.fold(0, |all, bit| all | bit))
    }
}
