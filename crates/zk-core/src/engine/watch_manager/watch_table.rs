//! Decides which watches serve the subscriptions of a session, and which subscriptions receive each event.
//!
//! One watch serves each subscription: the watch on its own node, or a recursive one above it.
//! Subscriptions of one node share a watch, because servers before 3.9 keep one kind of watch per node and session
//! (ZOOKEEPER-4466), and because no server can remove one of two (ZOOKEEPER-4472).
//!
//! Pure: no I/O and no clock.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use zk_wire::NodePath;

use crate::transport::WatchEvent;

/// The number of a subscription.
pub(crate) type Id = u64;

/// The nodes that a subscription covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WatchScope {
    /// The node.
    Node,
    /// The node and the names of its children.
    Children,
    /// The node and everything below it.
    Below,
}

/// An event for one subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SubscriptionEvent {
    Resynchronize,
    Stale,
    Changed {
        path: NodePath,
        event: WatchEvent,
        zxid: Option<i64>,
    },
}

/// An event and the subscription that receives it.
pub(crate) type Addressed = (Id, SubscriptionEvent);

/// The subscriptions of a session and the watches that serve them.
#[derive(Debug, Default)]
pub(crate) struct WatchTable {
    subscriptions: HashMap<Id, Entry>,
    at: HashMap<NodePath, Vec<Id>>,
    watches: BTreeMap<NodePath, Wanted>,
    /// The paths whose wanted watch has changed.
    dirty: BTreeSet<NodePath>,
    events: Vec<Addressed>,
}

#[derive(Debug)]
struct Entry {
    path: NodePath,
    scope: WatchScope,
    /// The path of the watch that serves it.
    watch: NodePath,
    /// Whether the subscription receives changes, as far as its consumer knows.
    is_live: bool,
}

/// A watch that is wanted.
#[derive(Debug)]
struct Wanted {
    is_recursive: bool,
    is_armed: bool,
    serves: BTreeSet<Id>,
}

impl WatchTable {
    /// Returns whether the wanted watch on `path` is recursive, or `None` if no watch is wanted there.
    pub(crate) fn wanted(&self, path: &NodePath) -> Option<bool> {
        self.watches.get(path).map(|watch| watch.is_recursive)
    }

    /// Returns whether the watch on `path` is known to be set.
    pub(crate) fn is_armed(&self, path: &NodePath) -> bool {
        self.watches.get(path).is_some_and(|watch| watch.is_armed)
    }

    /// Returns the subscriptions that the watch on `path` serves.
    pub(crate) fn served_by(&self, path: &NodePath) -> Vec<Id> {
        let watch = self.watches.get(path);
        watch.map_or_else(Vec::new, |watch| watch.serves.iter().copied().collect())
    }

    /// Returns all subscriptions.
    pub(crate) fn ids(&self) -> Vec<Id> {
        let mut ids: Vec<_> = self.subscriptions.keys().copied().collect();
        ids.sort_unstable();
        ids
    }

    /// Takes the paths whose wanted watch has changed since the last call.
    pub(crate) fn take_dirty(&mut self) -> BTreeSet<NodePath> {
        std::mem::take(&mut self.dirty)
    }

    /// Takes the events since the last call, in order.
    pub(crate) fn take_events(&mut self) -> Vec<Addressed> {
        std::mem::take(&mut self.events)
    }

    /// Adds a subscription.
    pub(crate) fn subscribe(&mut self, id: Id, path: NodePath, scope: WatchScope) {
        self.at.entry(path.clone()).or_default().push(id);
        let entry = Entry {
            watch: path.clone(),
            path,
            scope,
            is_live: false,
        };
        self.subscriptions.insert(id, entry);
        self.assign_watch(id);
    }

    /// Removes a subscription.
    pub(crate) fn unsubscribe(&mut self, id: Id) {
        let Some(entry) = self.subscriptions.remove(&id) else {
            return;
        };
        if let Some(ids) = self.at.get_mut(&entry.path) {
            ids.retain(|other| *other != id);
            if ids.is_empty() {
                self.at.remove(&entry.path);
            }
        }
        let Some(watch) = self.watches.get_mut(&entry.watch) else {
            return;
        };
        watch.serves.remove(&id);
        let is_recursive = watch.is_recursive;
        let serves = watch.serves.clone();
        if serves.is_empty() {
            self.drop_watch(&entry.watch);
        } else if is_recursive && !self.is_asked_for(&entry.watch, &serves) {
            // No subscription needs the events of the whole subtree any longer.
            self.drop_watch(&entry.watch);
            for id in serves {
                self.assign_watch(id);
            }
        }
    }

    /// Records that the watch on `path` was set.
    pub(crate) fn armed(&mut self, path: &NodePath) {
        let Some(watch) = self.watches.get_mut(path) else {
            return;
        };
        watch.is_armed = true;
        for id in &watch.serves {
            if let Some(entry) = self.subscriptions.get_mut(id) {
                entry.is_live = true;
                self.events.push((*id, SubscriptionEvent::Resynchronize));
            }
        }
    }

    /// Records that the wanted watch on `path` is no longer set.
    pub(crate) fn lost(&mut self, path: &NodePath) {
        let Some(watch) = self.watches.get_mut(path) else {
            return;
        };
        watch.is_armed = false;
        for id in watch.serves.clone() {
            self.stale(id);
        }
    }

    /// Records an event of `node` that the watch on `watch` reported.
    pub(crate) fn changed(
        &mut self,
        watch: &NodePath,
        node: &NodePath,
        event: WatchEvent,
        zxid: Option<i64>,
    ) {
        let Some(wanted) = self.watches.get(watch) else {
            return;
        };
        let is_of_children = event == WatchEvent::ChildrenChanged;
        if wanted.is_recursive && is_of_children {
            // A leftover of a non-recursive watch; the recursive watch reports the children themselves.
            return;
        }
        let changed = |path: &NodePath, event| SubscriptionEvent::Changed {
            path: path.clone(),
            event,
            zxid,
        };
        let is_recursive = wanted.is_recursive;
        for (id, scope) in self.served(watch, node) {
            if !is_of_children || scope == WatchScope::Children {
                self.events.push((id, changed(node, event)));
            }
        }
        if !is_recursive {
            return;
        }
        let mut above = node.parent();
        let mut is_parent = matches!(event, WatchEvent::Created | WatchEvent::Deleted);
        while let Some(path) = above {
            for (id, scope) in self.served(watch, &path) {
                match scope {
                    WatchScope::Below => self.events.push((id, changed(node, event))),
                    WatchScope::Children if is_parent => {
                        self.events
                            .push((id, changed(&path, WatchEvent::ChildrenChanged)));
                    }
                    WatchScope::Children | WatchScope::Node => {}
                }
            }
            if path == *watch {
                break;
            }
            is_parent = false;
            above = path.parent();
        }
    }

    /// Returns the live subscriptions to `node` that the watch on `watch` serves, in the order of their creation.
    fn served(&self, watch: &NodePath, node: &NodePath) -> Vec<(Id, WatchScope)> {
        let ids = self.at.get(node).map_or(&[][..], Vec::as_slice);
        ids.iter()
            .filter_map(|id| Some((*id, self.subscriptions.get(id)?)))
            .filter(|(_, entry)| entry.is_live && entry.watch == *watch)
            .map(|(id, entry)| (id, entry.scope))
            .collect()
    }

    /// Returns whether one of these subscriptions requested the recursive watch on `path`.
    fn is_asked_for(&self, path: &NodePath, ids: &BTreeSet<Id>) -> bool {
        ids.iter()
            .filter_map(|id| self.subscriptions.get(id))
            .any(|entry| entry.scope == WatchScope::Below && entry.path == *path)
    }

    /// Assigns a watch to a subscription that has none.
    fn assign_watch(&mut self, id: Id) {
        let Some(entry) = self.subscriptions.get(&id) else {
            return;
        };
        let (path, scope) = (entry.path.clone(), entry.scope);
        let above = std::iter::successors(Some(path.clone()), NodePath::parent);
        let cover = above
            .into_iter()
            .find(|path| self.wanted(path) == Some(true));
        let at = cover.unwrap_or_else(|| path.clone());
        self.stale(id);
        if !self.watches.contains_key(&at) {
            self.dirty.insert(at.clone());
            let watch = Wanted {
                is_recursive: scope == WatchScope::Below,
                is_armed: false,
                serves: BTreeSet::new(),
            };
            self.watches.insert(at.clone(), watch);
        }
        let watch = self.watches.get_mut(&at).expect("just inserted");
        watch.serves.insert(id);
        let entry = self.subscriptions.get_mut(&id).expect("looked up above");
        entry.watch = at.clone();
        if scope == WatchScope::Below && !watch.is_recursive {
            watch.is_recursive = true;
            self.dirty.insert(at.clone());
            self.lost(&at);
        } else if watch.is_armed {
            entry.is_live = true;
            self.events.push((id, SubscriptionEvent::Resynchronize));
        }
    }

    fn drop_watch(&mut self, path: &NodePath) {
        if self.watches.remove(path).is_some() {
            self.dirty.insert(path.clone());
        }
    }

    /// Marks a subscription as stale: it receives no changes until it has to resynchronise.
    fn stale(&mut self, id: Id) {
        if let Some(entry) = self.subscriptions.get_mut(&id)
            && std::mem::replace(&mut entry.is_live, false)
        {
            self.events.push((id, SubscriptionEvent::Stale));
        }
    }
}

#[cfg(test)]
mod tests;
