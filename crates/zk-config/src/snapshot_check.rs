//! Checks with a few reads whether the nodes of a cache's snapshot were together at one moment.
//!
//! A cache receives the changes of one transaction one by one, so that its snapshot may contain a part of them.

use std::collections::BTreeSet;
use std::collections::HashMap;

use futures_util::future::join_all;
use zk_cache::Node;
use zk_cache::Snapshot;
use zk_core::Error;
use zk_core::NodePath;
use zk_core::Session;
use zk_core::Stat;

use crate::history;

/// The nodes as they were together at one moment.
#[derive(Debug)]
pub(crate) struct Reading {
    pub(crate) snapshot: Snapshot,
    /// The newest transaction of the nodes; `None` if there are none.
    pub(crate) revision: Option<i64>,
}

/// The nodes to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// One node.
    Node,
    /// A node and everything below it, without histories.
    Subtree,
}

/// Checks the snapshots of one cache.
#[derive(Debug)]
pub(crate) struct SnapshotCheck {
    pub(crate) session: Session,
    pub(crate) path: NodePath,
    pub(crate) extent: Extent,
    /// The server must catch up with the leader before the next check.
    needs_sync: bool,
    /// The `pzxid` of each node whose children were listed and are those of the snapshot.
    child_lists: HashMap<NodePath, i64>,
}

impl SnapshotCheck {
    pub(crate) fn new(session: &Session, path: &NodePath, extent: Extent) -> Self {
        Self {
            session: session.clone(),
            path: path.clone(),
            extent,
            needs_sync: false,
            child_lists: HashMap::new(),
        }
    }

    /// Makes the server catch up before the next check, because the last reading may be older than another session's.
    pub(crate) const fn resync(&mut self) {
        self.needs_sync = true;
    }

    /// Returns the snapshot as a reading; `None` if it is not certainly as of one moment.
    ///
    /// An error that is an outcome means that some of the nodes cannot be read.
    pub(crate) async fn read(&mut self, snapshot: &Snapshot) -> Result<Option<Reading>, Error> {
        if self.needs_sync {
            self.session.sync(&self.path).await?;
        }
        // The cache does not keep the error of a refused read: read the node again, so that the error is returned. If it
        // is no longer refused, the cache has to start again.
        for (path, _) in snapshot.partial_reads() {
            existing(self.session.get(path).await)?;
            existing(self.session.list(path).await)?;
        }
        if is_partial(snapshot) {
            return Ok(None);
        }
        let root = snapshot.root();
        let revision = if self.extent == Extent::Subtree && root.is_some() {
            let Some(revision) = self.check_subtree(snapshot).await? else {
                return Ok(None);
            };
            Some(revision)
        } else {
            // Without a `sync`, the cache's own read is as good.
            if self.needs_sync {
                let now = self.session.exists(&self.path).await?;
                if now.as_ref().map(version) != root.map(|root| version(root.stat())) {
                    return Ok(None);
                }
            }
            root.map(|root| root.stat().mzxid)
        };
        self.needs_sync = false;
        Ok(Some(Reading {
            snapshot: snapshot.clone(),
            revision,
        }))
    }

    /// Returns the newest transaction of all nodes of the snapshot, if they were together at one moment.
    ///
    /// If no node and no list of children has changed since it was read, then all were as in the snapshot at the moment
    /// before this check: a transaction over several nodes is visible as a whole or not at all.
    /// Lists that have changed are read, and then everything is checked again.
    async fn check_subtree(&mut self, snapshot: &Snapshot) -> Result<Option<i64>, Error> {
        for _ in 0..PASSES {
            let nodes: Vec<&Node> = snapshot.nodes().collect();
            let reads = nodes.iter().map(|node| self.read_node(node.path()));
            let reads = join_all(reads).await;
            let mut is_current = true;
            let mut has_lists = true;
            let mut revision = 0;
            let mut child_lists = HashMap::with_capacity(nodes.len());
            for (node, read) in nodes.into_iter().zip(reads) {
                let Some((stat, names)) = read? else {
                    is_current = false;
                    continue;
                };
                let path = node.path();
                is_current &= version(&stat) == version(node.stat());
                revision = revision.max(stat.mzxid).max(stat.pzxid).max(stat.czxid);
                let is_known = match names {
                    Some(names) => {
                        has_lists = false;
                        let is_same = is_list_of(snapshot, path, &names);
                        is_current &= is_same;
                        is_same
                    }
                    None => self.child_lists.get(path) == Some(&stat.pzxid),
                };
                has_lists &= is_known;
                if is_known {
                    child_lists.insert(path.clone(), stat.pzxid);
                }
            }
            self.child_lists = child_lists;
            if !is_current {
                break;
            }
            if has_lists {
                return Ok(Some(revision));
            }
        }
        Ok(None)
    }

    /// Reads the stat of a node, and the names of its children unless they are known; `None` if there is no such node.
    async fn read_node(
        &self,
        path: &NodePath,
    ) -> Result<Option<(Stat, Option<Vec<String>>)>, Error> {
        if self.child_lists.contains_key(path) {
            let stat = self.session.exists(path).await?;
            return Ok(stat.map(|stat| (stat, None)));
        }
        let list = existing(self.session.list(path).await)?;
        Ok(list.map(|(names, stat)| (stat, Some(names))))
    }
}

/// Returns whether the cache could not read some of the nodes.
pub(crate) fn is_partial(snapshot: &Snapshot) -> bool {
    snapshot.partial_reads().next().is_some()
}

/// Returns whether these are the names of all children in the snapshot, apart from histories.
fn is_list_of(snapshot: &Snapshot, path: &NodePath, names: &[String]) -> bool {
    let listed = names.iter().filter_map(|name| path.join(name).ok());
    let listed: BTreeSet<_> = listed.filter(|child| !history::is_history(child)).collect();
    listed.iter().eq(snapshot.children(path).map(Node::path))
}

/// Turns the absence of a node into `None`.
fn existing<T>(read: Result<T, Error>) -> Result<Option<T>, Error> {
    match read {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.is_no_node() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Identifies a node with its data.
const fn version(stat: &Stat) -> (i64, i64) {
    (stat.czxid, stat.mzxid)
}

/// How often one check reads all nodes: for the lists of children, for lists that have changed, and for the result.
const PASSES: u32 = 3;
