//! A cache of one node.

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

/// One node in memory, which may be created and deleted.
///
/// The depth and the selector of its options are ignored.
/// Clones share the cache. A cache keeps its session or its sessions open, as each clone of those does.
///
/// # Cost
///
/// One read at the start, one notification and one read for each change, and one or two reads after each connection
/// loss.
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
    /// Returns the node, if it exists. Takes no lock and sends no request.
    pub fn node(&self) -> Option<Node> {
        self.cache.state().get(self.path().as_str())
    }

    common_methods!(Some(0));
}
