//! A handle to one node of a cache.

use std::fmt;
use std::sync::Arc;

use zk_core::NodePath;

use crate::node::Node;
use crate::shared_state::SharedState;

/// Reads one node of a cache many times; made by [`TreeCache::reader`](crate::TreeCache::reader) and the same methods of
/// the other caches.
///
/// It keeps the node, and looks it up again only after the cache has changed.
/// It is for a path that is read all the time, such as a flag. Each task has its own, because reading changes it; clones
/// are independent.
///
/// # Dropping
///
/// Nothing happens. It does not keep its cache alive either: after the end of the cache it returns the node as it was.
///
/// # Examples
///
/// ```no_run
/// # async fn demo(session: zk_core::Session) -> Result<(), Box<dyn std::error::Error>> {
/// use zk_cache::TreeCache;
///
/// let cache = TreeCache::start(&session, "/app")?;
/// cache.synchronized().await?;
/// let mut limit = cache.reader("/app/limit")?;
/// let limit_now = limit.node().and_then(|node| node.data());
/// # let _ = limit_now;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct NodeReader {
    state: Arc<SharedState>,
    path: NodePath,
    node: Option<Node>,
    /// The count of publications, read before the node; `None` before the first read.
    publications: Option<u64>,
}

impl NodeReader {
    pub(crate) const fn new(state: Arc<SharedState>, path: NodePath) -> Self {
        Self {
            state,
            path,
            node: None,
            publications: None,
        }
    }

    /// Returns the path of the node, whether or not it exists.
    pub const fn path(&self) -> &NodePath {
        &self.path
    }

    /// Returns the node as of now, if the cache has it: the same as the cache returns.
    ///
    /// # Cost
    ///
    /// Takes no lock and sends no request. It reads a number; if the cache has changed since the last call, it looks the
    /// node up.
    pub fn node(&mut self) -> Option<&Node> {
        let publications = Some(self.state.publications());
        if self.publications != publications {
            self.node = self.state.get(self.path.as_str());
            self.publications = publications;
        }
        self.node.as_ref()
    }
}

impl fmt::Debug for NodeReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeReader")
            .field("path", &self.path)
            .field("node", &self.node)
            .finish_non_exhaustive()
    }
}
