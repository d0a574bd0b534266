//! What a cache has at one moment, and the difference between two of them.
//!
//! Pure: no I/O and no clock.

use std::fmt;
use std::sync::Arc;

use rpds::RedBlackTreeMapSync;
use zk_core::NodePath;
use zk_core::ParsePathError;

use crate::event::End;
use crate::event::Event;
use crate::event::Gap;
use crate::node::Node;
use crate::node_store::Store;

/// Everything a cache has at one moment; cheap to clone, and never changed.
///
/// It outlives its cache and its session.
/// Each node in it has its parent in it, up to the root of the cache.
/// It is no picture of one moment of the ensemble: two nodes may have been read one after the other, and a change made
/// to both in one transaction may be in it for one of them only.
#[derive(Clone)]
pub struct Snapshot(pub(crate) Arc<Picture>);

#[derive(Clone)]
pub(crate) struct Picture {
    pub(crate) root: NodePath,
    /// Grows with each picture of one cache.
    pub(crate) revision: u64,
    pub(crate) store: Store,
    pub(crate) gaps: RedBlackTreeMapSync<NodePath, Gap>,
    pub(crate) state: State,
    /// How often the cache was synchronised.
    pub(crate) rounds: u64,
    pub(crate) synced_at: Option<i64>,
    pub(crate) end: Option<End>,
}

/// How far what a cache has can be relied on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum State {
    /// It has not read everything for the first time yet.
    Loading,
    /// It has everything but what is on its way.
    Synchronized,
    /// The connection broke, or changes may have been missed; what it has is from before, and is being compared.
    Stale,
    /// It has ended, and what it has is from before.
    Ended,
}

impl Snapshot {
    /// Returns the snapshot of a cache that has nothing yet.
    ///
    /// # Errors
    ///
    /// When `root` is not a path.
    pub fn empty<P>(root: P) -> Result<Self, ParsePathError>
    where
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        root.try_into().map(Self::nothing).map_err(Into::into)
    }

    pub(crate) fn nothing(root: NodePath) -> Self {
        Self(Arc::new(Picture {
            root,
            revision: 0,
            store: Store::default(),
            gaps: RedBlackTreeMapSync::new_sync(),
            state: State::Loading,
            rounds: 0,
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

    /// Returns a node.
    pub fn get(&self, path: &NodePath) -> Option<&Node> {
        self.0.store.get(path)
    }

    /// Returns the children of a node that the cache has, by their names; none when it does not have the node.
    pub fn children(&self, path: &NodePath) -> impl Iterator<Item = &Node> {
        self.0.store.children(path)
    }

    /// Returns all nodes, each before its children, and children by their names.
    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.0.store.below(&self.0.root)
    }

    /// Returns the number of nodes.
    pub fn len(&self) -> usize {
        self.0.store.len()
    }

    /// Tells whether there is no node, not even the root.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns how far this can be relied on.
    pub fn state(&self) -> State {
        self.0.state
    }

    /// Tells whether this has everything but what is on its way.
    pub fn is_synchronized(&self) -> bool {
        self.0.state == State::Synchronized
    }

    /// Returns the newest transaction that the cache had seen when it last had nothing older left to read; `None` before
    /// the first [`Synchronized`](Event::Synchronized).
    ///
    /// It grows with changes below the root only.
    /// Whatever an older transaction changed is in here, but for what the server has told a moment ago and the cache has not
    /// heard yet: it says how fresh this is, and is no barrier.
    /// Who waits for a certain change looks at the `mzxid` of its node.
    pub fn synced_at(&self) -> Option<i64> {
        self.0.synced_at
    }

    /// Returns what is missing, and of which nodes.
    pub fn gaps(&self) -> impl Iterator<Item = (&NodePath, Gap)> {
        self.0.gaps.iter().map(|(path, gap)| (path, *gap))
    }

    /// Returns why the cache has ended, if it has.
    pub fn end(&self) -> Option<&End> {
        self.0.end.as_ref()
    }

    /// Returns what a consumer has to be told that knows `older` to know this.
    ///
    /// A node that was made anew in between is a [`Deleted`](Event::Deleted) and a [`Created`](Event::Created).
    /// Every deletion comes first, children before their parents, then the rest, parents before their children.
    ///
    /// # Cost
    ///
    /// All nodes of both are looked at.
    pub fn since(&self, older: &Self) -> Vec<Event> {
        let (older, newer) = (&older.0, &self.0);
        let was_synchronized = older.state == State::Synchronized;
        let is_another_round = older.rounds != newer.rounds;
        let mut events = Vec::new();
        if was_synchronized && is_another_round {
            events.push(Event::Stale);
        }
        let mut gone: Vec<_> = older
            .store
            .below(&older.root)
            .filter(|old| {
                let new = newer.store.get(old.path());
                new.is_none_or(|new| !new.is_same(old))
            })
            .map(|old| Event::Deleted(old.clone()))
            .collect();
        gone.reverse();
        events.append(&mut gone);
        for new in newer.store.below(&newer.root) {
            match older.store.get(new.path()) {
                Some(old) if old.is_same(new) => {
                    if !old.says_the_same(new) {
                        let (old, new) = (old.clone(), new.clone());
                        events.push(Event::Changed { old, new });
                    }
                }
                _ => events.push(Event::Created(new.clone())),
            }
        }
        for (path, gap) in &newer.gaps {
            if older.gaps.get(path) != Some(gap) {
                events.push(Event::Incomplete {
                    path: path.clone(),
                    gap: *gap,
                });
            }
        }
        match (newer.state, newer.synced_at) {
            (State::Synchronized, Some(synced_at)) if !was_synchronized || is_another_round => {
                events.push(Event::Synchronized { synced_at });
            }
            (State::Stale, _) if was_synchronized && !is_another_round => {
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
