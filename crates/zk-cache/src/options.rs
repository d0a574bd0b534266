//! The settings of a cache.

use std::fmt;
use std::sync::Arc;

use zk_core::NodePath;

/// The settings of a cache.
///
/// # Defaults
///
/// - [`content`](Self::with_content): [`Content::Full`]
/// - [`max_depth`](Self::with_max_depth): no limit
/// - [`selector`](Self::with_selector): every node
/// - [`max_children`](Self::with_max_children): 1,000,000
/// - [`max_nodes`](Self::with_max_nodes): 4,000,000
/// - [`max_bytes`](Self::with_max_bytes): 2 GiB
/// - [`window`](Self::with_window): 256 reads
/// - [`event_buffer`](Self::with_event_buffer): 1,024 batches
/// - [`event_bytes`](Self::with_event_bytes): 16 MiB
#[derive(Clone)]
pub struct CacheOptions {
    pub(crate) content: Content,
    pub(crate) max_depth: usize,
    pub(crate) selector: Option<Selector>,
    pub(crate) max_children: u32,
    pub(crate) max_nodes: usize,
    pub(crate) max_bytes: usize,
    pub(crate) window: usize,
    pub(crate) event_buffer: usize,
    pub(crate) event_bytes: usize,
}

pub(crate) type Selector = Arc<dyn Fn(&NodePath) -> Select + Send + Sync>;

/// The parts of each node that a cache keeps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Content {
    /// The data and the stat.
    #[default]
    Full,
    /// The stat alone, which saves the memory for the data. It needs the same permission.
    StatOnly,
    /// Of the children of a node the names alone, and of that node the stat: for a
    /// [`ChildrenCache`](crate::ChildrenCache), or a [`TreeCache`](crate::TreeCache) of depth 1. In other caches it is
    /// [`StatOnly`](Self::StatOnly).
    ///
    /// The children are not read, and need not be readable. Each change of their names costs one list of all of them, and
    /// changes that arrive together one list. Changes of their data, and further down, cost nothing at all.
    ///
    /// [`Event::Created`](crate::Event::Created) and [`Event::Deleted`](crate::Event::Deleted) report the names that are new
    /// or gone. There is no [`Event::Changed`](crate::Event::Changed) of a child, and no event of one that is deleted and
    /// created again between two lists. The [stat](crate::Node::stat) of a child is unknown: all its fields are zero.
    ///
    /// While the node has more children than the [limit](CacheOptions::with_max_children), they are not listed, and the
    /// names stay as they were: also those that are deleted meanwhile.
    NamesOnly,
}

/// What a selector returns for a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Select {
    /// Keep the node, and ask the selector about its children.
    Keep,
    /// Keep the node without its children.
    KeepAlone,
    /// Leave out the node and everything below it.
    Skip,
}

impl CacheOptions {
    /// Sets what the cache keeps of each node. The default is [`Content::Full`].
    #[must_use]
    pub const fn with_content(mut self, content: Content) -> Self {
        self.content = content;
        self
    }

    /// Sets how many levels below its root a [`TreeCache`](crate::TreeCache) reads: 0 is the root alone, 1 includes its
    /// children.
    ///
    /// The default is no limit.
    /// The server still sends a notification for each change below the limit, because it has no watch with a depth.
    /// The other caches have a fixed depth and ignore this.
    #[must_use]
    pub const fn with_max_depth(mut self, depth: usize) -> Self {
        self.max_depth = depth;
        self
    }

    /// Sets which nodes below the root the cache keeps, by path.
    ///
    /// The default is all of them. The root is always kept.
    /// The cache calls the selector more than once for a path, and needs the same result each time. The selector runs
    /// on the task of the cache: it must not block, and a panic [ends](crate::CacheEnd::Stopped) the cache.
    /// [`TreeCache::resume`](crate::TreeCache::resume) also calls it for the nodes of the snapshot, on the caller's
    /// thread.
    #[must_use]
    pub fn with_selector(
        mut self,
        selector: impl Fn(&NodePath) -> Select + Send + Sync + 'static,
    ) -> Self {
        self.selector = Some(Arc::new(selector));
        self
    }

    /// Sets the number of children up to which the cache lists a node. Of a node with more, it leaves out the children
    /// that it has not cached yet, see [`PartialRead::TooManyChildren`](crate::PartialRead::TooManyChildren).
    ///
    /// The default is 1,000,000.
    /// One reply contains all the names, and the process holds it in memory. A session reads replies of up to 16 MiB
    /// unless its limit is raised: if the names of a node's children, with 4 bytes more for each, do not fit into that,
    /// they are left out, see [`PartialRead::ChildrenTooLarge`](crate::PartialRead::ChildrenTooLarge). Java clients on the same nodes fail at a reply of more than `jute.maxbuffer`, 1 MiB by default.
    #[must_use]
    pub const fn with_max_children(mut self, children: u32) -> Self {
        self.max_children = children;
        self
    }

    /// Sets the maximum number of nodes in the cache, the root and those that the session may not read included; 0
    /// counts as 1.
    ///
    /// The default is 4,000,000.
    /// Further nodes are left out with everything below them, and the others stay up to date, see
    /// [`PartialRead::TooManyNodes`](crate::PartialRead::TooManyNodes).
    #[must_use]
    pub const fn with_max_nodes(mut self, nodes: usize) -> Self {
        self.max_nodes = if nodes == 0 { 1 } else { nodes };
        self
    }

    /// Sets the maximum memory of the nodes in the cache, in bytes.
    ///
    /// The default is 2 GiB.
    /// A node counts with its path, its data and 88 bytes for the rest; the index of the nodes, of about as many bytes
    /// for each, and snapshots that the application keeps are not counted.
    /// What exceeds it is left out, and the rest stays up to date, see
    /// [`PartialRead::TooManyBytes`](crate::PartialRead::TooManyBytes).
    #[must_use]
    pub const fn with_max_bytes(mut self, bytes: usize) -> Self {
        self.max_bytes = bytes;
        self
    }

    /// Sets the maximum number of reads in flight; 0 counts as 1.
    ///
    /// The default is 256.
    /// The cache sends fewer while replies take longer than a twentieth of the session timeout, as on a slow link. A
    /// load takes as long as the link needs, and a read waits for its reply as long as the connection lives, whatever
    /// the operation timeout is.
    /// A session answers requests in order: other users of the session wait for at most this many reads.
    #[must_use]
    pub const fn with_window(mut self, reads: usize) -> Self {
        self.window = if reads == 0 { 1 } else { reads };
        self
    }

    /// Sets the maximum number of event batches kept for slow consumers; 0 counts as 1.
    ///
    /// The default is 1,024.
    /// A batch contains the events between two snapshots: mostly one event, and some hundreds during the first load.
    /// A consumer that is further behind receives the difference between its last snapshot and the newest one instead
    /// of the batches it missed. It misses only what was undone in between.
    #[must_use]
    pub const fn with_event_buffer(mut self, batches: usize) -> Self {
        self.event_buffer = if batches == 0 { 1 } else { batches };
        self
    }

    /// Sets the maximum memory, in bytes, of the event batches kept for slow consumers.
    ///
    /// The default is 16 MiB, for all consumers of a cache together.
    /// A batch is dropped when all consumers have read it. A batch larger than this is not kept at all: a consumer that
    /// has not read it at once receives the difference, as with [`with_event_buffer`](Self::with_event_buffer).
    #[must_use]
    pub const fn with_event_bytes(mut self, bytes: usize) -> Self {
        self.event_bytes = bytes;
        self
    }
}

impl Default for CacheOptions {
    fn default() -> Self {
        Self {
            content: Content::Full,
            max_depth: usize::MAX,
            selector: None,
            max_children: 1_000_000,
            max_nodes: 4_000_000,
            max_bytes: 2 << 30,
            window: 256,
            event_buffer: 1024,
            event_bytes: 16 << 20,
        }
    }
}

impl fmt::Debug for CacheOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CacheOptions")
            .field("content", &self.content)
            .field("max_depth", &self.max_depth)
            .field("has_selector", &self.selector.is_some())
            .field("max_children", &self.max_children)
            .field("max_nodes", &self.max_nodes)
            .field("max_bytes", &self.max_bytes)
            .field("window", &self.window)
            .field("event_buffer", &self.event_buffer)
            .field("event_bytes", &self.event_bytes)
            .finish()
    }
}
