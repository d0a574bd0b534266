//! A cache of a node and everything below it.

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

/// A node and everything below it in memory.
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
/// use zk_cache::{CacheOptions, Event, Select, TreeCache};
///
/// let options = CacheOptions::default().with_max_depth(3).with_selector(|path| {
///     match path.name() {
///         Some("archive") => Select::Skip,
///         _ => Select::Keep,
///     }
/// });
/// let cache = TreeCache::start_with(&session, "/app", &options)?;
/// let before = cache.synchronized().await?;
/// let mut events = cache.events_since(&before);
/// while let Some(event) = events.next().await {
///     if let Event::Changed { old, new } = event {
///         println!("{}: {:?} became {:?}", new.path(), old.data(), new.data());
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct TreeCache {
    cache: Cache,
}

impl TreeCache {
    /// Starts a cache of the node at `path` in the background, with default options. The node need not exist.
    ///
    /// # Errors
    ///
    /// If `path` is not a valid node path.
    ///
    /// # Cost
    ///
    /// See [`start_with`](Self::start_with).
    pub fn start<P>(session: &Session, path: P) -> Result<Self, ParsePathError>
    where
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        Self::start_with(session, path, &CacheOptions::default())
    }

    /// Starts a cache of the node at `path` in the background. The node need not exist.
    ///
    /// # Errors
    ///
    /// If `path` is not a valid node path.
    ///
    /// # Cost
    ///
    /// At the start one read for each node, and another one for each node that has children, pipelined.
    /// One notification and one read for each change.
    /// After a connection loss one read without data for each node, one for each node that gained or lost children, and
    /// one for each node that changed.
    pub fn start_with<P>(
        session: &Session,
        path: P,
        options: &CacheOptions,
    ) -> Result<Self, ParsePathError>
    where
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        let options = options.clone();
        Cache::start(session, path, options).map(|cache| Self { cache })
    }

    /// Starts a cache with the contents of another one, which has ended with its session.
    ///
    /// The contents are [stale](CacheState::Stale) until the cache has checked every node.
    /// Its events [since](Self::events_since) that snapshot are the difference, and then every later change.
    /// The options should be those of the other cache: nodes that they leave out disappear without an event, and with
    /// another [`Content`](crate::Content) every node is reported as changed.
    ///
    /// # Panics
    ///
    /// If a selector panics.
    ///
    /// # Cost
    ///
    /// Goes through the snapshot on the caller's thread before it returns, and calls the
    /// [selector](CacheOptions::with_selector) for each node. The contents are readable at once.
    /// Then as after a connection loss, see [`start_with`](Self::start_with).
    pub fn resume(session: &Session, previous: &Snapshot, options: &CacheOptions) -> Self {
        let options = options.clone();
        let cache = Cache::resume(session, previous, options);
        Self { cache }
    }

    /// Returns a node. Takes no lock and sends no request.
    pub fn get(&self, path: &NodePath) -> Option<Node> {
        self.cache.state().get(path)
    }

    common_methods!();
}
