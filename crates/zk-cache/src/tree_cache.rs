//! A cache of a node and everything below it.

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

/// A node and everything below it in memory.
///
/// Clones share the cache. A cache keeps its session or its sessions open, as each clone of those does.
///
/// # Cost
///
/// At the start one request for 64 nodes, and one for each node that has children, pipelined.
/// One notification and one read for each change; changes that arrive together are read together.
/// After a connection loss one request for 64 nodes of up to 4 KiB, one without data for each larger node, one for each
/// node that gained or lost children, and one for each larger node that changed.
/// On servers before 3.6, and with [`Content::StatOnly`](crate::Content::StatOnly), one request for each node instead of
/// 64: servers read the data of several nodes together, but not their stats.
///
/// In memory about 100 bytes and the lengths of path and data for each node, and 40 bytes to find it.
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
    /// Returns the node at `path`, a text or a [`NodePath`]; `None` if it is not cached. Takes no lock and sends no
    /// request.
    pub fn get(&self, path: impl AsRef<str>) -> Option<Node> {
        self.cache.state().get(path.as_ref())
    }

    common_methods!(None);
}
