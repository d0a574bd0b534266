//! The events of a cache, for one consumer.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use futures_util::{Stream, stream};

use crate::event::Event;
use crate::event_log::LogReader;
use crate::shared_state::SharedState;
use crate::snapshot::{CacheState, Snapshot, SnapshotData};

/// The events of a cache from some snapshot on, for one consumer; made by
/// [`TreeCache::events`](crate::TreeCache::events) and the same methods of the other caches.
///
/// Consumers are independent: a slow one blocks neither the others nor the cache nor the session.
/// One that falls behind the [kept batches](crate::CacheOptions::with_event_buffer) receives the
/// [difference](Snapshot::since) between its last snapshot and the newest one, and goes on from there.
///
/// # Dropping
///
/// Nothing happens. It does not keep its cache alive either.
pub struct Events {
    state: Arc<SharedState>,
    log: LogReader,
    /// The snapshot after the pending events.
    snapshot: Snapshot,
    pending: VecDeque<Event>,
    is_finished: bool,
}

impl Events {
    /// Returns the events since the snapshot `since`, or from now on.
    pub(crate) fn new(state: &Arc<SharedState>, since: Option<&Snapshot>) -> Self {
        // Subscribes first: a batch published in between is in both, and `advance` skips it.
        let log = state.subscribe();
        let newest = state.snapshot();
        let pending = match since {
            None => VecDeque::new(),
            Some(since) => {
                // It may be from another cache that has ended: only its nodes count.
                let since = SnapshotData {
                    state: CacheState::Loading,
                    sync_count: 0,
                    end: None,
                    ..SnapshotData::clone(&since.0)
                };
                newest.since(&Snapshot(Arc::new(since))).into()
            }
        };
        Self {
            state: Arc::clone(state),
            log,
            snapshot: newest,
            pending,
            is_finished: false,
        }
    }

    /// Waits for the next event; `None` after [`Event::Ended`].
    ///
    /// # Session loss
    ///
    /// Returned as [`Event::Ended`], then `None`.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.pending.pop_front() {
                return Some(event);
            }
            if self.is_finished {
                return None;
            }
            self.advance().await;
        }
    }

    /// Waits for the next batch: all events up to the next snapshot, and that snapshot; `None` after [`Event::Ended`].
    ///
    /// A batch may contain no event although its snapshot differs: no event reports that a [partial
    /// read](crate::PartialRead) was completed, or that only the child list of a node changed.
    ///
    /// # Session loss
    ///
    /// Returned as [`Event::Ended`], then `None`.
    pub async fn next_batch(&mut self) -> Option<(Vec<Event>, Snapshot)> {
        if self.pending.is_empty() {
            if self.is_finished {
                return None;
            }
            let before = self.snapshot.0.revision;
            while !self.is_finished && self.snapshot.0.revision == before {
                self.advance().await;
            }
            if self.is_finished {
                return None;
            }
        }
        Some((self.pending.drain(..).collect(), self.snapshot.clone()))
    }

    /// Returns the snapshot after all events up to the pending ones.
    pub(crate) const fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Waits for the next batch, and discards pending events.
    pub(crate) async fn advance(&mut self) {
        if self.snapshot.end().is_some() {
            self.is_finished = true;
            return;
        }
        match self.log.next().await {
            // The first snapshot includes it already.
            Some(batch) if batch.snapshot.0.revision <= self.snapshot.0.revision => {}
            Some(batch) => {
                self.pending = batch.events.iter().cloned().collect();
                self.snapshot = batch.snapshot.clone();
            }
            None => {
                let next = Self::new(&self.state, None);
                self.pending = next.snapshot.since(&self.snapshot).into();
                (self.log, self.snapshot) = (next.log, next.snapshot);
            }
        }
    }

    /// Turns this into a stream of the same events.
    pub fn into_stream(self) -> impl Stream<Item = Event> + Send + 'static {
        stream::unfold(self, async |mut events| {
            let event = events.next().await?;
            Some((event, events))
        })
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events")
            .field("snapshot", &self.snapshot)
            .field("pending", &self.pending.len())
            .finish_non_exhaustive()
    }
}
