//! The contents of a cache at one moment, and the difference between two snapshots.
//!
//! Pure: no I/O and no clock.

use std::fmt;
use std::sync::Arc;

use rpds::RedBlackTreeMapSync;
use zk_core::{IntoNodePath, NodePath, ParsePathError};

use crate::event::{CacheEnd, Event, PartialRead};
use crate::node::Node;
use crate::node_store::NodeStore;

/// The contents of a cache at one moment. It is cheap to clone and never changes.
///
/// It outlives its cache and its session.
/// It contains the parent of each of its nodes, up to the root of the cache.
/// It is not the state of the ensemble at one moment: two nodes may have been read one after the other, and a change
/// made to both in one transaction may be visible in one of them only.
#[derive(Clone)]
pub struct Snapshot(pub(crate) Arc<SnapshotData>);

#[derive(Clone)]
pub(crate) struct SnapshotData {
    pub(crate) root: NodePath,
    /// Grows with each snapshot of one cache.
    pub(crate) revision: u64,
    pub(crate) store: NodeStore,
    pub(crate) partial_reads: RedBlackTreeMapSync<NodePath, PartialRead>,
    pub(crate) state: CacheState,
    /// How often the cache has become synchronised.
    pub(crate) sync_count: u64,
    pub(crate) synced_at: Option<i64>,
    pub(crate) end: Option<CacheEnd>,
}

/// How far the contents of a cache can be relied on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CacheState {
    /// The first load is not complete.
    Loading,
    /// The contents are complete, apart from changes on their way.
    Synchronized,
    /// The connection broke, or changes may have been missed. The contents are from before, until the cache has
    /// compared them with the server.
    Stale,
    /// The cache has ended, and its contents are from before.
    Ended,
}

impl Snapshot {
    /// Returns the snapshot of a cache that has loaded nothing yet.
    ///
    /// # Errors
    ///
    /// If `root` is not a valid node path.
    pub fn empty(root: impl IntoNodePath) -> Result<Self, ParsePathError> {
        root.into_node_path().map(Self::empty_at)
    }

    pub(crate) fn empty_at(root: NodePath) -> Self {
        Self(Arc::new(SnapshotData {
            root,
            revision: 0,
            store: NodeStore::default(),
            partial_reads: RedBlackTreeMapSync::new_sync(),
            state: CacheState::Loading,
            sync_count: 0,
            synced_at: None,
            end: None,
        }))
    }

    /// Returns the path of the root of the cache, whether or not there is such a node.
    pub fn path(&self) -> &NodePath {
        &self.0.root
    }

    /// Returns the root of the cache, if it exists.
    pub fn root(&self) -> Option<&Node> {
        self.get(&self.0.root)
    }

    /// Returns the node at `path`, a text or a [`NodePath`]; `None` if it is not cached.
    ///
    /// A text that is not a valid path, such as `/a/`, is the path of no node.
    ///
    /// # Cost
    ///
    /// No allocation: the text is looked up as it is.
    pub fn get(&self, path: impl AsRef<str>) -> Option<&Node> {
        self.0.store.get(path.as_ref())
    }

    /// Returns the cached children of a node, ordered by name; none if the node is not cached.
    pub fn children(&self, path: impl AsRef<str>) -> impl Iterator<Item = &Node> {
        self.0.store.children(path.as_ref())
    }

    /// Returns the node at `path` and all nodes below it, each before its children, and children ordered by name; none
    /// if the node is not cached.
    ///
    /// ```
    /// use zk_cache::Snapshot;
    ///
    /// let snapshot = Snapshot::empty("/app")?;
    /// let names = snapshot.subtree("/app/pools").filter_map(|node| node.name());
    /// assert_eq!(names.count(), 0);
    /// # Ok::<(), zk_core::ParsePathError>(())
    /// ```
    ///
    /// # Cost
    ///
    /// Copies nothing. Each node is looked up when the iterator reaches it.
    pub fn subtree(&self, path: impl AsRef<str>) -> impl Iterator<Item = &Node> {
        self.0.store.subtree(path.as_ref())
    }

    /// Returns all nodes, each before its children, and children ordered by name.
    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.0.store.subtree(self.0.root.as_str())
    }

    /// Returns the number of nodes.
    pub fn len(&self) -> usize {
        self.0.store.len()
    }

    /// Returns whether there are no nodes, not even the root.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns how far the contents can be relied on.
    pub fn state(&self) -> CacheState {
        self.0.state
    }

    /// Returns whether the contents are complete, apart from changes on their way.
    pub fn is_synchronized(&self) -> bool {
        self.0.state == CacheState::Synchronized
    }

    /// Returns the newest transaction that the cache had seen when it last had nothing older left to read; `None`
    /// before the first [`Synchronized`](Event::Synchronized).
    ///
    /// It grows only with changes at or below the root.
    /// The contents include every change of an older transaction, apart from those whose notification the cache has not
    /// handled yet. It may handle that of an older change shortly after it has read a newer one. This number tells how
    /// fresh the snapshot is, and is no barrier: to wait for a certain change, compare the `mzxid` of its node.
    pub fn synced_at(&self) -> Option<i64> {
        self.0.synced_at
    }

    /// Returns the nodes that could not be read completely, and why.
    pub fn partial_reads(&self) -> impl Iterator<Item = (&NodePath, PartialRead)> {
        let all = self.0.partial_reads.iter();
        all.map(|(path, partial)| (path, *partial))
    }

    /// Returns why the cache has ended, if it has.
    pub fn end(&self) -> Option<&CacheEnd> {
        self.0.end.as_ref()
    }

    /// Returns the events that lead from the snapshot `older` to this one.
    ///
    /// A node that was created again in between is reported as [`Deleted`](Event::Deleted) and
    /// [`Created`](Event::Created).
    /// Deletions come first, children before their parents; the rest follows, parents before their children.
    ///
    /// # Cost
    ///
    /// Compares all nodes of both.
    pub fn since(&self, older: &Self) -> Vec<Event> {
        let (older, newer) = (&older.0, &self.0);
        let was_synchronized = older.state == CacheState::Synchronized;
        let has_resynced = older.sync_count != newer.sync_count;
        let mut events = Vec::new();
        if was_synchronized && has_resynced {
            events.push(Event::Stale);
        }
        let mut deleted: Vec<_> = older
            .store
            .subtree(older.root.as_str())
            .filter(|old| {
                let new = newer.store.get(old.path());
                new.is_none_or(|new| !new.is_same(old))
            })
            .map(|old| Event::Deleted(old.clone()))
            .collect();
        deleted.reverse();
        events.append(&mut deleted);
        for new in newer.store.subtree(newer.root.as_str()) {
            match older.store.get(new.path()) {
                Some(old) if old.is_same(new) => {
                    if !old.has_content(new.mzxid(), new.data()) {
                        let (old, new) = (old.clone(), new.clone());
                        events.push(Event::Changed { old, new });
                    }
                }
                _ => events.push(Event::Created(new.clone())),
            }
        }
        for (path, reason) in &newer.partial_reads {
            if older.partial_reads.get(path) != Some(reason) {
                events.push(Event::Incomplete {
                    path: path.clone(),
                    reason: *reason,
                });
            }
        }
        match (newer.state, newer.synced_at) {
            (CacheState::Synchronized, Some(synced_at)) if !was_synchronized || has_resynced => {
                events.push(Event::Synchronized { synced_at });
            }
            (CacheState::Stale, _) if was_synchronized && !has_resynced => {
                events.push(Event::Stale);
            }
            _ => {}
        }
        if let (Some(end), None) = (&newer.end, &older.end) {
            events.push(Event::Ended(end.clone()));
        }
        events
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot")
            .field("path", &self.0.root)
            .field("nodes", &self.len())
            .field("state", &self.0.state)
            .field("synced_at", &self.0.synced_at)
            .field("end", &self.0.end)
            .finish_non_exhaustive()
    }
}
