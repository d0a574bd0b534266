//! Where a cache publishes what it has, and where it is read from.

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use zk_core::NodePath;

use crate::event::End;
use crate::event::Event;
use crate::event_log::EventLog;
use crate::event_log::Reader;
use crate::events::Events;
use crate::node::Node;
use crate::options::CacheOptions;
use crate::reducer::Reducer;
use crate::snapshot::Picture;
use crate::snapshot::Snapshot;
use crate::snapshot::State;

/// The newest snapshot, and the rounds of events that lead to it.
pub(crate) struct Board {
    newest: ArcSwap<Picture>,
    rounds: Arc<EventLog>,
}

/// What a cache found out at once.
#[derive(Debug)]
pub(crate) struct Round {
    pub(crate) events: Vec<Event>,
    /// What they lead to.
    pub(crate) snapshot: Snapshot,
}

impl Round {
    /// The bytes of memory that this holds besides what the newest snapshot does, roughly.
    pub(crate) fn bytes(&self) -> usize {
        let of = |event: &Event| match event {
            Event::Created(node) | Event::Deleted(node) => node.bytes(),
            Event::Changed { old, new } => old.bytes() + new.bytes(),
            _ => 0,
        };
        let events = self.events.iter();
        size_of::<Self>()
            + events
                .map(|event| size_of::<Event>() + of(event))
                .sum::<usize>()
    }
}

impl Board {
    pub(crate) fn new(first: Snapshot, options: &CacheOptions) -> Arc<Self> {
        Arc::new(Self {
            newest: ArcSwap::new(first.0),
            rounds: EventLog::new(options.event_buffer, options.event_bytes),
        })
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot(self.newest.load_full())
    }

    pub(crate) fn get(&self, path: &NodePath) -> Option<Node> {
        self.newest.load().store.get(path).cloned()
    }

    pub(crate) fn state(&self) -> State {
        self.newest.load().state
    }

    pub(crate) fn subscribe(&self) -> Reader {
        self.rounds.read()
    }

    /// Waits until everything is known.
    pub(crate) async fn synchronized(self: &Arc<Self>) -> Result<Snapshot, End> {
        let mut events = Events::new(self, None);
        loop {
            let snapshot = events.base();
            match (snapshot.state(), snapshot.end()) {
                (State::Synchronized, _) => return Ok(snapshot.clone()),
                (_, Some(end)) => return Err(end.clone()),
                _ => events.advance().await,
            }
        }
    }

    /// Waits until the cache has ended.
    pub(crate) async fn ended(self: &Arc<Self>) -> End {
        let mut events = Events::new(self, None);
        loop {
            if let Some(end) = events.base().end() {
                return end.clone();
            }
            events.advance().await;
        }
    }
}

impl fmt::Debug for Board {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.snapshot().fmt(f)
    }
}

/// Publishes what a reducer finds out, and, however it is dropped, that it has ended.
pub(crate) struct Publisher {
    pub(crate) reducer: Reducer,
    board: Arc<Board>,
}

impl Publisher {
    pub(crate) const fn new(reducer: Reducer, board: Arc<Board>) -> Self {
        Self { reducer, board }
    }

    /// Publishes what is new. Who is told of an event finds it in the snapshot.
    pub(crate) fn publish(&mut self) {
        let Some((events, snapshot)) = self.reducer.flush() else {
            return;
        };
        for event in &events {
            match event {
                Event::Synchronized { synced_at } => {
                    tracing::debug!(path = %self.reducer.root(), synced_at, nodes = snapshot.len(), "cache synchronized");
                }
                Event::Stale => tracing::debug!(path = %self.reducer.root(), "cache stale"),
                Event::Incomplete { path, gap } => {
                    tracing::warn!(%path, %gap, "cache incomplete");
                }
                Event::Ended(end) => {
                    tracing::debug!(path = %self.reducer.root(), %end, "cache ended");
                }
                Event::Created(_) | Event::Changed { .. } | Event::Deleted(_) => {}
            }
        }
        self.board.newest.store(Arc::clone(&snapshot.0));
        self.board.rounds.push(Round { events, snapshot });
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        self.reducer.end(End::Stopped);
        self.publish();
    }
}
