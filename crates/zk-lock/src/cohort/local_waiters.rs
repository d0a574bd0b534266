//! The tasks of one process that wait for a lock, and the handover from one to the next.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use super::handover_limit::{CohortLimits, HandoverDecision, HandoverLimit};
use crate::error::{AcquireError, Ahead};
use crate::fair::FairLock;
use crate::guard::Guard;
use crate::progress::AcquireProgress;

/// The state that the handles of one cohort share.
#[derive(Debug)]
pub(crate) struct LocalWaiters {
    pub(super) lock: FairLock,
    pub(super) limits: CohortLimits,
    state: Mutex<CohortState>,
    /// Wakes the acquirer when the state changes.
    pub(super) changed: Notify,
}

#[derive(Debug, Default)]
struct CohortState {
    /// In order of arrival.
    waiters: VecDeque<LocalWaiter>,
    next_id: u64,
    /// The grant by the ensemble, while the cohort holds the lock.
    grant: Option<CurrentGrant>,
    /// Whether the acquirer task runs.
    acquirer_runs: bool,
}

/// A grant by the ensemble, which the tasks of the cohort use one after the other.
#[derive(Debug)]
struct CurrentGrant {
    started: Instant,
    limit: HandoverLimit,
    /// Whether a task waits, or has waited, for a handover. The acquirer then watches for other contenders.
    is_contended: bool,
}

/// The result for a waiter: `Ok(None)` if it only tried and the lock is taken.
pub(super) type AcquireResult = Result<Option<LocalHold>, AcquireError>;

#[derive(Debug)]
struct LocalWaiter {
    id: u64,
    is_trying: bool,
    answer: oneshot::Sender<AcquireResult>,
}

/// How the acquirer acquires the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AcquireMode {
    /// It waits in the queue.
    Wait,
    /// It tries once, for the waiter with this id.
    Try(u64),
}

/// The state of the lock that the acquirer was granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GrantState {
    /// A task holds it, and no other task of this process waits.
    Uncontended,
    /// Other tasks of this process wait.
    Contended,
    /// It went back to the ensemble.
    Returned,
}

impl LocalWaiters {
    pub(super) fn new(lock: FairLock, limits: CohortLimits) -> Self {
        Self {
            lock,
            limits,
            state: Mutex::default(),
            changed: Notify::new(),
        }
    }

    /// Adds a waiter; `None` if it only tries, and another task of this process holds the lock or waits.
    ///
    /// Also returns whether the caller has to start an acquirer.
    pub(super) fn join(self: &Arc<Self>, is_trying: bool) -> Option<(WaitHandle, bool)> {
        let mut state = self.state();
        // An acquirer without waiters and grant may still run: it is about to end.
        if is_trying && (state.grant.is_some() || !state.waiters.is_empty()) {
            return None;
        }
        let (answer, answered) = oneshot::channel();
        let id = state.next_id;
        state.next_id += 1;
        state.waiters.push_back(LocalWaiter {
            id,
            is_trying,
            answer,
        });
        if let Some(grant) = state.grant.as_mut().filter(|grant| !grant.is_contended) {
            grant.is_contended = true;
            self.changed.notify_one();
        }
        let starts_acquirer = !std::mem::replace(&mut state.acquirer_runs, true);
        let handle = WaitHandle {
            waiters: Arc::clone(self),
            id,
            progress: None,
            answered,
        };
        Some((handle, starts_acquirer))
    }

    /// Returns how the acquirer has to acquire the lock; `None` if it has to end.
    pub(super) fn next_mode_or_stop(&self) -> Option<AcquireMode> {
        let mut state = self.state();
        let mode = state.next_mode();
        state.acquirer_runs = mode.is_some();
        mode
    }

    /// Returns what the first waiter needs.
    pub(super) fn next_mode(&self) -> Option<AcquireMode> {
        self.state().next_mode()
    }

    /// Starts to use a lock that the ensemble has just granted.
    pub(super) fn start_grant(self: &Arc<Self>, guard: Guard) {
        self.state().grant = Some(CurrentGrant {
            started: Instant::now(),
            limit: HandoverLimit::new(),
            is_contended: false,
        });
        drop(self.hand_over(guard));
    }

    /// Hands the lock over to the next waiter; returns it if it has to go back to the ensemble.
    pub(super) fn hand_over(self: &Arc<Self>, guard: Guard) -> Option<Guard> {
        let may_keep = guard.is_valid() && !guard.nodes()[0].revocations.is_accepted();
        let Some((waiter, turn)) = self.take_next(may_keep) else {
            return Some(guard);
        };
        let hold = LocalHold {
            guard: Some(guard),
            turn,
            waiters: Arc::clone(self),
        };
        // If the waiter is gone, the hold comes back, and dropping it hands the lock over again.
        drop(waiter.answer.send(Ok(Some(hold))));
        None
    }

    /// Takes the next waiter out, with its turn; `None` if the lock has to go back to the ensemble.
    fn take_next(&self, may_keep: bool) -> Option<(LocalWaiter, u64)> {
        let mut state = self.state();
        let CohortState { waiters, grant, .. } = &mut *state;
        let next = grant.as_mut().and_then(|grant| {
            let time = grant.started.elapsed();
            let has_local_waiter = !waiters.is_empty();
            match grant
                .limit
                .decide(time, self.limits, may_keep, has_local_waiter)
            {
                HandoverDecision::HandOver => {
                    Some((waiters.pop_front()?, grant.limit.count_turn()))
                }
                HandoverDecision::GiveBack => None,
            }
        });
        match (&next, grant) {
            (None, _) => {
                state.grant = None;
                self.changed.notify_one();
            }
            (Some(_), Some(grant)) if !waiters.is_empty() && !grant.is_contended => {
                grant.is_contended = true;
                self.changed.notify_one();
            }
            _ => {}
        }
        next
    }

    /// Returns the state of the granted lock.
    pub(super) fn grant_state(&self) -> GrantState {
        match &self.state().grant {
            None => GrantState::Returned,
            Some(grant) if grant.is_contended => GrantState::Contended,
            Some(_) => GrantState::Uncontended,
        }
    }

    /// Records whether other contenders may wait for the lock.
    pub(super) fn note_others(&self, may_wait: bool) {
        if let Some(grant) = &mut self.state().grant {
            if may_wait {
                grant.limit.note_others(grant.started.elapsed());
            } else {
                grant.limit.clear_others();
            }
        }
    }

    /// Sends the result to the waiter with this id, if it still waits.
    pub(super) fn answer(&self, id: u64, answer: AcquireResult) {
        let found = self.leave(id);
        if let Some(waiter) = found {
            // The waiter may be gone by now.
            drop(waiter.answer.send(answer));
        }
    }

    /// Sends an error to all waiters.
    pub(super) fn fail(&self, error: &AcquireError) {
        let waiters = std::mem::take(&mut self.state().waiters);
        for waiter in waiters {
            drop(waiter.answer.send(Err(error.clone())));
        }
    }

    /// Records that the acquirer is gone, and drops all waiters.
    pub(super) fn acquirer_stopped(&self) {
        let waiters = {
            let mut state = self.state();
            state.acquirer_runs = false;
            std::mem::take(&mut state.waiters)
        };
        // This closes their channels, which they see as the end of the session.
        drop(waiters);
    }

    /// Returns how many tasks are ahead of a waiter, including the holder; `None` if it no longer waits.
    fn ahead(&self, id: u64) -> Option<usize> {
        let state = self.state();
        let before = state.waiters.iter().position(|waiter| waiter.id == id);
        before.map(|before| before + 1)
    }

    /// Returns whether another task of this process holds the lock or waits before this one.
    fn is_taken_before(&self, id: u64) -> bool {
        let state = self.state();
        state.grant.is_some() || state.waiters.front().is_some_and(|first| first.id != id)
    }

    fn leave(&self, id: u64) -> Option<LocalWaiter> {
        let mut state = self.state();
        let at = state.waiters.iter().position(|waiter| waiter.id == id)?;
        state.waiters.remove(at)
    }

    fn state(&self) -> MutexGuard<'_, CohortState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CohortState {
    fn next_mode(&self) -> Option<AcquireMode> {
        self.waiters.front().map(|first| {
            if first.is_trying {
                AcquireMode::Try(first.id)
            } else {
                AcquireMode::Wait
            }
        })
    }
}

/// The lock, held by one task of this process. Dropping it hands the lock over, or releases it to the ensemble.
#[derive(Debug)]
pub(super) struct LocalHold {
    /// `None` once it is handed over.
    guard: Option<Guard>,
    turn: u64,
    waiters: Arc<LocalWaiters>,
}

impl LocalHold {
    pub(super) fn guard(&self) -> &Guard {
        let guard = self.guard.as_ref();
        guard.expect("the guard is taken only by a release and by `drop`, which consume the holder")
    }

    pub(super) const fn turn(&self) -> u64 {
        self.turn
    }

    /// Hands the lock over; returns a lock that has to go back to the ensemble.
    pub(super) fn hand_over(&mut self) -> Option<Guard> {
        let guard = self.guard.take()?;
        self.waiters.hand_over(guard)
    }
}

impl Drop for LocalHold {
    fn drop(&mut self) {
        // Dropping a returned guard deletes its node.
        drop(self.hand_over());
    }
}

/// A waiter's place among the tasks of this process. Dropping it gives the place up.
#[derive(Debug)]
pub(super) struct WaitHandle {
    waiters: Arc<LocalWaiters>,
    id: u64,
    /// Where it reports how many tasks are ahead.
    progress: Option<AcquireProgress>,
    answered: oneshot::Receiver<AcquireResult>,
}

impl WaitHandle {
    /// Waits for the result.
    pub(super) async fn result(&mut self) -> AcquireResult {
        match (&mut self.answered).await {
            Ok(answer) => answer,
            // The acquirer ends early only with the runtime of the session, which ends the session as well.
            Err(_) => Err(AcquireError::SessionLost { source: None }),
        }
    }

    /// Reports how many tasks are ahead, including the holder: now, and when it stops waiting.
    pub(super) fn report_to(&mut self, progress: &AcquireProgress) {
        self.progress = Some(progress.clone());
        if self.waiters.is_taken_before(self.id) {
            self.report();
        }
    }

    fn report(&self) {
        if let Some(progress) = &self.progress
            && let Some(ahead) = self.waiters.ahead(self.id)
        {
            progress.set_ahead(Ahead::new(ahead));
        }
    }
}

impl Drop for WaitHandle {
    fn drop(&mut self) {
        self.report();
        if self.waiters.leave(self.id).is_some() {
            self.waiters.changed.notify_one();
        }
        // A hold that was sent and not received is dropped with the channel, which hands it over.
    }
}
