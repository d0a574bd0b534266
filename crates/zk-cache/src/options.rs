//! What a cache can be told beyond its path.

use std::fmt;
use std::sync::Arc;

use zk_core::NodePath;

/// The settings of a cache.
///
/// # Defaults
///
/// - [`content`](Self::with_content): [`Content::Full`]
/// - [`max_depth`](Self::with_max_depth): no limit
/// - [`selector`](Self::with_selector): everything
/// - [`most_children`](Self::with_most_children): 1,000,000
/// - [`window`](Self::with_window): 256 reads
/// - [`event_buffer`](Self::with_event_buffer): 1,024 rounds
/// - [`event_bytes`](Self::with_event_bytes): 16 MiB
#[derive(Clone)]
pub struct CacheOptions {
    pub(crate) content: Content,
    pub(crate) max_depth: usize,
    pub(crate) selector: Option<Selector>,
    pub(crate) most_children: u32,
    pub(crate) window: usize,
    pub(crate) event_buffer: usize,
    pub(crate) event_bytes: usize,
}

pub(crate) type Selector = Arc<dyn Fn(&NodePath) -> Select + Send + Sync>;

/// What a cache keeps of each node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Content {
    /// The data and the stat.
    #[default]
    Full,
    /// The stat alone, which takes no memory for data. It needs the same permission.
    StatOnly,
}

/// What a selector says of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Select {
    /// It is kept, and its children are looked at.
    Keep,
    /// It is kept, and its children are not.
    KeepAlone,
    /// It is left out, and everything below it.
    Skip,
}

impl CacheOptions {
    /// Sets what is kept of each node. The default is [`Content::Full`].
    #[must_use]
    pub const fn with_content(mut self, content: Content) -> Self {
        self.content = content;
        self
    }

    /// Sets how far below its root a [`TreeCache`](crate::TreeCache) looks: 0 is the root alone, 1 its children, too.
    ///
    /// The default is no limit.
    /// The server still tells of changes below the limit, at a message for each: it has no watch with a depth.
    /// Other caches have a depth of their own and do not look at this.
    #[must_use]
    pub const fn with_max_depth(mut self, depth: usize) -> Self {
        self.max_depth = depth;
        self
    }

    /// Sets which nodes below the root are kept, by their paths.
    ///
    /// The default is all of them.
    /// It is asked more than once for a path and must always say the same of it; it runs on the task of the cache, so it
    /// must not block, and a panic of it [ends](crate::End::Stopped) the cache.
    /// [`TreeCache::resume`](crate::TreeCache::resume) also asks it of what there was, on the thread of its caller.
    /// The root is always kept.
    #[must_use]
    pub fn with_selector(
        mut self,
        selector: impl Fn(&NodePath) -> Select + Send + Sync + 'static,
    ) -> Self {
        self.selector = Some(Arc::new(selector));
        self
    }

    /// Sets how many children a node may have to be listed; of one with more the children are left out that the cache does
    /// not have yet, see [`Gap::TooManyChildren`](crate::Gap::TooManyChildren).
    ///
    /// The default is 1,000,000.
    /// All their names come in one answer, which the process has to hold; with Java clients on the same nodes keep in mind
    /// that theirs break at an answer of more than `jute.maxbuffer`, 1 MiB by default.
    #[must_use]
    pub const fn with_most_children(mut self, children: u32) -> Self {
        self.most_children = children;
        self
    }

    /// Sets how many reads of the cache are on their way at once, at most; 0 counts as 1.
    ///
    /// The default is 256.
    /// There are fewer while answers take longer than a twentieth of the session timeout, as on a link that is slow for the
    /// data: a load takes as long as the link needs for it, and a read waits for its answer as long as the link lives,
    /// whatever the operation timeout is.
    /// Requests of a session are answered in their order: whoever else uses the session waits for so many reads at most.
    #[must_use]
    pub const fn with_window(mut self, reads: usize) -> Self {
        self.window = if reads == 0 { 1 } else { reads };
        self
    }

    /// Sets how many rounds of events are kept for a consumer that is slow, at most; 0 counts as 1.
    ///
    /// The default is 1,024.
    /// A round is what the cache found out at once: mostly one event, at the first load some hundreds.
    /// A consumer that is behind by more is not told the rounds it missed but the difference between what it was told last
    /// and what is: nothing is lost but what was undone meanwhile.
    #[must_use]
    pub const fn with_event_buffer(mut self, rounds: usize) -> Self {
        self.event_buffer = if rounds == 0 { 1 } else { rounds };
        self
    }

    /// Sets how many bytes of memory the rounds of events may take that are kept for consumers that are slow, at most.
    ///
    /// The default is 16 MiB, for all consumers of a cache together.
    /// Rounds that all have read are not kept. A round that is larger than this is kept for no consumer: one that has not
    /// read it at once is told the difference, as with [`with_event_buffer`](Self::with_event_buffer).
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
            most_children: 1_000_000,
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
            .field("most_children", &self.most_children)
            .field("window", &self.window)
            .field("event_buffer", &self.event_buffer)
            .field("event_bytes", &self.event_bytes)
            .finish()
    }
}
