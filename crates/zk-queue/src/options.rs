//! What can be set on a queue.

use std::time::Duration;

use crate::layout::Layout;

/// How a [`Queue`](crate::Queue) is laid out and used.
///
/// # Defaults
///
/// [`Layout::Recipe`], no bound, segments of 32,768 items, lists not older than a second.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueOptions {
    pub(crate) layout: Layout,
    pub(crate) capacity: Option<usize>,
    pub(crate) segment_size: u32,
    pub(crate) refresh: Duration,
}

impl Default for QueueOptions {
    fn default() -> Self {
        Self {
            layout: Layout::Recipe,
            capacity: None,
            segment_size: 32_768,
            refresh: Duration::from_secs(1),
        }
    }
}

impl QueueOptions {
    /// Sets how nodes are named; default [`Layout::Recipe`].
    #[must_use]
    pub const fn with_layout(mut self, layout: Layout) -> Self {
        self.layout = layout;
        self
    }

    /// Bounds the number of items; by default there is no bound.
    ///
    /// An offer looks how many there are before it is made, so that producers which offer at the same moment may exceed
    /// it by as many items as they offer then.
    /// Each producer bounds its own offers.
    #[must_use]
    pub const fn with_capacity(mut self, items: usize) -> Self {
        self.capacity = Some(items);
        self
    }

    /// Sets after how many items a new segment is begun; default 32,768, at least 1, which a lower number is taken for.
    ///
    /// A list of the children of one node has to fit into one answer, which for many clients may have a megabyte:
    /// 32,768 items of the longest names take less.
    #[must_use]
    pub const fn with_segment_size(mut self, items: u32) -> Self {
        self.segment_size = if items == 0 { 1 } else { items };
        self
    }

    /// Sets how old the list may become from which a consumer takes items; default one second.
    ///
    /// Whatever comes before the items of the list, one of a higher priority or one that was put back, waits that long
    /// at most, or twenty times as long as the list takes to read if that is longer.
    #[must_use]
    pub const fn with_refresh(mut self, age: Duration) -> Self {
        self.refresh = age;
        self
    }
}
