//! The tree of nodes of one server, and the effects of transactions on it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

use zk_core::transport::NodeData;
use zk_core::{Acl, NodePath, SessionId, Stat, WatchEvent};

/// The nodes of one server, or of the leader, at one time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tree {
    nodes: BTreeMap<NodePath, Node>,
    counters: Counters,
}

impl Tree {
    /// Creates the tree of a new server.
    pub(crate) fn new(counters: Counters) -> Self {
        let mut tree = Self {
            nodes: BTreeMap::new(),
            counters,
        };
        tree.nodes
            .insert(NodePath::root(), Node::server_node(&Acl::open()));
        for (parent, name, acl) in [
            (NodePath::root(), "zookeeper", Acl::open()),
            (own("/zookeeper"), "config", Acl::read_only()),
            (own("/zookeeper"), "quota", Acl::open()),
        ] {
            let path = child(&parent, name);
            tree.nodes.insert(path, Node::server_node(&acl));
            tree.node_mut(&parent).children.insert(name.to_owned());
        }
        tree
    }

    /// Returns the node at `path`, if there is one.
    pub fn node(&self, path: &str) -> Option<&Node> {
        self.nodes.get(&NodePath::parse(path).ok()?)
    }

    pub(crate) fn at(&self, path: &NodePath) -> Option<&Node> {
        self.nodes.get(path)
    }

    /// Returns the nodes in the order of their paths, without the root and the nodes at and below `/zookeeper`.
    pub fn nodes(&self) -> impl Iterator<Item = (&NodePath, &Node)> {
        self.nodes
            .iter()
            .filter(|(path, _)| !path.is_root() && !is_server_node(path))
    }

    /// Returns the paths of [`nodes`](Self::nodes).
    pub fn paths(&self) -> Vec<String> {
        self.nodes().map(|(path, _)| path.to_string()).collect()
    }

    /// Describes [`nodes`](Self::nodes) for a golden file: a line with path, kind and data for each, sorted. The unique
    /// id in a path is replaced by `<uuid>` or `<hex32>`.
    pub fn describe(&self) -> String {
        let line = |(path, node): (&NodePath, &Node)| {
            let kind = match node.kind {
                Kind::Persistent => "persistent",
                Kind::Ephemeral(_) => "ephemeral",
                Kind::Container => "container",
                Kind::Ttl(_) => "ttl",
            };
            let path = without_unique_ids(path.as_str());
            format!("{path} {kind} \"{}\"\n", node.data().escape_ascii())
        };
        let mut lines: Vec<_> = self.nodes().map(line).collect();
        lines.sort();
        lines.concat()
    }

    /// Returns the ephemeral nodes of a session.
    pub(crate) fn ephemerals(&self, owner: SessionId) -> Vec<NodePath> {
        self.paths_where(|node| node.kind == Kind::Ephemeral(owner))
    }

    /// Returns the containers that have lost their last child, and the TTL nodes that have expired.
    pub(crate) fn reapable(&self, now: SystemTime) -> Vec<NodePath> {
        self.paths_where(|node| {
            node.children.is_empty()
                && match node.kind {
                    Kind::Container => node.creations > 0,
                    Kind::Ttl(ttl) => now
                        .duration_since(node.mtime)
                        .is_ok_and(|unchanged| unchanged > ttl),
                    Kind::Persistent | Kind::Ephemeral(_) => false,
                }
        })
    }

    /// Returns the number of nodes below a node.
    pub(crate) fn count_below(&self, path: &NodePath) -> usize {
        let below = |other: &&NodePath| other.depth_below(path).is_some_and(|depth| depth > 0);
        self.nodes.keys().filter(below).count()
    }

    fn paths_where(&self, wanted: impl Fn(&Node) -> bool) -> Vec<NodePath> {
        self.nodes
            .iter()
            .filter(|(_, node)| wanted(node))
            .map(|(path, _)| path.clone())
            .collect()
    }

    /// Applies an effect, and returns the watch triggers in the order of a server.
    ///
    /// The leader has checked the effect, and servers do not check it again.
    pub(crate) fn apply(&mut self, at: Moment, effect: &Effect) -> Vec<Trigger> {
        match effect {
            Effect::Create {
                path,
                data,
                acl,
                kind,
                counter,
            } => self.create(at, path, Node::new(at, data, acl, *kind), *counter),
            Effect::Delete { path } => self.delete(at, path),
            Effect::SetData {
                path,
                data,
                version,
            } => {
                let node = self.node_mut(path);
                node.data = data.clone();
                node.version = *version;
                node.mzxid = at.zxid;
                node.mtime = at.time;
                vec![Trigger::new(path, WatchEvent::DataChanged)]
            }
            Effect::SetAcl { path, acl, version } => {
                let node = self.node_mut(path);
                node.acl = acl.clone();
                node.aversion = *version;
                Vec::new()
            }
            Effect::SetCounter { path, counter } => {
                self.node_mut(path).creations = *counter;
                Vec::new()
            }
        }
    }

    fn create(&mut self, at: Moment, path: &NodePath, node: Node, counter: i32) -> Vec<Trigger> {
        let (parent, name) = split(path);
        let counters = self.counters;
        let above = self.node_mut(&parent);
        above.children.insert(name);
        // Since 3.6 only a larger counter is stored, and the zxid with it: it sticks at the largest.
        if counters == Counters::Wrap || counter > above.creations {
            above.creations = counter;
            above.pzxid = at.zxid;
        }
        self.nodes.insert(path.clone(), node);
        vec![
            Trigger::new(path, WatchEvent::Created),
            Trigger::new(&parent, WatchEvent::ChildrenChanged),
        ]
    }

    fn delete(&mut self, at: Moment, path: &NodePath) -> Vec<Trigger> {
        let (parent, name) = split(path);
        let last_acl = self.nodes.remove(path).map(|node| node.acl);
        let above = self.node_mut(&parent);
        above.children.remove(&name);
        above.pzxid = at.zxid;
        vec![
            Trigger {
                last_acl,
                ..Trigger::new(path, WatchEvent::Deleted)
            },
            Trigger::new(&parent, WatchEvent::ChildrenChanged),
        ]
    }

    fn node_mut(&mut self, path: &NodePath) -> &mut Node {
        self.nodes
            .get_mut(path)
            .expect("the leader has checked the transaction against the same tree")
    }

    /// Restores a node, or removes it if it did not exist before.
    pub(crate) fn restore(&mut self, path: NodePath, node: Option<Node>) {
        match node {
            Some(node) => self.nodes.insert(path, node),
            None => self.nodes.remove(&path),
        };
    }
}

/// One node of a [`Tree`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    pub(crate) data: NodeData,
    pub(crate) acl: Acl,
    pub(crate) kind: Kind,
    pub(crate) children: BTreeSet<String>,
    /// The number of created children, which is the next sequence number.
    pub(crate) creations: i32,
    pub(crate) version: i32,
    pub(crate) aversion: i32,
    pub(crate) czxid: i64,
    pub(crate) mzxid: i64,
    pub(crate) pzxid: i64,
    ctime: SystemTime,
    mtime: SystemTime,
}

impl Node {
    fn new(at: Moment, data: &NodeData, acl: &Acl, kind: Kind) -> Self {
        Self {
            data: data.clone(),
            acl: acl.clone(),
            kind,
            children: BTreeSet::new(),
            creations: 0,
            version: 0,
            aversion: 0,
            czxid: at.zxid,
            mzxid: at.zxid,
            pzxid: at.zxid,
            ctime: at.time,
            mtime: at.time,
        }
    }

    fn server_node(acl: &Acl) -> Self {
        let never = Moment {
            zxid: 0,
            time: SystemTime::UNIX_EPOCH,
        };
        Self::new(never, &NodeData::default(), acl, Kind::Persistent)
    }

    /// Returns the data.
    pub fn data(&self) -> &[u8] {
        self.data.as_slice()
    }

    /// Returns the kind of node.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the owner of an ephemeral node.
    pub fn owner(&self) -> Option<SessionId> {
        match self.kind {
            Kind::Ephemeral(owner) => Some(owner),
            Kind::Persistent | Kind::Container | Kind::Ttl(_) => None,
        }
    }

    /// Returns the ACL.
    pub fn acl(&self) -> &Acl {
        &self.acl
    }

    /// Returns the names of the children, sorted.
    pub fn children(&self) -> impl Iterator<Item = &str> {
        self.children.iter().map(String::as_str)
    }

    /// Returns the sequence number of the next sequential child.
    pub fn counter(&self) -> i32 {
        self.creations
    }

    /// Returns the stat as a client sees it.
    pub fn stat(&self) -> Stat {
        let children = u32::try_from(self.children.len()).unwrap_or(u32::MAX);
        Stat {
            czxid: self.czxid,
            mzxid: self.mzxid,
            pzxid: self.pzxid,
            ctime: self.ctime,
            mtime: self.mtime,
            version: self.version,
            // The server counts creations and reports changes: each deleted child counts twice.
            cversion: self
                .creations
                .wrapping_mul(2)
                .wrapping_sub_unsigned(children),
            aversion: self.aversion,
            ephemeral_owner: self.owner(),
            data_length: u32::try_from(self.data.as_slice().len()).unwrap_or(u32::MAX),
            num_children: children,
        }
    }
}

/// The kind of a node, which determines what deletes it besides a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// A persistent node.
    Persistent,
    /// An ephemeral node, deleted when this session ends.
    Ephemeral(SessionId),
    /// A container, reaped after its last child was deleted.
    Container,
    /// A TTL node, reaped when it has no children and was not changed for this time.
    Ttl(Duration),
}

/// The behaviour of sequence numbers after 2147483647.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Counters {
    /// The number stays there, as on servers since 3.6.
    #[default]
    Stick,
    /// The number continues at -2147483648, as on servers before 3.6.
    Wrap,
}

/// The zxid and wall-clock time of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment {
    pub(crate) zxid: i64,
    pub(crate) time: SystemTime,
}

/// One change of a transaction, as the leader has decided it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Effect {
    Create {
        path: NodePath,
        data: NodeData,
        acl: Acl,
        kind: Kind,
        /// The parent's sequence number afterwards.
        counter: i32,
    },
    Delete {
        path: NodePath,
    },
    SetData {
        path: NodePath,
        data: NodeData,
        version: i32,
    },
    SetAcl {
        path: NodePath,
        acl: Acl,
        version: i32,
    },
    SetCounter {
        path: NodePath,
        counter: i32,
    },
}

impl Effect {
    /// Returns the paths of the changed nodes.
    pub(crate) fn touched(&self) -> Vec<NodePath> {
        match self {
            Self::Create { path, .. } | Self::Delete { path } => {
                vec![path.clone(), split(path).0]
            }
            Self::SetData { path, .. }
            | Self::SetAcl { path, .. }
            | Self::SetCounter { path, .. } => vec![path.clone()],
        }
    }
}

/// A change that triggers watches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Trigger {
    pub(crate) path: NodePath,
    pub(crate) event: WatchEvent,
    /// The ACL of a deleted node; those of others are in the tree.
    pub(crate) last_acl: Option<Acl>,
}

impl Trigger {
    pub(crate) fn new(path: &NodePath, event: WatchEvent) -> Self {
        Self {
            path: path.clone(),
            event,
            last_acl: None,
        }
    }
}

/// Returns whether a server refuses to delete the node at `path` for every session.
pub(crate) fn is_special(path: &NodePath) -> bool {
    SPECIAL.contains(&path.as_str())
}

fn is_server_node(path: &NodePath) -> bool {
    path.as_str() == "/zookeeper" || path.as_str().starts_with("/zookeeper/")
}

fn without_unique_ids(path: &str) -> String {
    let is_hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_uuid = |text: &str| {
        text.split('-').map(str::len).eq([8, 4, 4, 4, 12]) && is_hex(&text.replace('-', ""))
    };
    for at in 0..path.len() {
        if let Some(id) = path.get(at..at + 36).filter(|id| is_uuid(id)) {
            return path.replace(id, "<uuid>");
        }
        if let Some(id) = path.get(at..at + 32).filter(|id| is_hex(id)) {
            return path.replace(id, "<hex32>");
        }
    }
    path.to_owned()
}

fn split(path: &NodePath) -> (NodePath, String) {
    path.parent()
        .zip(path.name().map(str::to_owned))
        .expect("the root is neither created nor deleted")
}

fn child(parent: &NodePath, name: &str) -> NodePath {
    parent.join(name).expect("the constant name is valid")
}

fn own(path: &str) -> NodePath {
    NodePath::parse(path).expect("the constant path is valid")
}

const SPECIAL: [&str; 4] = ["/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"];

#[cfg(test)]
mod tests;
