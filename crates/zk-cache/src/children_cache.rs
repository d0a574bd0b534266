//! A cache of the children of a node.

use std::sync::Arc;

use zk_core::codec::Codec;
use zk_core::{IntoNodePath, NodePath, ParsePathError, SessionSource};

use crate::cache::{Cache, common_methods};
use crate::decoded_cache::DecodedCache;
use crate::event::CacheEnd;
use crate::events::Events;
use crate::node::Node;
use crate::node_reader::NodeReader;
use crate::options::CacheOptions;
use crate::snapshot::{CacheState, Snapshot};

/// The children of a node in memory, and the node itself.
///
/// It is a [`TreeCache`](crate::TreeCache) of depth 1, whatever the depth of its options: [`Event::Created`](crate::Event::Created),
/// [`Event::Changed`](crate::Event::Changed) and [`Event::Deleted`](crate::Event::Deleted) report the children and the
/// node itself, by path.
/// Clones share the cache. A cache keeps its session or its sessions open, as each clone of those does.
///
/// # Cost
///
/// That of a [`TreeCache`](crate::TreeCache).
/// Each change further down costs a notification: servers have no watch for the data of children alone.
/// With [`Content::NamesOnly`](crate::Content::NamesOnly) only changes of the names cost anything: one list of all of them.
///
/// # Dropping
///
/// Dropping the last clone ends the cache: its events end with [`CacheEnd::Stopped`], and its watch is removed in the
/// background.
///
/// # Examples
///
/// ```no_run
/// # async fn demo(session: zk_core::Session) -> Result<(), Box<dyn std::error::Error>> {
/// use zk_cache::ChildrenCache;
///
/// let workers = ChildrenCache::start(&session, "/workers")?;
/// workers.synchronized().await?;
/// for worker in workers.children() {
///     println!("{:?} at {:?}", worker.name(), worker.data());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct ChildrenCache {
    cache: Cache,
}

impl ChildrenCache {
    /// Returns the children, ordered by name. Takes no lock and sends no request.
    pub fn children(&self) -> Vec<Node> {
        let snapshot = self.snapshot();
        snapshot.children(self.path()).cloned().collect()
    }

    /// Returns the names of the children, ordered. Takes no lock and sends no request.
    ///
    /// With [`Content::NamesOnly`](crate::Content::NamesOnly) the children are not read at all.
    pub fn names(&self) -> Vec<String> {
        let snapshot = self.snapshot();
        let children = snapshot.children(self.path());
        let names = children.filter_map(Node::name);
        names.map(str::to_owned).collect()
    }

    /// Returns the child with the given name. Takes no lock and sends no request.
    pub fn child(&self, name: &str) -> Option<Node> {
        let path = self.path().join(name).ok()?;
        self.cache.state().get(path.as_str())
    }

    /// Returns the parent of the children, if it exists.
    pub fn parent(&self) -> Option<Node> {
        self.cache.state().get(self.path().as_str())
    }

    common_methods!(Some(1));
}
