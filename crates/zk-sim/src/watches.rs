//! The watches of one server, and their restoration when a session moves to it.
//!
//! Pure: no I/O and no clock.

use std::collections::{BTreeMap, BTreeSet};

use zk_core::{NodePath, SessionId, WatchEvent};

use crate::release::Release;
use crate::tree::{Tree, Trigger};
use crate::wire_request::WatchKinds;

/// The kind of a watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum WatchKind {
    /// One-shot: the existing node is changed or deleted.
    Data,
    /// One-shot: the missing node is created.
    Exist,
    /// One-shot: a child is created or deleted, or the node is deleted.
    Child,
    /// Each change of the node and each created or deleted child, until the link breaks.
    Persistent,
    /// Each change of the node or of a node below it, until the link breaks.
    PersistentRecursive,
}

impl WatchKind {
    /// Returns whether it remains after an event.
    pub(crate) fn is_persistent(self) -> bool {
        matches!(self, Self::Persistent | Self::PersistentRecursive)
    }

    /// Returns whether a client's watch on `path` matches an event for the node `changed`.
    ///
    /// A one-shot watch ends then.
    pub(crate) fn is_met_by(self, path: &NodePath, changed: &NodePath, event: WatchEvent) -> bool {
        if path != changed {
            return self == Self::PersistentRecursive
                && event != WatchEvent::ChildrenChanged
                && changed.depth_below(path).is_some();
        }
        match (self, event) {
            (Self::Persistent, _) => true,
            (Self::Child, WatchEvent::Created | WatchEvent::DataChanged) => false,
            (kind, WatchEvent::ChildrenChanged) => kind == Self::Child,
            _ => true,
        }
    }
}

/// The watches of a session on a node to remove, in the protocol's terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Removal {
    Data,
    Children,
    Any,
}

impl Removal {
    /// Returns the removal that the client crate requests when it drops a watch and has `others` on that node; `None`
    /// if it leaves the watch on the server. `is_asked_for` means that a request in flight asks for a watch there.
    pub(crate) fn of(dropped: WatchKind, others: &[WatchKind], is_asked_for: bool) -> Option<Self> {
        match Self::of_kind(dropped) {
            _ if others.is_empty() && !is_asked_for => Some(Self::Any),
            Self::Any if !others.is_empty() => None,
            kind => {
                let mut others = others.iter().map(|other| Self::of_kind(*other));
                others.all(|other| other != kind).then_some(kind)
            }
        }
    }

    /// Returns whether it removes a watch of this kind.
    pub(crate) fn ends(self, kind: WatchKind) -> bool {
        self == Self::Any || self == Self::of_kind(kind)
    }

    fn of_kind(kind: WatchKind) -> Self {
        match kind {
            WatchKind::Data | WatchKind::Exist => Self::Data,
            WatchKind::Child => Self::Children,
            WatchKind::Persistent | WatchKind::PersistentRecursive => Self::Any,
        }
    }
}

/// The watches of one server. Setting the same watch twice has no effect.
///
/// A server has one table for data watches and one for child watches, and notifies a session once per change, even if
/// several of its watches match.
#[derive(Debug, Clone)]
pub(crate) struct WatchTable {
    release: Release,
    data: WatchersByPath,
    children: WatchersByPath,
}

/// One of the two tables.
#[derive(Debug, Clone, Default)]
struct WatchersByPath {
    by_path: BTreeMap<NodePath, BTreeMap<SessionId, Modes>>,
    /// The number of recursive watches.
    recursive: usize,
}

/// The modes of a session's watches on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Modes {
    once: bool,
    persistent: bool,
    recursive: bool,
}

impl Modes {
    fn of(kind: WatchKind) -> Self {
        Self {
            once: !kind.is_persistent(),
            persistent: kind == WatchKind::Persistent,
            recursive: kind == WatchKind::PersistentRecursive,
        }
    }

    fn count(self) -> usize {
        usize::from(self.once) + usize::from(self.persistent) + usize::from(self.recursive)
    }

    fn without(self, other: Self) -> Self {
        Self {
            once: self.once && !other.once,
            persistent: self.persistent && !other.persistent,
            recursive: self.recursive && !other.recursive,
        }
    }

    fn with(self, other: Self) -> Self {
        Self {
            once: self.once || other.once,
            persistent: self.persistent || other.persistent,
            recursive: self.recursive || other.recursive,
        }
    }
}

impl WatchersByPath {
    /// Changes the modes of a session's watches on a node.
    fn change(&mut self, session: SessionId, path: &NodePath, change: impl FnOnce(Modes) -> Modes) {
        let sessions = self.by_path.entry(path.clone()).or_default();
        let before = sessions.get(&session).copied().unwrap_or_default();
        let after = change(before);
        if after == Modes::default() {
            sessions.remove(&session);
            if sessions.is_empty() {
                self.by_path.remove(path);
            }
        } else {
            sessions.insert(session, after);
        }
        self.recursive =
            self.recursive + usize::from(after.recursive) - usize::from(before.recursive);
    }

    fn forget(&mut self, session: SessionId) {
        let recursive = &mut self.recursive;
        self.by_path.retain(|_, sessions| {
            if sessions
                .remove(&session)
                .is_some_and(|modes| modes.recursive)
            {
                *recursive -= 1;
            }
            !sessions.is_empty()
        });
    }

    /// Adds the sessions to notify to `notified`, and removes their one-shot watches.
    fn take(&mut self, trigger: &Trigger, notified: &mut BTreeSet<SessionId>) {
        let is_of_children = trigger.event == WatchEvent::ChildrenChanged;
        if let Some(sessions) = self.by_path.get_mut(&trigger.path) {
            let recursive = &mut self.recursive;
            sessions.retain(|session, modes| {
                if !is_of_children || modes.once || modes.persistent {
                    notified.insert(*session);
                }
                modes.once = false;
                let stays = *modes != Modes::default();
                *recursive -= usize::from(!stays && modes.recursive);
                stays
            });
            if sessions.is_empty() {
                self.by_path.remove(&trigger.path);
            }
        }
        if self.recursive == 0 || is_of_children {
            return;
        }
        let mut above = trigger.path.parent();
        while let Some(path) = above {
            if let Some(sessions) = self.by_path.get(&path) {
                let below = sessions.iter().filter(|(_, modes)| modes.recursive);
                notified.extend(below.map(|(session, _)| *session));
            }
            above = path.parent();
        }
    }

    fn count(&self) -> usize {
        let sessions = self.by_path.values().flat_map(BTreeMap::values);
        sessions.map(|modes| modes.count()).sum()
    }
}

impl WatchTable {
    pub(crate) fn new(release: Release) -> Self {
        Self {
            release,
            data: WatchersByPath::default(),
            children: WatchersByPath::default(),
        }
    }

    pub(crate) fn add(&mut self, session: SessionId, path: &NodePath, kind: WatchKind) {
        let release = self.release;
        let wanted = Modes::of(kind);
        for waiters in self.tables(kind) {
            waiters.change(session, path, |modes| match release {
                // The kind that was set last replaces the others (ZOOKEEPER-4466).
                Release::V3_8 => wanted,
                Release::V3_9 => modes.with(wanted),
            });
        }
    }

    pub(crate) fn remove(&mut self, session: SessionId, path: &NodePath, removal: Removal) {
        let tables = [
            (removal != Removal::Children).then_some(&mut self.data),
            (removal != Removal::Data).then_some(&mut self.children),
        ];
        let keeps_persistent = removal != Removal::Any && self.release != Release::V3_8;
        for waiters in tables.into_iter().flatten() {
            waiters.change(session, path, |modes| Modes {
                once: false,
                persistent: modes.persistent && keeps_persistent,
                recursive: modes.recursive && keeps_persistent,
            });
        }
    }

    /// Removes watches of a session on a node, unless it is a check. Returns whether there were any.
    ///
    /// A server of 3.8 keeps no kinds apart within a table.
    pub(crate) fn remove_kinds(
        &mut self,
        session: SessionId,
        path: &NodePath,
        kinds: WatchKinds,
        is_check: bool,
    ) -> bool {
        let all = Modes {
            once: true,
            persistent: true,
            recursive: true,
        };
        let (in_data, in_children, modes) = match kinds {
            WatchKinds::Data => (true, false, Modes::of(WatchKind::Data)),
            WatchKinds::Children => (false, true, Modes::of(WatchKind::Child)),
            WatchKinds::Any => (true, true, all),
            WatchKinds::Persistent => (true, true, Modes::of(WatchKind::Persistent)),
            WatchKinds::PersistentRecursive => {
                (true, true, Modes::of(WatchKind::PersistentRecursive))
            }
        };
        let modes = match self.release {
            Release::V3_8 => all,
            Release::V3_9 => modes,
        };
        let tables = [
            in_data.then_some(&mut self.data),
            in_children.then_some(&mut self.children),
        ];
        let mut has_any = false;
        for waiters in tables.into_iter().flatten() {
            waiters.change(session, path, |there| {
                let left = there.without(modes);
                has_any |= left != there;
                if is_check { there } else { left }
            });
        }
        has_any
    }

    /// Removes all watches of a connection.
    pub(crate) fn forget(&mut self, session: SessionId) {
        self.data.forget(session);
        self.children.forget(session);
    }

    /// Returns the number of watches: one per session, node and mode in each of the two tables.
    pub(crate) fn count(&self) -> usize {
        self.data.count() + self.children.count()
    }

    /// Removes the one-shot watches that match, and returns the sessions to notify, each once.
    pub(crate) fn trigger(&mut self, trigger: &Trigger) -> Vec<SessionId> {
        let mut notified = BTreeSet::new();
        if trigger.event != WatchEvent::ChildrenChanged {
            self.data.take(trigger, &mut notified);
        }
        if matches!(
            trigger.event,
            WatchEvent::ChildrenChanged | WatchEvent::Deleted
        ) {
            self.children.take(trigger, &mut notified);
        }
        notified.into_iter().collect()
    }

    /// Returns the tables in which a server stores a watch.
    fn tables(&mut self, kind: WatchKind) -> impl Iterator<Item = &mut WatchersByPath> {
        let in_data = kind != WatchKind::Child;
        let in_children = match kind {
            WatchKind::Data | WatchKind::Exist => false,
            WatchKind::Child | WatchKind::Persistent => true,
            WatchKind::PersistentRecursive => self.release == Release::V3_8,
        };
        [
            in_data.then_some(&mut self.data),
            in_children.then_some(&mut self.children),
        ]
        .into_iter()
        .flatten()
    }
}

/// Returns the event that a server with `tree` reports for a one-shot watch that a session sets again after it has seen
/// everything up to `seen`; `None` if nothing has changed.
pub(crate) fn missed(
    tree: &Tree,
    path: &NodePath,
    kind: WatchKind,
    seen: i64,
) -> Option<WatchEvent> {
    match (kind, tree.at(path)) {
        (WatchKind::Exist, node) => node.map(|_| WatchEvent::Created),
        (_, None) => Some(WatchEvent::Deleted),
        (WatchKind::Child, Some(node)) => {
            (node.pzxid > seen).then_some(WatchEvent::ChildrenChanged)
        }
        (_, Some(node)) => (node.mzxid > seen).then_some(WatchEvent::DataChanged),
    }
}

#[cfg(test)]
mod tests;
