//! A cache of one node.

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

/// One node, in memory, which may come and go.
///
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
    /// Starts a cache of the node at `path`, which need not exist, in the background and with default options.
    ///
    /// # Errors
    ///
    /// When `path` is none.
    ///
    /// # Cost
    ///
    /// One read at first, one message of the server and one read for each change, and one or two reads after a break of the
    /// connection.
    pub fn start<P>(session: &Session, path: P) -> Result<Self, ParsePathError>
    where
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        Self::start_with(session, path, &CacheOptions::default())
    }

    /// Starts a cache of the node at `path`, which need not exist, in the background.
    ///
    /// Depth and selector of the options are left aside.
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
        let options = options.clone().with_max_depth(0);
        Cache::start(session, path, options).map(|cache| Self { cache })
    }

    /// Starts a cache that has at first what another one had, see [`TreeCache::resume`](crate::TreeCache::resume).
    pub fn resume(session: &Session, previous: &Snapshot, options: &CacheOptions) -> Self {
        let options = options.clone().with_max_depth(0);
        let cache = Cache::resume(session, previous, options);
        Self { cache }
    }

    /// Returns the node, if it exists. Takes no lock and asks nobody.
    pub fn node(&self) -> Option<Node> {
        self.cache.board().get(self.path())
    }

    common_methods!();
}
