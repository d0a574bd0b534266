//! A cache of the children of a node.

use zk_core::NodePath;
use zk_core::ParsePathError;
use zk_core::Session;

use crate::cache::Cache;
use crate::cache::common_methods;
use crate::event::End;
use crate::events::Events;
use crate::node::Node;
use crate::options::CacheOptions;
use crate::snapshot::Snapshot;
use crate::snapshot::State;

/// The children of a node, in memory, and the node itself.
///
/// It is a [`TreeCache`](crate::TreeCache) of depth 1: [`Event::Created`](crate::Event::Created),
/// [`Event::Changed`](crate::Event::Changed) and [`Event::Deleted`](crate::Event::Deleted) tell of the children and of the
/// node, by their paths.
/// Clones share the cache.
/// It keeps its session open, as each clone of that does.
///
/// # Dropping
///
/// Dropping the last clone ends the cache: its events end with [`End::Stopped`], and its watch is taken back in the
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
    /// Starts a cache of the children of the node at `path`, which need not exist, in the background and with default
    /// options.
    ///
    /// # Errors
    ///
    /// When `path` is none.
    ///
    /// # Cost
    ///
    /// That of a [`TreeCache`](crate::TreeCache::start_with).
    /// Changes further down cost a message of the server each: it has no watch that tells children's data and nothing below.
    pub fn start<P>(session: &Session, path: P) -> Result<Self, ParsePathError>
    where
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        Self::start_with(session, path, &CacheOptions::default())
    }

    /// Starts a cache of the children of the node at `path`, which need not exist, in the background.
    ///
    /// The depth of the options is left aside.
    ///
    /// # Errors
    ///
    /// When `path` is none.
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

    /// Starts a cache that has at first what another one had, see [`TreeCache::resume`](crate::TreeCache::resume).
    ///
    /// # Panics
    ///
    /// When a selector panics.
    pub fn resume(session: &Session, previous: &Snapshot, options: &CacheOptions) -> Self {
        let options = options.clone().with_max_depth(1);
        let cache = Cache::resume(session, previous, options);
        Self { cache }
    }

    /// Returns the children by their names. Takes no lock and asks nobody.
    pub fn children(&self) -> Vec<Node> {
        let snapshot = self.snapshot();
        snapshot.children(self.path()).cloned().collect()
    }

    /// Returns the child with this name. Takes no lock and asks nobody.
    pub fn child(&self, name: &str) -> Option<Node> {
        let path = self.path().join(name).ok()?;
        self.cache.board().get(&path)
    }

    /// Returns the node whose children these are, if it exists.
    pub fn parent(&self) -> Option<Node> {
        self.cache.board().get(self.path())
    }

    common_methods!();
}
