//! The one-shot watches a server keeps, and what becomes of them when a session comes over from another server.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use zk_core::NodePath;
use zk_core::SessionId;
use zk_core::WatchEvent;

use crate::tree::Tree;
use crate::tree::Trigger;

/// What a watch waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Awaited {
    /// That the node, which exists, changes or goes.
    Data,
    /// That the node, which does not exist, comes.
    Birth,
    /// That a child of the node comes or goes, or itself goes.
    Children,
}

impl Awaited {
    /// Tells whether a client's watch is over once the client is told of `event`.
    pub(crate) fn is_met_by(self, event: WatchEvent) -> bool {
        match event {
            WatchEvent::Created | WatchEvent::DataChanged => self != Self::Children,
            WatchEvent::ChildrenChanged => self == Self::Children,
            _ => true,
        }
    }
}

/// What a session is told.
pub(crate) type Notice = (SessionId, Trigger);

/// The watches of one server: which session waits at which node. Asking twice is asking once.
#[derive(Debug, Clone, Default)]
pub(crate) struct WatchTable {
    data: Waiters,
    children: Waiters,
}

type Waiters = BTreeMap<NodePath, BTreeSet<SessionId>>;

impl WatchTable {
    pub(crate) fn add(&mut self, session: SessionId, path: &NodePath, awaited: Awaited) {
        self.waiters(awaited)
            .entry(path.clone())
            .or_default()
            .insert(session);
    }

    pub(crate) fn remove(&mut self, session: SessionId, path: &NodePath, awaited: Awaited) {
        let waiters = self.waiters(awaited);
        if let Some(sessions) = waiters.get_mut(path) {
            sessions.remove(&session);
            if sessions.is_empty() {
                waiters.remove(path);
            }
        }
    }

    /// Forgets a connection and everything it waited for.
    pub(crate) fn forget(&mut self, session: SessionId) {
        for waiters in [&mut self.data, &mut self.children] {
            waiters.retain(|_, sessions| {
                sessions.remove(&session);
                !sessions.is_empty()
            });
        }
    }

    /// How many watches there are.
    pub(crate) fn count(&self) -> usize {
        [&self.data, &self.children]
            .into_iter()
            .flat_map(BTreeMap::values)
            .map(BTreeSet::len)
            .sum()
    }

    /// Takes out every watch that waited for this, and returns who is to be told, each session once.
    pub(crate) fn trigger(&mut self, trigger: &Trigger) -> Vec<Notice> {
        let mut told = BTreeSet::new();
        if trigger.event != WatchEvent::ChildrenChanged {
            told.append(&mut self.data.remove(&trigger.path).unwrap_or_default());
        }
        if matches!(
            trigger.event,
            WatchEvent::ChildrenChanged | WatchEvent::Deleted
        ) {
            told.append(&mut self.children.remove(&trigger.path).unwrap_or_default());
        }
        told.into_iter()
            .map(|session| (session, trigger.clone()))
            .collect()
    }

    fn waiters(&mut self, awaited: Awaited) -> &mut Waiters {
        match awaited {
            Awaited::Data | Awaited::Birth => &mut self.data,
            Awaited::Children => &mut self.children,
        }
    }
}

/// What a server that has `tree` tells at once of a watch that is set again by a session that has seen everything up
/// to `seen`; nothing if the watch goes on.
pub(crate) fn missed(
    tree: &Tree,
    path: &NodePath,
    awaited: Awaited,
    seen: i64,
) -> Option<WatchEvent> {
    match (awaited, tree.at(path)) {
        (Awaited::Birth, node) => node.map(|_| WatchEvent::Created),
        (_, None) => Some(WatchEvent::Deleted),
        (Awaited::Data, Some(node)) => (node.mzxid > seen).then_some(WatchEvent::DataChanged),
        (Awaited::Children, Some(node)) => {
            (node.pzxid > seen).then_some(WatchEvent::ChildrenChanged)
        }
    }
}

#[cfg(test)]
mod tests;
