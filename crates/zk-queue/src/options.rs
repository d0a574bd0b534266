//! The options of queues, work queues and workers.

use std::sync::OnceLock;
use std::time::Duration;

use crate::layout::Layout;

/// Options of a [`Queue`](crate::Queue).
///
/// # Defaults
///
/// [`Layout::Recipe`], unbounded, segments of 16,384 items, lists of at most one second of age.
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
            segment_size: 16_384,
            refresh: Duration::from_secs(1),
        }
    }
}

impl QueueOptions {
    /// Sets the layout of nodes; default [`Layout::Recipe`].
    #[must_use]
    pub const fn with_layout(mut self, layout: Layout) -> Self {
        self.layout = layout;
        self
    }

    /// Bounds the number of items; unbounded by default.
    ///
    /// An offer counts the items before it adds its own, so concurrent producers may exceed the bound by the items that
    /// they offer at the same time. The bound applies to the offers of this handle only.
    #[must_use]
    pub const fn with_capacity(mut self, items: usize) -> Self {
        self.capacity = Some(items);
        self
    }

    /// Sets after how many items a new segment is started; default 16,384. Zero means 1.
    ///
    /// The list of a node's children has to fit into one reply, which many clients limit to a megabyte. 16,384 items
    /// fit whatever their names are: with a priority and a delay, a name may have 47 bytes.
    /// When a segment is started, consumers that are taking an item read the list again, or all lists if there are
    /// priorities. So a segment should take many times as long to fill as the lists take to read.
    /// Sizes below a thousand are useful only in tests.
    #[must_use]
    pub const fn with_segment_size(mut self, items: u32) -> Self {
        self.segment_size = if items == 0 { 1 } else { items };
        self
    }

    /// Sets how old a list may be when a consumer takes items from it; default one second.
    ///
    /// An item that comes before those of the list, because it has a higher priority or was put back, is delayed by at
    /// most this time, or by twenty times the duration of reading the list if that is longer.
    #[must_use]
    pub const fn with_refresh(mut self, age: Duration) -> Self {
        self.refresh = age;
        self
    }
}

/// Options of a [`WorkQueue`](crate::WorkQueue).
///
/// # Defaults
///
/// 16 deliveries, the host and the process id as owner, unbounded, segments of 16,384 items, lists of at most one
/// second of age.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkOptions {
    pub(crate) queue: QueueOptions,
    pub(crate) max_deliveries: u32,
    pub(crate) owner: Option<String>,
}

impl Default for WorkOptions {
    fn default() -> Self {
        Self {
            queue: QueueOptions::default().with_layout(Layout::Native),
            max_deliveries: 16,
            owner: None,
        }
    }
}

impl WorkOptions {
    /// Sets how often an item is delivered before it goes to the dead letters; default 16. Zero means 1.
    ///
    /// The consumer that is about to deliver an item applies its own setting, so all consumers should have the same.
    #[must_use]
    pub const fn with_max_deliveries(mut self, times: u32) -> Self {
        self.max_deliveries = if times == 0 { 1 } else { times };
        self
    }

    /// Sets the data of claims' nodes, for people to read; by default the host and the process id.
    #[must_use]
    pub fn with_owner(mut self, owner: impl Into<String>) -> Self {
        self.owner = Some(owner.into());
        self
    }

    /// As [`QueueOptions::with_capacity`]; items that are being processed count.
    #[must_use]
    pub const fn with_capacity(mut self, items: usize) -> Self {
        self.queue = self.queue.with_capacity(items);
        self
    }

    /// As [`QueueOptions::with_segment_size`].
    #[must_use]
    pub const fn with_segment_size(mut self, items: u32) -> Self {
        self.queue = self.queue.with_segment_size(items);
        self
    }

    /// As [`QueueOptions::with_refresh`].
    #[must_use]
    pub const fn with_refresh(mut self, age: Duration) -> Self {
        self.queue = self.queue.with_refresh(age);
        self
    }

    /// Returns the data of claims' nodes.
    pub(crate) fn owner(&self) -> String {
        static DEFAULT: OnceLock<String> = OnceLock::new();
        let host_and_process = || {
            let host = gethostname::gethostname();
            format!("{}/{}", host.to_string_lossy(), std::process::id())
        };
        match &self.owner {
            Some(owner) => owner.clone(),
            None => DEFAULT.get_or_init(host_and_process).clone(),
        }
    }
}

/// Options of a worker of a [`WorkQueue`](crate::WorkQueue).
///
/// # Defaults
///
/// One item at a time; a retry delay of one second that doubles with each further delivery up to a minute; 30 seconds
/// to finish when the worker is stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerOptions {
    pub(crate) concurrency: usize,
    pub(crate) first_delay: Duration,
    pub(crate) longest_delay: Duration,
    pub(crate) grace: Duration,
}

impl Default for WorkerOptions {
    fn default() -> Self {
        Self {
            concurrency: 1,
            first_delay: Duration::from_secs(1),
            longest_delay: Duration::from_secs(60),
            grace: Duration::from_secs(30),
        }
    }
}

impl WorkerOptions {
    /// Sets how many items are processed concurrently; default 1. Zero means 1.
    ///
    /// A worker claims as many items at once, and up to as many more while items are being acknowledged. With more than
    /// it can process concurrently, it keeps items from others.
    #[must_use]
    pub const fn with_concurrency(mut self, items: usize) -> Self {
        self.concurrency = if items == 0 { 1 } else { items };
        self
    }

    /// Sets the delay before a failed item is delivered again: `first` after its first delivery, twice as long after
    /// each further one, at most `longest`; default one second and one minute.
    #[must_use]
    pub const fn with_delays(mut self, first: Duration, longest: Duration) -> Self {
        self.first_delay = first;
        self.longest_delay = longest;
        self
    }

    /// Sets how long a stopped worker waits for its handlers; default 30 s.
    ///
    /// Handlers that have not finished by then are dropped, and their items are delivered again.
    #[must_use]
    pub const fn with_grace(mut self, time: Duration) -> Self {
        self.grace = time;
        self
    }

    /// Returns the delay of an item that failed in its last delivery.
    pub(crate) fn delay_after(&self, deliveries: u32) -> Duration {
        let doublings = deliveries.saturating_sub(1).min(31);
        self.first_delay
            .saturating_mul(1 << doublings)
            .min(self.longest_delay)
    }
}
