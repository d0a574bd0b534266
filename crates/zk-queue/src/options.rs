//! What can be set on a queue.

use std::sync::OnceLock;
use std::time::Duration;

use crate::layout::Layout;

/// How a [`Queue`](crate::Queue) is laid out and used.
///
/// # Defaults
///
/// [`Layout::Recipe`], no bound, segments of 16,384 items, lists not older than a second.
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

    /// Sets after how many items a new segment is begun; default 16,384, at least 1, which a lower number is taken for.
    ///
    /// A list of the children of one node has to fit into one answer, which for many clients may have a megabyte:
    /// 16,384 items take less whatever their names are: with a priority and a delay, a name may have 47 bytes.
    /// Whenever a segment is begun, whoever is taking an item at that moment has to look again, with priorities at all
    /// lists; so a segment should take many times as long to fill as the lists take to read.
    /// Less than a thousand items make sense for tests alone.
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

/// How a [`WorkQueue`](crate::WorkQueue) is used.
///
/// # Defaults
///
/// 16 deliveries, the host and the process for an owner, no bound, segments of 16,384 items, lists not older than a
/// second.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkOptions {
    pub(crate) queue: QueueOptions,
    pub(crate) most_deliveries: u32,
    pub(crate) owner: Option<String>,
}

impl Default for WorkOptions {
    fn default() -> Self {
        Self {
            queue: QueueOptions::default().with_layout(Layout::Native),
            most_deliveries: 16,
            owner: None,
        }
    }
}

impl WorkOptions {
    /// Sets how often an item is delivered at most before it goes to the dead letters; default 16, at least 1, which a
    /// lower number is taken for.
    ///
    /// Whoever is about to deliver it once more looks at this number, so that all consumers should have the same.
    #[must_use]
    pub const fn with_most_deliveries(mut self, times: u32) -> Self {
        self.most_deliveries = if times == 0 { 1 } else { times };
        self
    }

    /// Sets what is in the nodes of claims, for people to read; by default the host and the process.
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

    /// What is in the nodes of claims.
    pub(crate) fn owner(&self) -> String {
        static THIS: OnceLock<String> = OnceLock::new();
        let this = || {
            let host = gethostname::gethostname();
            format!("{}/{}", host.to_string_lossy(), std::process::id())
        };
        match &self.owner {
            Some(owner) => owner.clone(),
            None => THIS.get_or_init(this).clone(),
        }
    }
}

/// How a worker of a [`WorkQueue`](crate::WorkQueue) works.
///
/// # Defaults
///
/// One item at a time, a second before the second delivery of a failed one and twice as long before each further one up
/// to a minute, and half a minute to finish when it is stopped.
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
    /// Sets how many items are processed at once; default 1, which zero is taken for.
    ///
    /// As many are claimed at once: with more than it can process at the same time, a worker keeps items from others.
    #[must_use]
    pub const fn with_concurrency(mut self, items: usize) -> Self {
        self.concurrency = if items == 0 { 1 } else { items };
        self
    }

    /// Sets how long an item rests that could not be processed: `first` after its first delivery, twice as long after
    /// each further one, at most `longest`; default a second and a minute.
    #[must_use]
    pub const fn with_delays(mut self, first: Duration, longest: Duration) -> Self {
        self.first_delay = first;
        self.longest_delay = longest;
        self
    }

    /// Sets how long a worker that is stopped waits for what is being processed; default 30 s.
    ///
    /// What is not finished by then is dropped, and its items go back.
    #[must_use]
    pub const fn with_grace(mut self, time: Duration) -> Self {
        self.grace = time;
        self
    }

    /// How long an item rests after so many deliveries.
    pub(crate) fn delay_after(&self, deliveries: u32) -> Duration {
        let doublings = deliveries.saturating_sub(1).min(31);
        self.first_delay
            .saturating_mul(1 << doublings)
            .min(self.longest_delay)
    }
}
