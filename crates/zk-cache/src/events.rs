//! The events of a cache, for one consumer.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use futures_util::Stream;
use futures_util::stream;

use crate::event::Event;
use crate::event_log::Reader;
use crate::shared_state::Board;
use crate::snapshot::Picture;
use crate::snapshot::Snapshot;
use crate::snapshot::State;

/// The events of a cache from some snapshot on, for one consumer; made by [`TreeCache::events`](crate::TreeCache::events)
/// and its like.
///
/// Consumers do not know of each other: one that is slow holds up neither the others nor the cache nor the session.
/// One that falls behind by more than is [kept](crate::CacheOptions::with_event_buffer) is told the
/// [difference](Snapshot::since) between what it was told last and what is, and goes on from there.
///
/// # Dropping
///
/// Nothing happens; it does not keep its cache alive either.
pub struct Events {
    board: Arc<Board>,
    rounds: Reader,
    /// What the events up to the pending ones lead to.
    base: Snapshot,
    pending: VecDeque<Event>,
    is_over: bool,
}

impl Events {
    /// Events since `base`, or since now.
    pub(crate) fn new(board: &Arc<Board>, base: Option<&Snapshot>) -> Self {
        // In this order: what is published between the two is in both, and told once.
        let rounds = board.subscribe();
        let newest = board.snapshot();
        let pending = match base {
            None => VecDeque::new(),
            Some(base) => {
                // It may be that of another cache, which has ended: of it only the nodes count.
                let base = Picture {
                    state: State::Loading,
                    rounds: 0,
                    end: None,
                    ..Picture::clone(&base.0)
                };
                newest.since(&Snapshot(Arc::new(base))).into()
            }
        };
        Self {
            board: Arc::clone(board),
            rounds,
            base: newest,
            pending,
            is_over: false,
        }
    }

    /// Waits for the next event; `None` after [`Event::Ended`].
    ///
    /// # Cancel safety
    ///
    /// Safe, nothing is missed.
    ///
    /// # Session loss
    ///
    /// Answered as [`Event::Ended`], then `None`.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.pending.pop_front() {
                return Some(event);
            }
            if self.is_over {
                return None;
            }
            self.advance().await;
        }
    }

    /// Waits for the events that the cache found out next, all at once, and the snapshot that they lead to; `None` after
    /// [`Event::Ended`].
    ///
    /// There may be no event, and the snapshot be another one than before: that something can be had
    /// [again](crate::Gap), or that the children of a node are others, is told by no event of its own.
    ///
    /// # Cancel safety
    ///
    /// Safe, nothing is missed.
    ///
    /// # Session loss
    ///
    /// Answered as [`Event::Ended`], then `None`.
    pub async fn next_round(&mut self) -> Option<(Vec<Event>, Snapshot)> {
        if self.pending.is_empty() {
            if self.is_over {
                return None;
            }
            let before = self.base.0.revision;
            while !self.is_over && self.base.0.revision == before {
                self.advance().await;
            }
            if self.is_over {
                return None;
            }
        }
        Some((self.pending.drain(..).collect(), self.base.clone()))
    }

    /// Returns the snapshot to which all events lead that were answered and that wait to be.
    pub(crate) const fn base(&self) -> &Snapshot {
        &self.base
    }

    /// Waits for the next events, in whose place those are left aside that wait.
    pub(crate) async fn advance(&mut self) {
        if self.base.end().is_some() {
            self.is_over = true;
            return;
        }
        match self.rounds.next().await {
            // It was in the snapshot that this began with.
            Some(round) if round.snapshot.0.revision <= self.base.0.revision => {}
            Some(round) => {
                self.pending = round.events.iter().cloned().collect();
                self.base = round.snapshot.clone();
            }
            None => {
                let next = Self::new(&self.board, None);
                self.pending = next.base.since(&self.base).into();
                (self.rounds, self.base) = (next.rounds, next.base);
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
            .field("base", &self.base)
            .field("pending", &self.pending.len())
            .finish_non_exhaustive()
    }
}
