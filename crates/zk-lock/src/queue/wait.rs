//! Waits until a contender is granted the lock.

use futures_util::future;

use super::Enlisted;
use super::Granted;
use super::Queue;
use super::QueueProgress;
use super::watches::WakeReason;
use super::watches::Watches;
use crate::error::AcquireError;
use crate::error::Ahead;
use crate::error::SequenceExhausted;
use crate::order;
use crate::order::Lookahead;
use crate::order::QueuePosition;
use crate::retry::PendingDeletes;
use crate::retry::prove_alive;

/// What a contender does next, according to the last list of the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
enum NextStep {
    /// No contender is ahead: take the lock.
    Take,
    /// Wait for the predecessor to leave.
    Wait {
        predecessor: String,
        /// The contender to look ahead to: when it leaves, only the predecessor may be left.
        lookahead: Option<String>,
        /// Whether the deletion of the predecessor grants the lock.
        is_next: bool,
        ahead: usize,
    },
    /// Our node is gone: fail.
    NodeGone,
    /// The numbers no longer order the contenders: no contender is granted the lock.
    Exhausted(SequenceExhausted),
}

impl Queue {
    /// Waits until no contender is ahead and the session is known to be alive.
    ///
    /// Each waiter watches its predecessor and the contender ahead of that one, so each deletion wakes two waiters.
    /// The first of them takes over without listing again if it is next ([`Lookahead::Next`]), and if its own node
    /// was watched by then and still exists ([`WakeReason::PredecessorDeleted`]). The second one finds out
    /// meanwhile whether it is next.
    /// After every other wake-up a waiter lists again: the contender that left may have been a waiter itself.
    pub(crate) async fn wait(
        &self,
        mut enlisted: Enlisted,
        progress: &QueueProgress,
    ) -> Result<Granted, AcquireError> {
        let mut watches = Watches::default();
        loop {
            let is_ours = match self.next_step(&enlisted) {
                NextStep::Take => true,
                NextStep::Wait {
                    predecessor,
                    lookahead,
                    is_next,
                    ahead,
                } => {
                    progress.set_ahead(Ahead::new(ahead));
                    let holds = self.is_first(&predecessor, &enlisted.children);
                    let own = enlisted.node.path();
                    let watched = self.watch_all(
                        &mut watches,
                        &predecessor,
                        lookahead.as_deref(),
                        is_next.then_some(own),
                    );
                    // Boxed: most acquires are granted without a wait and need no space for these futures.
                    let is_there = Box::pin(watched).await?;
                    if let Some(predecessor) = watches.predecessor() {
                        let contender = Some(predecessor.clone());
                        progress.set_ahead(Ahead::new(ahead).behind(contender, holds));
                    }
                    is_there
                        && Box::pin(self.wait_for_wakeup(&mut watches, own)).await?
                            == WakeReason::PredecessorDeleted
                        && is_next
                }
                NextStep::NodeGone => {
                    return Err(Box::pin(self.node_lost(enlisted.node.path())).await);
                }
                NextStep::Exhausted(exhausted) => {
                    // Awaited, so that the path can be deleted as the message advises.
                    enlisted.leave().await?;
                    return Err(AcquireError::SequenceExhausted(exhausted));
                }
            };
            enlisted.children = if is_ours {
                progress.set_ahead(Ahead::new(0));
                let session_lease = self.session.keep_lease();
                if session_lease.is_lasting() {
                    let Enlisted { node, .. } = enlisted;
                    let watch = watches.into_own();
                    return Ok(Granted {
                        node,
                        session_lease,
                        watch,
                    });
                }
                // The session was idle, or the process was stopped or cut off since the list.
                // Prove that the session is alive and list once more.
                let (proved, listed) =
                    future::join(prove_alive(&self.session, &session_lease), self.list()).await;
                proved?;
                listed?
            } else {
                self.list().await?
            };
        }
    }

    /// Joins the queue and takes the lock if no contender is ahead; otherwise leaves the queue again.
    pub(crate) async fn try_acquire(&self) -> Result<Option<Granted>, AcquireError> {
        let pending = self.pending_deletes();
        let enlisted = self.enlist().await?;
        self.try_once(enlisted, &pending).await
    }

    /// Takes the lock if no contender is ahead; otherwise leaves the queue.
    ///
    /// `pending` was recorded before the contender joined.
    pub(crate) async fn try_once(
        &self,
        mut enlisted: Enlisted,
        pending: &PendingDeletes<'_>,
    ) -> Result<Option<Granted>, AcquireError> {
        if let NextStep::Wait { .. } = self.next_step(&enlisted)
            && pending.wait().await
        {
            self.relist(&mut enlisted).await?;
        }
        if let NextStep::Wait { .. } = self.next_step(&enlisted) {
            // Awaited, so that the next attempt of the same caller does not find its own node ahead.
            enlisted.leave().await.map(|()| None)
        } else {
            self.wait(enlisted, &QueueProgress::default())
                .await
                .map(Some)
        }
    }

    /// Decides by the children as last listed.
    ///
    /// Once our node exists, contenders ahead can only leave, never join. So an old list that contains our node is
    /// safe: at worst it makes us wait for a contender that is gone.
    fn next_step(&self, enlisted: &Enlisted) -> NextStep {
        let layout = self.options.layout();
        let (position, lookahead) =
            order::position_with_lookahead(&enlisted.children, enlisted.name(), layout);
        match position {
            QueuePosition::First => NextStep::Take,
            QueuePosition::Behind { predecessor, ahead } => NextStep::Wait {
                predecessor: predecessor.to_owned(),
                lookahead: match lookahead {
                    Lookahead::After(lookahead) => Some(lookahead.to_owned()),
                    Lookahead::Next | Lookahead::Unknown => None,
                },
                is_next: lookahead == Lookahead::Next,
                ahead,
            },
            QueuePosition::Unordered { tied_with } => NextStep::Exhausted(SequenceExhausted {
                path: self.path.clone(),
                name: enlisted.name().to_owned(),
                sequence: layout.sequence_of(enlisted.name()),
                tied_with: tied_with.map(str::to_owned),
            }),
            QueuePosition::Missing => NextStep::NodeGone,
        }
    }

    /// Returns whether the contender `name` is first, and so holds the lock. A reader's predecessor is a writer,
    /// which may itself be waiting for readers.
    fn is_first(&self, name: &str, children: &[String]) -> bool {
        order::position(children, name, self.options.layout()) == QueuePosition::First
    }
}
