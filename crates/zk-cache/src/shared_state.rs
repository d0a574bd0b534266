//! The state that the task of a cache publishes and its handles read: the newest snapshot and the event log.

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;

use crate::event::{CacheEnd, Event};
use crate::event_log::{EventBatch, EventLog, LogReader};
use crate::node::Node;
use crate::options::CacheOptions;
use crate::publication_count::PublicationCount;
use crate::reducer::Reducer;
use crate::snapshot::{CacheState, Snapshot, SnapshotData};

/// The newest snapshot, and the batches of events that lead to it.
pub(crate) struct SharedState {
    newest: ArcSwap<SnapshotData>,
    publications: PublicationCount,
    log: EventLog,
}

impl SharedState {
    pub(crate) fn new(first: Snapshot, options: &CacheOptions) -> Arc<Self> {
        Arc::new(Self {
            newest: ArcSwap::new(first.0),
            publications: PublicationCount::default(),
            log: EventLog::new(options.event_buffer, options.event_bytes),
        })
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot(self.newest.load_full())
    }

    pub(crate) fn get(&self, path: &str) -> Option<Node> {
        self.newest.load().store.get(path).cloned()
    }

    /// Returns how often a snapshot was published. The snapshot read after this call is at least as new.
    pub(crate) fn publications(&self) -> u64 {
        self.publications.get()
    }

    pub(crate) fn state(&self) -> CacheState {
        self.newest.load().state
    }

    pub(crate) fn subscribe(&self) -> LogReader {
        self.log.subscribe()
    }
}

impl fmt::Debug for SharedState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.snapshot().fmt(f)
    }
}

/// Publishes the results of a reducer.
///
/// # Dropping
///
/// Publishes that the cache has ended.
pub(crate) struct StatePublisher {
    pub(crate) reducer: Reducer,
    state: Arc<SharedState>,
    /// A warning says already that the cache has reached a limit: thousands of nodes can have children left out.
    is_limit_logged: bool,
    #[cfg(feature = "metrics")]
    reported: crate::metrics::ReportedCache,
}

impl StatePublisher {
    pub(crate) fn new(reducer: Reducer, state: Arc<SharedState>) -> Self {
        Self {
            reducer,
            #[cfg(feature = "metrics")]
            reported: crate::metrics::ReportedCache::new(&state.snapshot()),
            state,
            is_limit_logged: false,
        }
    }

    /// Publishes the snapshot first, then counts it, and publishes its events last, so that a consumer of an event
    /// reads a snapshot that contains it, and a [`NodeReader`](crate::NodeReader) too.
    pub(crate) fn publish(&mut self) {
        let Some((events, snapshot)) = self.reducer.flush() else {
            return;
        };
        let root = self.reducer.root();
        for event in &events {
            match event {
                Event::Synchronized { synced_at } => {
                    tracing::debug!(path = %root, synced_at, nodes = snapshot.len(), "cache synchronized");
                }
                Event::Stale => {
                    self.is_limit_logged = false;
                    tracing::debug!(path = %root, "cache stale");
                }
                Event::Incomplete { path, reason }
                    if reason.is_of_whole_cache()
                        && std::mem::replace(&mut self.is_limit_logged, true) =>
                {
                    tracing::debug!(%path, %reason, "cache incomplete");
                }
                Event::Incomplete { path, reason } => {
                    tracing::warn!(%path, %reason, "cache incomplete");
                }
                Event::Ended(end) => tracing::debug!(path = %root, %end, "cache ended"),
                Event::Created(_) | Event::Changed { .. } | Event::Deleted(_) => {}
            }
        }
        #[cfg(feature = "metrics")]
        self.reported.published(&snapshot);
        self.state.newest.store(Arc::clone(&snapshot.0));
        self.state.publications.increment();
        self.state.log.push(EventBatch { events, snapshot });
    }
}

impl Drop for StatePublisher {
    fn drop(&mut self) {
        self.reducer.end(CacheEnd::Stopped);
        self.publish();
    }
}
