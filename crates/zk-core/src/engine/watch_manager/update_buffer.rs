//! Buffers the updates of a subscription until the consumer takes them, within a bound.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use super::watch_table::SubscriptionEvent;
use crate::update::{Kinds, Update};

/// The updates of one subscription, with the paths that the servers know.
///
/// It holds a bounded number of changes, at most one [`Stale`](Update::Stale) and at most two
/// [`Resynchronize`](Update::Resynchronize): the consumer's next read covers everything between two of those.
#[derive(Debug)]
pub(crate) struct UpdateBuffer(Mutex<BufferState>);

#[derive(Debug)]
struct BufferState {
    kinds: Kinds,
    /// How many changes fit.
    capacity: usize,
    queue: VecDeque<Update>,
    changes: usize,
    is_over: bool,
    waker: Option<Waker>,
}

impl UpdateBuffer {
    pub(crate) fn new(kinds: Kinds, capacity: usize) -> Self {
        Self(Mutex::new(BufferState {
            kinds,
            capacity,
            queue: VecDeque::new(),
            changes: 0,
            is_over: false,
            waker: None,
        }))
    }

    /// Adds an event. Never blocks.
    pub(crate) fn push(&self, event: SubscriptionEvent) {
        let waker = {
            let mut state = self.lock();
            if state.is_over {
                return;
            }
            state.push(event);
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Adds the end of the session. Later events are ignored.
    pub(crate) fn end(&self) {
        let waker = {
            let mut state = self.lock();
            if state.is_over {
                return;
            }
            state.is_over = true;
            state.queue.push_back(Update::SessionLost);
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Takes the next update. Returns `None` after the end of the session.
    pub(crate) fn poll_next(&self, context: &mut Context<'_>) -> Poll<Option<Update>> {
        let mut state = self.lock();
        match state.queue.pop_front() {
            Some(update) => {
                state.changes -= usize::from(is_change(&update));
                Poll::Ready(Some(update))
            }
            None if state.is_over => Poll::Ready(None),
            None => {
                state.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, BufferState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BufferState {
    fn push(&mut self, event: SubscriptionEvent) {
        match event {
            SubscriptionEvent::Changed { path, event, zxid } => {
                if !self.kinds.contains(event) {
                    return;
                }
                if self.changes >= self.capacity {
                    // A consumer that reads again sees all of these changes.
                    self.queue.clear();
                    self.queue.push_back(Update::Resynchronize);
                    self.changes = 0;
                    return;
                }
                self.changes += 1;
                self.queue.push_back(Update::Changed { path, event, zxid });
            }
            SubscriptionEvent::Stale => match self.position(|update| *update == Update::Stale) {
                Some(position) => self.truncate(position + 1),
                None => self.queue.push_back(Update::Stale),
            },
            SubscriptionEvent::Resynchronize => {
                let last = self.queue.iter().rposition(is_marker);
                match last {
                    Some(position) if self.queue[position] == Update::Resynchronize => {
                        self.truncate(position + 1);
                    }
                    _ => self.queue.push_back(Update::Resynchronize),
                }
            }
        }
    }

    fn position(&self, is_it: impl Fn(&Update) -> bool) -> Option<usize> {
        self.queue.iter().position(is_it)
    }

    /// Removes the updates from `position` on.
    fn truncate(&mut self, position: usize) {
        self.queue.truncate(position);
        self.changes = self.queue.iter().filter(|update| is_change(update)).count();
    }
}

fn is_change(update: &Update) -> bool {
    matches!(update, Update::Changed { .. })
}

fn is_marker(update: &Update) -> bool {
    matches!(update, Update::Stale | Update::Resynchronize)
}

#[cfg(test)]
mod tests;
