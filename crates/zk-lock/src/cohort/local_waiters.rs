//! Who of this process waits for a lock, and the lock's way from one to the next.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;

use tokio::sync::Notify;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::guard::CohortGuard;
use super::handover_limit::CohortLimits;
use super::handover_limit::Next;
use super::handover_limit::Tally;
use crate::error::AcquireError;
use crate::fair::FairLock;
use crate::guard::Guard;

/// What the handles of one cohort share.
#[derive(Debug)]
pub(crate) struct Members {
    pub(super) lock: FairLock,
    pub(super) limits: CohortLimits,
    state: Mutex<State>,
    /// Wakes the agent when there is something for it to do.
    pub(super) changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// First come first.
    waiters: VecDeque<Waiter>,
    next_id: u64,
    /// The place in the queue by which the lock is held, while it is.
    place: Option<Place>,
    /// Whether the agent runs.
    is_attended: bool,
}

#[derive(Debug)]
struct Place {
    began: Instant,
    tally: Tally,
    /// Whether anybody waits, or has waited, for a hand-over: then the agent minds the others.
    is_crowded: bool,
}

/// What a waiter is told: `None` if it only tried.
pub(super) type Answer = Result<Option<CohortGuard>, AcquireError>;

#[derive(Debug)]
struct Waiter {
    id: u64,
    is_trying: bool,
    answer: oneshot::Sender<Answer>,
}

/// What there is to do for the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// A place in the queue, and the lock.
    Lock,
    /// The lock, if it is free, for the waiter with this id.
    Try(u64),
}

/// What the agent is to know of the lock that it got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// One task holds it, and nobody waits in this process.
    Single,
    /// Others wait in this process.
    Crowded,
    /// It went back to the ensemble.
    Over,
}

impl Members {
    pub(super) fn new(lock: FairLock, limits: CohortLimits) -> Self {
        Self {
            lock,
            limits,
            state: Mutex::default(),
            changed: Notify::new(),
        }
    }

    /// Adds a waiter; `None` if it is to try only, and somebody of this process is there.
    ///
    /// True when an agent has to be started.
    pub(super) fn join(self: &Arc<Self>, is_trying: bool) -> Option<(Ticket, bool)> {
        let mut state = self.state();
        // The agent may still be there although nobody else is: it is about to notice.
        if is_trying && (state.place.is_some() || !state.waiters.is_empty()) {
            return None;
        }
        let (answer, answered) = oneshot::channel();
        let id = state.next_id;
        state.next_id += 1;
        state.waiters.push_back(Waiter {
            id,
            is_trying,
            answer,
        });
        if let Some(place) = state.place.as_mut().filter(|place| !place.is_crowded) {
            place.is_crowded = true;
            self.changed.notify_one();
        }
        let is_first = !std::mem::replace(&mut state.is_attended, true);
        let ticket = Ticket {
            members: Arc::clone(self),
            id,
            answered,
        };
        Some((ticket, is_first))
    }

    /// What the agent is to get; `None`, if it is to end.
    pub(super) fn wanted(&self) -> Option<Wanted> {
        let mut state = self.state();
        let wanted = state.wanted();
        state.is_attended = wanted.is_some();
        wanted
    }

    /// What the first of those who wait wants.
    pub(super) fn next_wanted(&self) -> Option<Wanted> {
        self.state().wanted()
    }

    /// Begins to use a lock that the ensemble has just granted.
    pub(super) fn begin(self: &Arc<Self>, guard: Guard) {
        self.state().place = Some(Place {
            began: Instant::now(),
            tally: Tally::new(),
            is_crowded: false,
        });
        drop(self.pass_on(guard));
    }

    /// Gives the lock to the next waiter; the answer is a lock that is to go back to the ensemble.
    pub(super) fn pass_on(self: &Arc<Self>, guard: Guard) -> Option<Guard> {
        let Some((waiter, turn)) = self.next(guard.is_trusted()) else {
            return Some(guard);
        };
        let held = CohortGuard::new(guard, turn, Arc::clone(self));
        // If the waiter has just gone, the guard comes back, and dropping it passes it on.
        drop(waiter.answer.send(Ok(Some(held))));
        None
    }

    /// The next waiter of this process and its turn; `None` when the lock is to go back.
    fn next(&self, is_trusted: bool) -> Option<(Waiter, u64)> {
        let mut state = self.state();
        let State { waiters, place, .. } = &mut *state;
        let next = place.as_mut().and_then(|place| {
            let time = place.began.elapsed();
            let is_waited_for = !waiters.is_empty();
            match place
                .tally
                .next(time, self.limits, is_trusted, is_waited_for)
            {
                Next::HandOver => Some((waiters.pop_front()?, place.tally.turn())),
                Next::GiveBack => None,
            }
        });
        match (&next, place) {
            (None, _) => {
                state.place = None;
                self.changed.notify_one();
            }
            (Some(_), Some(place)) if !waiters.is_empty() && !place.is_crowded => {
                place.is_crowded = true;
                self.changed.notify_one();
            }
            _ => {}
        }
        next
    }

    /// What became of the lock that the agent got.
    pub(super) fn used(&self) -> Use {
        match &self.state().place {
            None => Use::Over,
            Some(place) if place.is_crowded => Use::Crowded,
            Some(_) => Use::Single,
        }
    }

    /// Notes whether others may wait for the lock.
    pub(super) fn note_others(&self, may_wait: bool) {
        if let Some(place) = &mut self.state().place {
            if may_wait {
                place.tally.somebody_else(place.began.elapsed());
            } else {
                place.tally.nobody_else();
            }
        }
    }

    /// Answers the waiter with this id, if it still waits.
    pub(super) fn answer(&self, id: u64, answer: Answer) {
        let found = self.leave(id);
        if let Some(waiter) = found {
            // If it has gone meanwhile, then it has gone.
            drop(waiter.answer.send(answer));
        }
    }

    /// Tells all waiters that there is no lock for them.
    pub(super) fn fail(&self, error: &AcquireError) {
        let waiters = std::mem::take(&mut self.state().waiters);
        for waiter in waiters {
            drop(waiter.answer.send(Err(error.clone())));
        }
    }

    /// The agent is gone, whatever the reason.
    pub(super) fn unattended(&self) {
        let waiters = {
            let mut state = self.state();
            state.is_attended = false;
            std::mem::take(&mut state.waiters)
        };
        // Whoever waits for an answer of theirs hears that there will be none.
        drop(waiters);
    }

    /// How many are before a waiter: those of this process, and whoever holds the lock.
    fn ahead(&self, id: u64) -> usize {
        let state = self.state();
        let before = state.waiters.iter().position(|waiter| waiter.id == id);
        before.unwrap_or_default() + 1
    }

    fn leave(&self, id: u64) -> Option<Waiter> {
        let mut state = self.state();
        let at = state.waiters.iter().position(|waiter| waiter.id == id)?;
        state.waiters.remove(at)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn wanted(&self) -> Option<Wanted> {
        self.waiters.front().map(|first| {
            if first.is_trying {
                Wanted::Try(first.id)
            } else {
                Wanted::Lock
            }
        })
    }
}

/// A place among the waiters of this process. Dropping it gives the place up.
#[derive(Debug)]
pub(super) struct Ticket {
    members: Arc<Members>,
    id: u64,
    answered: oneshot::Receiver<Answer>,
}

impl Ticket {
    /// Waits for the answer.
    pub(super) async fn answered(&mut self) -> Answer {
        match (&mut self.answered).await {
            Ok(answer) => answer,
            // The agent ends early only with the runtime of the session, and so does the session.
            Err(_) => Err(AcquireError::SessionLost { source: None }),
        }
    }

    /// How many are before it: those of this process, and whoever holds the lock.
    pub(super) fn ahead(&self) -> usize {
        self.members.ahead(self.id)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.members.leave(self.id).is_some() {
            self.members.changed.notify_one();
        }
        // A lock that was handed to it and not taken goes on with the channel.
    }
}
