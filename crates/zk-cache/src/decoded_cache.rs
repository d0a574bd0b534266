//! The values of a cache's nodes, decoded once after each change.

use std::fmt;
use std::sync::Arc;

use rpds::RedBlackTreeMapSync;
use tokio::sync::watch;
use zk_core::codec::{Codec, DecodeError};

use crate::cache::{Cache, Task};
use crate::event::Event;
use crate::events::Events;
use crate::node::Node;
use crate::snapshot::Snapshot;

/// The nodes of a cache as values; made by [`TreeCache::decoded`](crate::TreeCache::decoded) and the same methods of the
/// other caches. Clones share it.
///
/// A node is decoded once after each change, in the background, and not when it is read. A node whose new data cannot be
/// decoded keeps its last good value, and is a [problem](DecodedSnapshot::problems) until it can be decoded again or is
/// deleted. A node that is created again does not have the value of the old one.
/// A node without data, such as one that only has children, has no value and is no problem, if the codec refuses empty data
/// and the node had no value before.
///
/// It keeps the cache running, and follows it as closely as the decoding allows: its snapshots are a little older.
///
/// # Cost
///
/// No request. Each change is decoded on the runtime of the cache.
///
/// # Dropping
///
/// Dropping the last clone ends the decoding, and drops a handle of the cache.
///
/// # Examples
///
/// ```no_run
/// # async fn demo(session: zk_core::Session) -> Result<(), Box<dyn std::error::Error>> {
/// use zk_cache::ChildrenCache;
/// use zk_core::codec::Text;
///
/// let mottos = ChildrenCache::start(&session, "/mottos")?.decoded::<String>(Text);
/// mottos.snapshots().wait_for(|now| now.is_synchronized()).await?;
/// println!("{:?}", mottos.get("/mottos/athos"));
/// for error in mottos.snapshot().problems() {
///     eprintln!("{error}");
/// }
/// # Ok(())
/// # }
/// ```
pub struct DecodedCache<T> {
    newest: watch::Receiver<DecodedSnapshot<T>>,
    cache: Cache,
    task: Arc<Task>,
}

/// The values of a [`DecodedCache`] at one moment. It is cheap to clone and never changes.
pub struct DecodedSnapshot<T> {
    source: Snapshot,
    by_path: RedBlackTreeMapSync<Arc<str>, Decoded<T>>,
}

/// A node with a value or a problem.
struct Decoded<T> {
    /// The last good value.
    value: Option<Arc<T>>,
    /// Why the present data has none.
    problem: Option<DecodeError>,
}

impl<T: Send + Sync + 'static> DecodedCache<T> {
    pub(crate) fn start(cache: &Cache, codec: impl Codec<T> + 'static) -> Self {
        let empty = Snapshot::empty_at(cache.root().clone());
        let events = Events::new(cache.state(), Some(&empty));
        let (publisher, newest) = watch::channel(DecodedSnapshot {
            source: empty,
            by_path: RedBlackTreeMapSync::new_sync(),
        });
        let task = cache.spawn(decode_all(events, codec, publisher));
        Self {
            newest,
            cache: cache.clone(),
            task: Arc::new(task),
        }
    }

    /// Returns the value of the node at `path`, a text or a [`NodePath`](zk_core::NodePath); `None` if it has none.
    pub fn get(&self, path: impl AsRef<str>) -> Option<Arc<T>> {
        self.newest.borrow().get(path).cloned()
    }

    /// Returns all values as of now.
    pub fn snapshot(&self) -> DecodedSnapshot<T> {
        self.newest.borrow().clone()
    }

    /// Returns a channel with the newest snapshot and its changes. It is closed after the last one: when the cache has
    /// ended, or the codec has panicked.
    pub fn snapshots(&self) -> watch::Receiver<DecodedSnapshot<T>> {
        self.newest.clone()
    }
}

impl<T> DecodedSnapshot<T> {
    /// Returns the value of the node at `path`, a text or a [`NodePath`](zk_core::NodePath); `None` if it has none.
    pub fn get(&self, path: impl AsRef<str>) -> Option<&Arc<T>> {
        self.by_path.get(path.as_ref())?.value.as_ref()
    }

    /// Returns all values with the paths of their nodes, ordered by path.
    pub fn values(&self) -> impl Iterator<Item = (&str, &Arc<T>)> {
        let all = self.by_path.iter();
        all.filter_map(|(path, decoded)| Some((&**path, decoded.value.as_ref()?)))
    }

    /// Returns why the present data of some nodes has no value, ordered by path. Each error has the path of its node, which
    /// has its last good value, if there was one.
    pub fn problems(&self) -> impl Iterator<Item = &DecodeError> {
        let all = self.by_path.values();
        all.filter_map(|decoded| decoded.problem.as_ref())
    }

    /// Returns the nodes that the values were decoded from, and how far they can be relied on.
    pub fn source(&self) -> &Snapshot {
        &self.source
    }

    /// Returns whether the nodes that the values were decoded from were up to date, see
    /// [`Snapshot::is_synchronized`].
    pub fn is_synchronized(&self) -> bool {
        self.source.is_synchronized()
    }

    fn apply(&mut self, event: &Event, codec: &impl Codec<T>) {
        match event {
            Event::Created(node) => self.decode(node, None, codec),
            Event::Changed { new, .. } => {
                let last_good = self.get(new.path()).cloned();
                self.decode(new, last_good, codec);
            }
            Event::Deleted(node) => drop(self.by_path.remove_mut(node.path())),
            _ => {}
        }
    }

    fn decode(&mut self, node: &Node, last_good: Option<Arc<T>>, codec: &impl Codec<T>) {
        let decoded = node.data().map(|data| (data, codec.decode(data)));
        let decoded = match decoded {
            Some((_, Ok(value))) => Decoded {
                value: Some(Arc::new(value)),
                problem: None,
            },
            Some((data, Err(error))) if !data.is_empty() || last_good.is_some() => {
                // Not the error itself, which may quote the data.
                let (path, format, kind) = (node.path(), error.format(), error.kind());
                tracing::warn!(path, format, ?kind, "cached node not decoded");
                Decoded {
                    value: last_good,
                    problem: Some(error.of_node(&node.to_node_path())),
                }
            }
            _ => {
                self.by_path.remove_mut(node.path());
                return;
            }
        };
        self.by_path.insert_mut(Arc::from(node.path()), decoded);
    }
}

/// Decodes the nodes of each batch of events, until the cache has ended.
async fn decode_all<T>(
    mut events: Events,
    codec: impl Codec<T>,
    publisher: watch::Sender<DecodedSnapshot<T>>,
) {
    while let Some((events, snapshot)) = events.next_batch().await {
        let mut next = publisher.borrow().clone();
        for (number, event) in events.iter().enumerate() {
            next.apply(event, &codec);
            if number % MAX_AT_ONCE == MAX_AT_ONCE - 1 {
                tokio::task::yield_now().await;
            }
        }
        next.source = snapshot;
        publisher.send_replace(next);
    }
}

impl<T> Clone for DecodedCache<T> {
    fn clone(&self) -> Self {
        Self {
            newest: self.newest.clone(),
            cache: self.cache.clone(),
            task: Arc::clone(&self.task),
        }
    }
}

impl<T> Clone for DecodedSnapshot<T> {
    fn clone(&self) -> Self {
        Self {
            source: self.source.clone(),
            by_path: self.by_path.clone(),
        }
    }
}

impl<T> fmt::Debug for DecodedCache<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DecodedCache")
            .field("cache", &self.cache)
            .finish_non_exhaustive()
    }
}

/// Omits the values.
impl<T> fmt::Debug for DecodedSnapshot<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DecodedSnapshot")
            .field("source", &self.source)
            .field("values", &self.values().count())
            .field("problems", &self.problems().count())
            .finish_non_exhaustive()
    }
}

/// After this many nodes, other tasks run.
const MAX_AT_ONCE: usize = 64;
