//! A cache of the children of a node.

use zk_core::NodePath;
use zk_core::ParsePathError;
use zk_core::Session;

use crate::cache::Cache;
use crate::cache::common_methods;
use crate::event::CacheEnd;
use crate::events::Events;
use crate::node::Node;
use crate::options::CacheOptions;
use crate::snapshot::CacheState;
use crate::snapshot::Snapshot;

/// The children of a node in memory, and the node itself.
///
/// It is a [`TreeCache`](crate::TreeCache) of depth 1: [`Event::Created`](crate::Event::Created),
/// [`Event::Changed`](crate::Event::Changed) and [`Event::Deleted`](crate::Event::Deleted) report the children and the
/// node itself, by path.
/// Clones share the cache. A cache keeps its session open, as each clone of the session does.
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
    /// Starts a cache of the children of the node at `path` in the background, with default options. The node need not
    /// exist.
    ///
    /// # Errors
    ///
    /// If `path` is not a valid node path.
    ///
    /// # Cost
    ///
    /// See [`TreeCache::start_with`](crate::TreeCache::start_with).
    /// Each change further down costs a notification: servers have no watch for the data of children alone.
    pub fn start<P>(session: &Session, path: P) -> Result<Self, ParsePathError>
    where
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        Self::start_with(session, path, &CacheOptions::default())
    }

    /// Starts a cache of the children of the node at `path` in the background. The node need not exist.
    ///
    /// The depth of the options is ignored.
    ///
    /// # Errors
    ///
    /// If `path` is not a valid node path.
    ///
    /// # Cost
    ///
    /// See [`start`](Self::start).
    pub fn start_with<P>(
        session: &Session,
        path: P,
        options: &CacheOptions,
    ) -> Result<Self, ParsePathError>
    where
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        let options = options.clone().with_max_depth(1);
        Cache::start(session, path, options).map(|cache| Self { cache })
    }

    /// Starts a cache with the contents of another one, see [`TreeCache::resume`](crate::TreeCache::resume).
    ///
    /// # Panics
    ///
    /// If a selector panics.
    pub fn resume(session: &Session, previous: &Snapshot, options: &CacheOptions) -> Self {
        let options = options.clone().with_max_depth(1);
        let cache = Cache::resume(session, previous, options);
        Self { cache }
    }

    /// Returns the children, ordered by name. Takes no lock and sends no request.
    pub fn children(&self) -> Vec<Node> {
        let snapshot = self.snapshot();
        snapshot.children(self.path()).cloned().collect()
    }

    /// Returns the child with the given name. Takes no lock and sends no request.
    pub fn child(&self, name: &str) -> Option<Node> {
        let path = self.path().join(name).ok()?;
        self.cache.state().get(&path)
    }

    /// Returns the parent of the children, if it exists.
    pub fn parent(&self) -> Option<Node> {
        self.cache.state().get(self.path())
    }

    common_methods!();
}
