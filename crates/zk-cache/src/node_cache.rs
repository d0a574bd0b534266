//! A cache of one node.

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

/// One node in memory, which may be created and deleted.
///
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
/// use zk_cache::{Event, NodeCache};
///
/// let flag = NodeCache::start(&session, "/app/maintenance")?;
/// flag.synchronized().await?;
/// if flag.node().is_some() {
///     println!("under maintenance");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct NodeCache {
    cache: Cache,
}

impl NodeCache {
    /// Starts a cache of the node at `path` in the background, with default options. The node need not exist.
    ///
    /// # Errors
    ///
    /// If `path` is not a valid node path.
    ///
    /// # Cost
    ///
    /// One read at the start, one notification and one read for each change, and one or two reads after each connection
    /// loss.
    pub fn start<P>(session: &Session, path: P) -> Result<Self, ParsePathError>
    where
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        Self::start_with(session, path, &CacheOptions::default())
    }

    /// Starts a cache of the node at `path` in the background. The node need not exist.
    ///
    /// The depth and the selector of the options are ignored.
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
        let options = options.clone().with_max_depth(0);
        Cache::start(session, path, options).map(|cache| Self { cache })
    }

    /// Starts a cache with the contents of another one, see [`TreeCache::resume`](crate::TreeCache::resume).
    pub fn resume(session: &Session, previous: &Snapshot, options: &CacheOptions) -> Self {
        let options = options.clone().with_max_depth(0);
        let cache = Cache::resume(session, previous, options);
        Self { cache }
    }

    /// Returns the node, if it exists. Takes no lock and sends no request.
    pub fn node(&self) -> Option<Node> {
        self.cache.state().get(self.path())
    }

    common_methods!();
}
