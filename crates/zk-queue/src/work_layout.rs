//! Where a work queue has its items, claims and dead letters: in its own layout, or in that of another client.
//!
//! Pure: no I/O and no clock.

use zk_core::NodePath;

use crate::error::PathError;
use crate::layout::Layout;
use crate::paths::{QueuePaths, beside, child};

/// Where a [`WorkQueue`](crate::WorkQueue) has its nodes, and how they are named.
///
/// All clients that share a path have to agree on it. Consumers of the other client and of this crate then share the
/// items: a claim of ours is to them an item that another consumer has, and theirs is a claim to us.
///
/// | layout | items | claims | shares a path with |
/// |---|---|---|---|
/// | [`Native`](Self::Native) | `<path>/items/w-…` | `<path>/claims/0-w-…` | this crate |
/// | [`KazooLocking`](Self::KazooLocking) | `<path>/entries/entry-<priority>-%010d` | `<path>/taken/<item>` | kazoo's `LockingQueue` |
/// | [`Curator`](Self::Curator) | `<path>/queue-%010d` | `<lock path>/<item>` | Curator's `DistributedQueue` with a lock path |
/// | [`CuratorPriority`](Self::CuratorPriority), [`CuratorDelay`](Self::CuratorDelay), [`CuratorId`](Self::CuratorId) | as in [`Layout`] | `<lock path>/<item>` | Curator's queues of these kinds with a lock path |
///
/// While the sessions of all consumers live, no item is processed by two of them, whichever client they use, with the
/// exception of Curator's repeated deletions below. When a session expires, its items are delivered again, to any
/// consumer.
///
/// With the layout of another client, this is different:
///
/// - The item keeps its name as long as it is in the queue. A [rejection with a delay](crate::Claim::reject), and that of
///   an item which the codec cannot decode, keeps the item from this process for that time; other consumers may claim it
///   at once.
/// - So an item which no consumer can decode or process may use up its deliveries in seconds if there are many processes:
///   each one counts, and waits on its own. While consumers with an old format run,
///   [`with_max_deliveries`](crate::WorkOptions::with_max_deliveries) should be 16 for each process of theirs.
/// - Only deliveries to consumers of this crate count. The others know no dead letters, and do not see ours, which are in
///   `<path>/dead`, or with Curator's layouts in `<path>-dead`.
/// - Consumers of the other client do not check their claim when they finish. One whose session has expired deletes the
///   item all the same, also while a consumer of this crate has it; that one then gets
///   [`SettleError::Lost`](crate::SettleError::Lost). A consumer of this crate does not.
/// - Curator repeats the deletion of a claim until there is a reply, also if the deletion of the item has failed, and
///   whichever consumer has the claim by then. Another consumer may then claim the item while this one processes it,
///   although both sessions live. [`Claim::is_valid`](crate::Claim::is_valid) does not notice that, but
///   [`Claim::lost`](crate::Claim::lost) does within some seconds, and so does an acknowledgement.
/// - When processing fails, a consumer of Curator's with a lock path creates the item again at the end, with a name of its
///   plain queue: the priority, the due time and our count of deliveries are lost, and it comes before all others. If
///   its session has expired, it does so although another consumer has the item, which is then delivered once more.
/// - If the other client has lost the reply to the creation of its claim, it does not process the item, and keeps the
///   claim as long as its session lives; [`WorkQueue::claims`](crate::WorkQueue::claims) shows it.
/// - A consumer of Curator's learns of an item whose claim has ended only when the next item is added or removed.
/// - A node with several items, which Curator's `putMulti` writes, is left to Curator's consumers, with a warning. A
///   [`Queue`](crate::Queue) with the same [`Layout`] takes the items one by one, once no consumer uses the lock path. Let it take all of them: a
///   take counts as a delivery of those that are left.
/// - The other client sees the items of the queue's own node, and not those of segments, which begin after
///   [16,384 items](crate::WorkOptions::with_segment_size). Unless a consumer of this crate always runs, set that to
///   `u32::MAX`.
/// - The parents of items and claims are persistent, because the other client creates them only once.
///
/// Every client of a path, producers too, has to use the lock path, and the same one; of this crate, it has to be a
/// [`WorkQueue`](crate::WorkQueue) with this layout. Curator's queues without a lock path, and a
/// [`Queue`](crate::Queue), take or remove items that other consumers have claimed. A parent of items that exists as a
/// container, as earlier builds created it for a `Queue`, stays one. The servers delete it when it is empty, and Curator's
/// consumers then wait for ever: delete it before the first client is used.
///
/// [`WorkQueue::check_layout`](crate::WorkQueue::check_layout) finds out that a path has items of another layout. By their
/// names, those of [`CuratorDelay`](Self::CuratorDelay) are items of [`CuratorId`](Self::CuratorId), too, and those of
/// [`Curator`](Self::Curator) are items of [`CuratorDelay`](Self::CuratorDelay) and
/// [`CuratorPriority`](Self::CuratorPriority). `Native` and `KazooLocking` cannot share a path: their items have different
/// parents, but the same segments and dead letters.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WorkLayout {
    /// Priorities and delays; shared with this crate only.
    #[default]
    Native,
    /// Priorities from 0 to 999, as kazoo's `LockingQueue`.
    KazooLocking,
    /// First in, first out, as Curator's `DistributedQueue` with a lock path.
    Curator {
        /// The parent of the claims, as in `QueueBuilder.lockPath`.
        lock_path: NodePath,
    },
    /// Priorities, as Curator's `DistributedPriorityQueue` with a lock path.
    CuratorPriority {
        /// The parent of the claims.
        lock_path: NodePath,
    },
    /// Delays, as Curator's `DistributedDelayQueue` with a lock path.
    CuratorDelay {
        /// The parent of the claims.
        lock_path: NodePath,
    },
    /// Items with [ids of the application](crate::Offer::id), as Curator's `DistributedIdQueue` with a lock path.
    CuratorId {
        /// The parent of the claims.
        lock_path: NodePath,
    },
}

/// The paths of one work queue.
#[derive(Debug, Clone)]
pub(crate) struct WorkPaths {
    pub(crate) queue: QueuePaths,
    /// The parent of the claims.
    pub(crate) claims: NodePath,
    /// The parent of the dead letters.
    pub(crate) dead_letters: NodePath,
}

impl WorkLayout {
    /// Returns the layout of the items.
    pub const fn items(&self) -> Layout {
        match self {
            Self::Native => Layout::Native,
            Self::KazooLocking => Layout::Kazoo,
            Self::Curator { .. } => Layout::Curator,
            Self::CuratorPriority { .. } => Layout::CuratorPriority,
            Self::CuratorDelay { .. } => Layout::CuratorDelay,
            Self::CuratorId { .. } => Layout::CuratorId,
        }
    }

    const fn lock_path(&self) -> Option<&NodePath> {
        match self {
            Self::Native | Self::KazooLocking => None,
            Self::Curator { lock_path }
            | Self::CuratorPriority { lock_path }
            | Self::CuratorDelay { lock_path }
            | Self::CuratorId { lock_path } => Some(lock_path),
        }
    }

    /// Returns the paths of the queue at `path`.
    pub(crate) fn paths(&self, path: &NodePath) -> Result<WorkPaths, PathError> {
        let paths = match (self, self.lock_path()) {
            (_, Some(lock_path)) => WorkPaths {
                queue: QueuePaths::beside(path).shared(),
                claims: lock_path.clone(),
                dead_letters: beside(path, "dead"),
            },
            (Self::KazooLocking, None) => WorkPaths {
                queue: QueuePaths::below(path, "entries").shared(),
                claims: child(path, "taken"),
                dead_letters: child(path, "dead"),
            },
            (_, None) => WorkPaths {
                queue: QueuePaths::below(path, "items"),
                claims: child(path, "claims"),
                dead_letters: child(path, "dead"),
            },
        };
        let others = [
            &paths.queue.items,
            &paths.queue.control_node,
            &paths.dead_letters,
        ];
        if others.contains(&&paths.claims) {
            return Err(PathError::LockPath {
                lock_path: paths.claims,
            });
        }
        Ok(paths)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> NodePath {
        NodePath::parse(text).unwrap()
    }

    fn texts(layout: &WorkLayout) -> [String; 4] {
        let WorkPaths {
            queue,
            claims,
            dead_letters,
        } = layout.paths(&path("/q/jobs")).unwrap();
        [queue.items, queue.control_node, claims, dead_letters].map(|path| path.to_string())
    }

    #[test]
    fn items_and_claims_are_where_the_other_client_has_them() {
        assert_eq!(
            texts(&WorkLayout::Native),
            [
                "/q/jobs/items",
                "/q/jobs/receipts",
                "/q/jobs/claims",
                "/q/jobs/dead"
            ]
        );
        assert_eq!(
            texts(&WorkLayout::KazooLocking),
            [
                "/q/jobs/entries",
                "/q/jobs/receipts",
                "/q/jobs/taken",
                "/q/jobs/dead"
            ]
        );
        let lock_path = path("/locks");
        assert_eq!(
            texts(&WorkLayout::CuratorId { lock_path }),
            ["/q/jobs", "/q/jobs-receipts", "/locks", "/q/jobs-dead"]
        );
    }

    #[test]
    fn a_lock_path_is_not_a_node_of_the_queue() {
        for (lock_path, expected) in [
            ("/q/jobs", false),
            ("/q/jobs-receipts", false),
            ("/q/jobs-dead", false),
            ("/q/jobs-locks", true),
            ("/q/jobs/locks", true),
            ("/q", true),
        ] {
            let layout = WorkLayout::Curator {
                lock_path: path(lock_path),
            };
            let paths = layout.paths(&path("/q/jobs"));
            assert_eq!(paths.is_ok(), expected, "{lock_path}");
        }
    }
}
