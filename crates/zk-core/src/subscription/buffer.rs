//! What a subscription keeps until it is taken, within a bound.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::task::Context;
use std::task::Poll;
use std::task::Waker;

use super::Kinds;
use super::Update;
use crate::engine::watch_manager::SubscriptionEvent;

/// The updates of one subscription, with paths below the chroot.
///
/// Besides changes, of which there are at most so many as fit, it keeps at most one [`Stale`](Update::Stale) and two
/// [`Resynchronize`](Update::Resynchronize): whatever lies between two of these is read again anyway.
#[derive(Debug)]
pub(crate) struct Buffer(Mutex<BufferState>);

#[derive(Debug)]
struct BufferState {
    kinds: Kinds,
    /// How many changes fit.
    most: usize,
    queue: VecDeque<Update>,
    changes: usize,
    is_over: bool,
    waker: Option<Waker>,
}

impl Buffer {
    pub(crate) fn new(kinds: Kinds, most: usize) -> Self {
        Self(Mutex::new(BufferState {
            kinds,
            most,
            queue: VecDeque::new(),
            changes: 0,
            is_over: false,
            waker: None,
        }))
    }

    /// Adds what is told. Never waits.
    pub(crate) fn push(&self, told: SubscriptionEvent) {
        let waker = {
            let mut state = self.lock();
            if state.is_over {
                return;
            }
            state.push(told);
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Adds that the session is over, after which nothing is added.
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

    /// Takes the next update; `None` when there will be none.
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
    fn push(&mut self, told: SubscriptionEvent) {
        match told {
            SubscriptionEvent::Changed { path, event } => {
                if !self.kinds.contains(event) {
                    return;
                }
                if self.changes >= self.most {
                    // All of it is seen by who reads again.
                    self.queue.clear();
                    self.queue.push_back(Update::Resynchronize);
                    self.changes = 0;
                    return;
                }
                self.changes += 1;
                self.queue.push_back(Update::Changed { path, event });
            }
            SubscriptionEvent::Stale => match self.place(|update| *update == Update::Stale) {
                Some(place) => self.cut(place + 1),
                None => self.queue.push_back(Update::Stale),
            },
            SubscriptionEvent::Resynchronize => {
                let last = self.queue.iter().rposition(is_marker);
                match last {
                    Some(place) if self.queue[place] == Update::Resynchronize => {
                        self.cut(place + 1);
                    }
                    _ => self.queue.push_back(Update::Resynchronize),
                }
            }
        }
    }

    fn place(&self, is_it: impl Fn(&Update) -> bool) -> Option<usize> {
        self.queue.iter().position(is_it)
    }

    /// Forgets what is in the queue from `place` on.
    fn cut(&mut self, place: usize) {
        self.queue.truncate(place);
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
