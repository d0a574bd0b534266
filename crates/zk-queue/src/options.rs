//! The options of queues, work queues and workers.

use std::sync::OnceLock;
use std::time::Duration;

use zk_core::{Jitter, RetryPolicy};

use crate::layout::Layout;
use crate::work_layout::WorkLayout;

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
/// [`WorkLayout::Native`], 16 deliveries, no time to run, the host and the process id as owner, unbounded, segments of 16,384 items, lists of at
/// most one second of age.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkOptions {
    pub(crate) queue: QueueOptions,
    pub(crate) max_deliveries: u32,
    pub(crate) time_to_run: Option<Duration>,
    pub(crate) owner: Option<String>,
    /// That of `queue` is the layout of its items.
    pub(crate) layout: WorkLayout,
}

impl Default for WorkOptions {
    fn default() -> Self {
        Self {
            queue: QueueOptions::default().with_layout(Layout::Native),
            max_deliveries: 16,
            time_to_run: None,
            owner: None,
            layout: WorkLayout::Native,
        }
    }
}

impl WorkOptions {
    /// Sets the layout of nodes, with which the consumers of other clients can share the queue; default
    /// [`WorkLayout::Native`].
    #[must_use]
    pub fn with_layout(mut self, layout: WorkLayout) -> Self {
        self.queue = self.queue.with_layout(layout.items());
        self.layout = layout;
        self
    }

    /// Sets how often an item is delivered before it goes to the dead letters; default 16. Zero means 1.
    ///
    /// The consumer that is about to deliver an item applies its own setting, so all consumers should have the same.
    #[must_use]
    pub const fn with_max_deliveries(mut self, times: u32) -> Self {
        self.max_deliveries = if times == 0 { 1 } else { times };
        self
    }

    /// Limits how long one delivery may take, so that a consumer that hangs does not keep an item as long as its session
    /// lives; unlimited by default. Less than a second means a second.
    ///
    /// The time begins when an item is claimed, and again with each [`Claim::touch`](crate::Claim::touch). When it is
    /// over, this process gives the claim up: the claim is no longer valid, [`Claim::lost`](crate::Claim::lost) returns
    /// [`TimeToRunExpired`](crate::ClaimLoss::TimeToRunExpired), a worker drops the handler, and the item is delivered
    /// again at once, to any consumer. Each such delivery counts.
    ///
    /// A claim that is being acknowledged, rejected or buried is not given up. If that begins too late, it either still
    /// succeeds, or fails with [`SettleError::Lost`](crate::SettleError::Lost): then the item is processed again.
    ///
    /// The process itself measures the time, on the runtime of the session, and nothing is stored. So it needs no
    /// common clock, and consumers may have different limits. A process that is stopped or blocked as a whole gives
    /// nothing up, but its session ends, and its claims with it. Without a connection, the item is delivered again when
    /// the connection is back or the session ends.
    /// A handler that blocks its thread cannot be dropped and goes on; its item is delivered again all the same.
    #[must_use]
    pub const fn with_time_to_run(mut self, limit: Duration) -> Self {
        let is_short = limit.as_secs() == 0;
        self.time_to_run = Some(if is_short {
            Duration::from_secs(1)
        } else {
            limit
        });
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
/// One item at a time; a retry delay of one second that doubles with each further delivery up to a minute, shortened at
/// random by up to half; 30 seconds to finish when the worker is stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerOptions {
    pub(crate) concurrency: usize,
    pub(crate) first_delay: Duration,
    pub(crate) longest_delay: Duration,
    pub(crate) jitter: Jitter,
    pub(crate) grace: Duration,
}

impl Default for WorkerOptions {
    fn default() -> Self {
        Self {
            concurrency: 1,
            first_delay: Duration::from_secs(1),
            longest_delay: Duration::from_secs(60),
            jitter: Jitter::Half,
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
    ///
    /// Unless [`with_jitter`](Self::with_jitter) says otherwise, each delay is between half of that and all of it.
    #[must_use]
    pub const fn with_delays(mut self, first: Duration, longest: Duration) -> Self {
        self.first_delay = first;
        self.longest_delay = longest;
        self
    }

    /// Sets whether the delays are spread; default [`Jitter::Half`].
    ///
    /// With it, each delay is between half of what [`with_delays`](Self::with_delays) gives and all of it, so that items
    /// that failed together are not all delivered again at the same moment. Each delay is a fixed function of the item
    /// and its delivery count.
    /// With [`Jitter::None`], the delays are exact.
    #[must_use]
    pub const fn with_jitter(mut self, jitter: Jitter) -> Self {
        self.jitter = jitter;
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

    /// Returns the delay of an item that failed in its last delivery. `chance` returns a number from 0 to 1.
    pub(crate) fn delay_after(&self, deliveries: u32, chance: impl FnOnce() -> f64) -> Duration {
        let delays = RetryPolicy::exponential(self.first_delay).capped(self.longest_delay);
        let delay = delays
            .jitter(self.jitter)
            .pause(deliveries, Duration::ZERO, chance);
        delay.unwrap_or(self.longest_delay)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_is_between_half_of_its_bound_and_all() {
        let (first, longest) = (Duration::from_millis(100), Duration::from_secs(2));
        let exact = WorkerOptions::default()
            .with_jitter(Jitter::None)
            .with_delays(first, longest);
        let varied = WorkerOptions::default().with_delays(first, longest);
        for (deliveries, bound) in [
            (1, 100),
            (2, 200),
            (5, 1600),
            (6, 2000),
            (100, 2000),
            (u32::MAX, 2000),
        ] {
            let delay = |options: &WorkerOptions, chance| {
                let delay = options.delay_after(deliveries, || chance);
                delay.as_millis()
            };
            for chance in [0.0, 0.5, 1.0] {
                assert_eq!(delay(&exact, chance), bound, "{deliveries}");
            }
            assert_eq!(delay(&varied, 0.0), bound / 2, "{deliveries}");
            assert_eq!(delay(&varied, 0.5), bound * 3 / 4, "{deliveries}");
            assert_eq!(delay(&varied, 1.0), bound, "{deliveries}");
        }
        let at_once = WorkerOptions::default().with_delays(Duration::ZERO, longest);
        assert!(at_once.delay_after(7, || 0.7).is_zero());
    }
}
