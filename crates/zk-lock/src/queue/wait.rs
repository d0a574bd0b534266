//! Waits until a contender is granted the lock.

use std::sync::Arc;

use futures_util::future;

use super::watches::{WakeReason, WatchTargets, Watches};
use super::{Enlisted, Queue};
use crate::error::{AcquireError, Ahead, SequenceExhausted};
use crate::guard::{Granted, Guard};
use crate::layout::Kind;
use crate::node_monitor::node_lost;
use crate::order::{self, Lookahead, QueuePosition};
use crate::pending_deletes::PendingDeletes;
use crate::progress::AcquireProgress;
use crate::retry::prove_alive;

impl Queue {
    /// Joins the queue and waits until no contender is ahead.
    pub(crate) async fn acquire(
        self: &Arc<Self>,
        progress: &AcquireProgress,
    ) -> Result<Guard, AcquireError> {
        let enlisted = self.enlist().await?;
        let granted = self.wait(enlisted, progress).await?;
        Ok(self.guard(granted))
    }

    /// Waits until no contender is ahead and the session is known to be alive.
    ///
    /// Each waiter watches its predecessor and the contender ahead of that one, so each deletion wakes two waiters.
    /// The first of them takes over without listing again if it is next ([`Lookahead::Next`]), and if its own node
    /// was watched by then and still exists ([`WakeReason::PredecessorDeleted`]), also if the predecessor is gone before
    /// it is watched. The second one finds out meanwhile whether it is next.
    /// After every other wake-up a waiter lists again: the contender that left may have been a waiter itself.
    pub(crate) async fn wait(
        &self,
        mut enlisted: Enlisted,
        progress: &AcquireProgress,
    ) -> Result<Granted, AcquireError> {
        let mut watches = Watches::default();
        let mut session_lease = None;
        let mut reported = None;
        loop {
            let layout = self.layout();
            let (position, lookahead) =
                order::position_with_lookahead(&enlisted.children, enlisted.name(), layout);
            let is_our_turn = match position {
                QueuePosition::First => true,
                QueuePosition::Behind { predecessor, ahead } => {
                    progress.set_ahead(Ahead::new(ahead));
                    let own = enlisted.node.path();
                    let is_next = lookahead == Lookahead::Next;
                    if is_next && self.kind == Kind::Exclusive {
                        // A proof that is at hand when the predecessor leaves needs no commit and no list then. Any
                        // number of readers may be next: that would be too many commits.
                        session_lease.get_or_insert_with(|| self.session.keep_lease());
                    }
                    let targets = WatchTargets {
                        predecessor,
                        lookahead: match lookahead {
                            Lookahead::After(lookahead) => Some(lookahead),
                            Lookahead::Next | Lookahead::Unknown => None,
                        },
                        own: is_next.then_some(own),
                    };
                    // Boxed: most acquires are granted without a wait and need no space for these futures.
                    let all_exist = Box::pin(self.watch_all(&mut watches, &targets)).await?;
                    if let Some(contender) = watches.predecessor() {
                        if contender.session().is_none()
                            && reported.replace(contender.czxid()) != Some(contender.czxid())
                        {
                            tracing::warn!(
                                path = %self.path,
                                %contender,
                                "waiting for a contender that no session's end removes"
                            );
                        }
                        let waits_for = self.waits_for(predecessor, &enlisted.children);
                        let ahead =
                            Ahead::new(ahead).with_predecessor(contender.clone(), waits_for);
                        progress.set_ahead(ahead);
                    }
                    let is_predecessor_gone = if all_exist {
                        let reason = Box::pin(self.wait_for_wakeup(&mut watches, own)).await?;
                        reason == WakeReason::PredecessorDeleted
                    } else {
                        self.has_outlived_predecessor(&mut watches, own).await?
                    };
                    if !is_next && lookahead != Lookahead::Unknown {
                        // It may be the next one in line now.
                        let listed = Box::pin(self.list_and_watch_own(&mut watches, own)).await;
                        enlisted.children = listed?;
                        continue;
                    }
                    is_predecessor_gone && is_next
                }
                QueuePosition::Missing => {
                    return Err(Box::pin(node_lost(&self.session, enlisted.node.path())).await);
                }
                QueuePosition::Unordered { tied_with } => {
                    let exhausted = SequenceExhausted {
                        path: self.path.clone(),
                        name: enlisted.name().to_owned(),
                        sequence: layout.sequence_of(enlisted.name()),
                        tied_with: tied_with.map(str::to_owned),
                    };
                    // Awaited, so that the path can be deleted as the message advises.
                    enlisted.leave().await?;
                    return Err(AcquireError::SequenceExhausted(exhausted));
                }
            };
            if !is_our_turn {
                self.relist(&mut enlisted).await?;
                continue;
            }
            progress.set_ahead(Ahead::new(0));
            let session_lease = session_lease
                .take()
                .unwrap_or_else(|| self.session.keep_lease());
            if session_lease.is_lasting() {
                let saw_waiters = order::has_waiters(&enlisted.children, enlisted.name(), layout);
                let mut granted = Granted::new(enlisted.node, session_lease);
                granted.saw_waiters = saw_waiters;
                granted.turn = enlisted.turn;
                granted.watch = watches.into_own();
                return Ok(granted);
            }
            // The session was idle, or the process was stopped or cut off since the list.
            // Prove that the session is alive and list once more.
            let proved = prove_alive(&self.session, &session_lease);
            let (proved, listed) = future::join(proved, self.list()).await;
            proved?;
            enlisted.children = listed?;
        }
    }

    /// Joins the queue and takes the lock if no contender is ahead; otherwise leaves the queue again. If the lock is
    /// known to be taken, it does not join, which would cost two writes and wake who is behind.
    pub(crate) async fn try_acquire(self: &Arc<Self>) -> Result<Option<Guard>, AcquireError> {
        let pending = self.pending_deletes();
        let mut is_taken = self.is_taken().await;
        if is_taken && pending.wait().await {
            is_taken = self.is_taken().await;
        }
        if is_taken {
            return Ok(None);
        }
        let enlisted = self.enlist().await?;
        let granted = self.take_or_leave(enlisted, &pending).await?;
        Ok(granted.map(|granted| self.guard(granted)))
    }

    /// Takes the lock if no contender is ahead; otherwise leaves the queue.
    ///
    /// `pending` was recorded before the contender joined.
    pub(crate) async fn take_or_leave(
        &self,
        mut enlisted: Enlisted,
        pending: &PendingDeletes<'_>,
    ) -> Result<Option<Granted>, AcquireError> {
        if self.is_behind(&enlisted) && pending.wait().await {
            self.relist(&mut enlisted).await?;
        }
        if self.is_behind(&enlisted) {
            // Awaited, so that the next attempt of the same caller does not find its own node ahead.
            enlisted.leave().await.map(|()| None)
        } else {
            self.wait(enlisted, &AcquireProgress::new(&self.path))
                .await
                .map(Some)
        }
    }

    /// Returns whether a contender would have to wait for others; false if that cannot be found out now.
    pub(crate) async fn is_taken(&self) -> bool {
        // They leave together. A server that lags would show contenders that are gone.
        let sync = self.session.sync(&self.path).into_future();
        let list = self.session.list(&self.path).into_future();
        match future::join(sync, list).await {
            (Ok(()), Ok((names, _))) => {
                !order::is_free(&self.without_ignored(names), self.kind, self.layout())
            }
            _ => false,
        }
    }

    fn is_behind(&self, enlisted: &Enlisted) -> bool {
        let position = order::position(&enlisted.children, enlisted.name(), self.layout());
        matches!(position, QueuePosition::Behind { .. })
    }

    /// Returns what the predecessor `name` waits for; `None` if it holds the lock. That of a reader is a writer, which
    /// may itself be waiting for readers.
    fn waits_for(&self, name: &str, children: &[String]) -> Option<&'static str> {
        if self.is_of_semaphore {
            return Some("leases");
        }
        let is_first = order::position(children, name, self.layout()) == QueuePosition::First;
        (!is_first).then_some("readers")
    }
}
