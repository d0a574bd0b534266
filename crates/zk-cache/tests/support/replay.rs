//! Applies events to a map of nodes and checks each, for the tests on simulated and on real servers.

use std::collections::BTreeMap;

use zk_cache::{Event, Snapshot};

/// The fields that distinguish two states of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) czxid: i64,
    pub(crate) mzxid: i64,
    pub(crate) version: i32,
    pub(crate) data: Option<Vec<u8>>,
}

impl Seen {
    pub(crate) fn of(node: &zk_cache::Node) -> Self {
        Self {
            czxid: node.stat().czxid,
            mzxid: node.stat().mzxid,
            version: node.stat().version,
            data: node.data().map(<[u8]>::to_vec),
        }
    }
}

pub(crate) type Nodes = BTreeMap<String, Seen>;

pub(crate) fn nodes_of(snapshot: &Snapshot) -> Nodes {
    let nodes = snapshot.nodes();
    nodes
        .map(|node| (node.path().to_string(), Seen::of(node)))
        .collect()
}

/// The nodes after all events so far; panics at an event that does not fit them.
#[derive(Debug, Default, Clone)]
pub(crate) struct Replay {
    pub(crate) nodes: Nodes,
    /// The newest transaction reported of each path.
    pub(crate) newest: BTreeMap<String, i64>,
    /// The number of events that changed nodes.
    pub(crate) played: usize,
    pub(crate) is_synchronized: bool,
}

impl Replay {
    pub(crate) fn play(&mut self, event: &Event) {
        match event {
            Event::Created(new) => {
                let name = new.path().to_string();
                let before = self.nodes.insert(name.clone(), Seen::of(new));
                assert_eq!(before, None, "{event:?}: the node exists");
                self.rises(name, new.stat().czxid, event);
                self.rises_or_stays(new, event);
            }
            Event::Changed { old, new } => {
                let name = new.path().to_string();
                assert!(old.is_same(new), "{event:?}");
                let before = self.nodes.insert(name.clone(), Seen::of(new));
                assert_eq!(before, Some(Seen::of(old)), "{event:?}");
                self.rises(name, new.stat().mzxid, event);
            }
            Event::Deleted(old) => {
                let name = old.path().to_string();
                let before = self.nodes.remove(&name);
                assert_eq!(before, Some(Seen::of(old)), "{event:?}");
                self.played += 1;
            }
            Event::Synchronized { .. } => {
                assert!(!self.is_synchronized, "synchronized twice");
                self.is_synchronized = true;
            }
            Event::Stale => {
                assert!(self.is_synchronized, "stale twice");
                self.is_synchronized = false;
            }
            Event::Ended(_) => self.is_synchronized = false,
            other => panic!("unexpected event: {other:?}"),
        }
    }

    pub(crate) fn rises(&mut self, name: String, zxid: i64, event: &Event) {
        let before = self.newest.insert(name, zxid);
        assert!(before < Some(zxid), "{event:?} after {before:?}");
        self.played += 1;
    }

    pub(crate) fn rises_or_stays(&mut self, node: &zk_cache::Node, event: &Event) {
        let newest = self.newest.get_mut(node.path());
        let newest = newest.expect("the path was reported");
        assert!(*newest <= node.stat().mzxid, "{event:?}");
        *newest = node.stat().mzxid;
    }
}
