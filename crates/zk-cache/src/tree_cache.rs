//! A cache of a node and everything below it.

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

/// A node and everything below it, in memory.
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
    /// Starts a cache of the node at `path`, which need not exist, in the background and with default options.
    ///
    /// # Errors
    ///
    /// When `path` is none.
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

    /// Starts a cache of the node at `path`, which need not exist, in the background.
    ///
    /// # Errors
    ///
    /// When `path` is none.
    ///
    /// # Cost
    ///
    /// At first a read for each node, and another one for each that has children, many at once.
    /// One message of the server and one read for each change.
    /// After a break of the connection a read without data for each node, one for each node whose children came or went,
    /// and one for each that changed.
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

    /// Starts a cache that has at first what another one had, which has ended with its session.
    ///
    /// What it has is [stale](State::Stale) until it has looked at everything.
    /// Its events [since](Self::events_since) that snapshot are the difference, and then what happens.
    /// The options should be those of the other cache: nodes that they leave out are left out without a word, and with
    /// another [`Content`](crate::Content) every node is told as changed.
    ///
    /// # Panics
    ///
    /// When a selector panics.
    ///
    /// # Cost
    ///
    /// Before it answers it goes through the snapshot, on the thread of the caller: that is what there is to be seen at once.
    /// A [selector](CacheOptions::with_selector) is asked there of every node of it.
    /// Then that of a break of the connection, see [`start_with`](Self::start_with).
    pub fn resume(session: &Session, previous: &Snapshot, options: &CacheOptions) -> Self {
        let options = options.clone();
        let cache = Cache::resume(session, previous, options);
        Self { cache }
    }

    /// Returns a node. Takes no lock and asks nobody.
    pub fn get(&self, path: &NodePath) -> Option<Node> {
        self.cache.board().get(path)
    }

    common_methods!();
}
