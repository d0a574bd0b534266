//! Checks with a few reads whether the nodes of a cache's snapshot were together at one moment.
//!
//! A cache receives the changes of one transaction one by one, so that its snapshot may contain a part of them.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use futures_util::future::join_all;
use zk_cache::{Node, Snapshot};
use zk_core::{Error, ErrorClass, ErrorKind, NodePath, Session, Stat};

use crate::history;

/// The nodes as they were together at one moment.
#[derive(Debug)]
pub(crate) struct Reading {
    pub(crate) snapshot: Snapshot,
    /// The newest transaction of the nodes; `None` if there are none.
    pub(crate) revision: Option<i64>,
}

/// The nodes to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Extent {
    /// One node.
    Node,
    /// A node and everything below it, without histories.
    Subtree,
    #[cfg_attr(
        not(feature = "layers"),
        expect(dead_code, reason = "only `Layers` follows profiles")
    )]
    /// A node, the named ones of its children, and everything below these, without histories.
    Children(Arc<[String]>),
}

impl Extent {
    /// Returns whether a node below `root` is read, if its parent is.
    pub(crate) fn includes(&self, root: &NodePath, path: &NodePath) -> bool {
        let is_named = match (self, path.name()) {
            (Self::Children(names), Some(name)) if path.depth_below(root) == Some(1) => {
                // A name may be a path.
                names
                    .iter()
                    .any(|other| other.split('/').next() == Some(name))
            }
            _ => true,
        };
        is_named && !history::is_history(path)
    }
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
            // The other reading may have come from a follower, whose leader has yet to apply what it has committed.
            self.session.sync(&self.path).with_quorum().await?;
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
        let revision = if self.extent != Extent::Node && root.is_some() {
            let Some(revision) = self.check_subtree(snapshot).await? else {
                return Ok(None);
            };
            Some(revision)
        } else {
            // Without a `sync`, the cache's own read is as good.
            if self.needs_sync {
                let now = self.session.exists(&self.path).await?;
                if now.as_ref().map(version) != root.map(|root| version(&root.stat())) {
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
        let nodes: Vec<&Node> = snapshot.nodes().collect();
        for _ in 0..PASSES {
            let stats = self.stats(&nodes).await?;
            let mut revision = 0;
            let mut child_lists = HashMap::with_capacity(self.child_lists.len());
            let mut unknown = Vec::new();
            for (node, stat) in nodes.iter().zip(stats) {
                let known = node.stat();
                let Some(stat) = stat.filter(|stat| version(stat) == version(&known)) else {
                    return Ok(None);
                };
                revision = revision.max(stat.mzxid).max(stat.pzxid).max(stat.czxid);
                let had_no_children = stat.pzxid == known.pzxid && stat.num_children == 0;
                if had_no_children && !has_children(snapshot, node) {
                    continue;
                }
                match self.child_lists.get_key_value(node.path()) {
                    Some((path, pzxid)) if *pzxid == stat.pzxid => {
                        child_lists.insert(path.clone(), *pzxid);
                    }
                    _ => unknown.push(node.to_node_path()),
                }
            }
            self.child_lists = child_lists;
            if unknown.is_empty() {
                return Ok(Some(revision));
            }
            let lists = unknown
                .iter()
                .map(|path| self.session.list(path).into_future());
            let lists = join_all(lists).await;
            for (path, list) in unknown.into_iter().zip(lists) {
                let list = existing(list)?;
                let Some((_, stat)) =
                    list.filter(|(names, _)| self.is_list_of(snapshot, &path, names))
                else {
                    return Ok(None);
                };
                self.child_lists.insert(path, stat.pzxid);
            }
        }
        Ok(None)
    }

    /// Returns whether these are the names of all children in the snapshot, apart from those that are not read.
    fn is_list_of(&self, snapshot: &Snapshot, path: &NodePath, names: &[String]) -> bool {
        let listed = names.iter().filter_map(|name| path.join(name).ok());
        let listed: BTreeSet<_> = listed
            .filter(|child| self.extent.includes(&self.path, child))
            .collect();
        let children = snapshot.children(path).map(Node::path);
        listed.iter().map(NodePath::as_str).eq(children)
    }

    /// Reads the stat of each node; `None` if there is no such node.
    async fn stats(&self, nodes: &[&Node]) -> Result<Vec<Option<Stat>>, Error> {
        let batches = batches(nodes);
        let reads = batches.into_iter().map(|batch| self.stats_of_batch(batch));
        let stats: Result<Vec<_>, _> = join_all(reads).await.into_iter().collect();
        Ok(stats?.concat())
    }

    /// Reads nodes with one request. That returns their data, too, which is why only small ones are in one batch.
    async fn stats_of_batch(&self, batch: &[&Node]) -> Result<Vec<Option<Stat>>, Error> {
        if batch.len() > 1 {
            let paths = batch.iter().map(|node| node.path());
            match self.session.get_many(paths).in_one_request().await {
                Ok(results) => {
                    let stat = async |(node, result): (&&Node, Result<_, Error>)| match result {
                        Ok((_, stat)) => Ok(Some(stat)),
                        Err(error) if error.is_no_node() => Ok(None),
                        // The stat alone needs no permission.
                        Err(_) => self.session.exists(node.path()).await,
                    };
                    let stats = join_all(batch.iter().zip(results).map(stat)).await;
                    return stats.into_iter().collect();
                }
                Err(error)
                    if error.class() == ErrorClass::Outcome
                        || error.kind() == ErrorKind::ServerError => {}
                Err(error) => return Err(error),
            }
        }
        let stats = batch
            .iter()
            .map(|node| async { self.session.exists(node.path()).await });
        join_all(stats).await.into_iter().collect()
    }
}

/// Divides nodes into those of single requests, so that no reply is long.
fn batches<'a, 'b>(mut nodes: &'a [&'b Node]) -> Vec<&'a [&'b Node]> {
    let mut batches = Vec::new();
    while !nodes.is_empty() {
        let mut bytes = 0;
        let fits = |node: &&&Node| {
            bytes += node.data().map_or(0, <[u8]>::len);
            bytes <= MAX_BATCH_BYTES
        };
        let count = nodes.iter().take(MAX_BATCH).take_while(fits).count();
        let (batch, rest) = nodes.split_at(count.max(1));
        batches.push(batch);
        nodes = rest;
    }
    batches
}

/// Returns whether the cache could not read some of the nodes.
pub(crate) fn is_partial(snapshot: &Snapshot) -> bool {
    snapshot.partial_reads().next().is_some()
}

fn has_children(snapshot: &Snapshot, node: &Node) -> bool {
    snapshot.children(node.path()).next().is_some()
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
/// How many nodes one request reads.
const MAX_BATCH: usize = 64;
/// The bytes of data in one reply. A node with more is not read with others: its stat is enough.
const MAX_BATCH_BYTES: usize = 64 << 10;
