//! Hands a held lock to the next waiter, and waits for the next turn.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use zk_core::{Error, ReplaceError};

use super::Guard;
use crate::error::{AcquireError, LockLoss, YieldError};
use crate::measure::Wait;
use crate::node_monitor::node_lost;
use crate::order;
use crate::progress::AcquireProgress;
use crate::queue::{Enlisted, Queue};

impl Guard {
    /// Lets the waiters have the lock before it is held again: hands it to the next waiter and joins the end of the queue,
    /// both in one transaction, and waits for the next turn.
    ///
    /// Use it between the pieces of long work, so that others need not wait for all of it. Every contender that waits now
    /// has had its turn when this returns.
    /// The returned guard may be of another node, with a higher [`fencing_token`](Self::fencing_token): do not rely on
    /// what was read under the lock before.
    ///
    /// If no contender waits, the lock is kept, with the same node and token. Other clients may have read the list of
    /// contenders, but none has held the lock.
    /// A guard that saw others behind it while it waited hands the lock over without looking for them again, also if they
    /// have left since.
    /// A child of the lock's path that is no contender of this layout counts as a waiter. A reader is kept if all other
    /// contenders are readers.
    /// A contender that joined so recently that the session's server does not show it is not waited for.
    ///
    /// Unlike a release and another acquire, it cannot end between the two: the ensemble executes both or neither.
    ///
    /// # Errors
    ///
    /// After any error the lock is not held. Nodes that are left are deleted in the background.
    ///
    /// - [`YieldError::Lost`] if the lock had been lost before.
    /// - [`YieldError::GivenUp`] if the ensemble refused the transaction, or did not reply within the session's operation
    ///   timeout.
    /// - [`YieldError::NotReacquired`] if the lock was handed over and then not acquired: the errors of
    ///   [`FairLock::acquire`](crate::FairLock::acquire) once it waits.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, but it drops the guard: the lock is released, and the place in the queue given up, in the background.
    ///
    /// # Session loss
    ///
    /// [`YieldError::Lost`] if it is noticed before the lock is handed over, otherwise [`YieldError::NotReacquired`].
    ///
    /// # Cost
    ///
    /// One round trip, a read, unless the guard saw others behind it while it waited. If the lock is not kept, a write and a
    /// read directly behind it, which wakes the same waiters as a release; then that of a waiter.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn demo(session: zk_core::Session) -> Result<(), Box<dyn std::error::Error>> {
    /// # async fn migrate(table: &str, token: zk_lock::FencingToken) {}
    /// use zk_lock::FairLock;
    ///
    /// let lock = FairLock::new(&session, "/locks/migration")?;
    /// let mut guard = lock.acquire().await?;
    /// for table in ["users", "orders", "invoices"] {
    ///     migrate(table, guard.fencing_token()).await;
    ///     guard = guard.yield_now().await?;
    /// }
    /// guard.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn yield_now(mut self) -> Result<Self, YieldError> {
        let queue = self.queue();
        let deadline = Instant::now() + queue.session.operation_timeout();
        // Those who waited have probably not left. If they have, handing over to no one costs a write.
        if !self.saw_waiters && self.may_be_kept(&queue, deadline).await? {
            return Ok(self);
        }
        let enlisted = self.hand_over(&queue, deadline).await?;
        let wait = self.measured_kind().map(Wait::start);
        // From here on it is a waiter like any other.
        drop(self);
        let acquired = wait_again(&queue, enlisted).await;
        let acquired = match wait {
            Some(wait) => wait.ended(acquired),
            None => acquired,
        };
        acquired.map_err(|source| YieldError::NotReacquired { source })
    }

    /// Returns whether no other contender waits while the lock is certainly held.
    async fn may_be_kept(&self, queue: &Queue, deadline: Instant) -> Result<bool, YieldError> {
        loop {
            if let Some(loss) = self.final_loss() {
                return Err(self.lost_before(loss));
            }
            let list = queue
                .session
                .list(&queue.path)
                .timeout(time_until(deadline));
            let names = match list.await {
                Ok((names, _)) => names,
                Err(error) if error.is_no_node() => Vec::new(),
                Err(error) => return Err(self.given_up(error)),
            };
            let own = self.path().name().unwrap_or_default();
            if !names.iter().any(|name| name == own) {
                return Err(match node_lost(&queue.session, self.path()).await {
                    AcquireError::SessionLost { .. } => self.lost_before(LockLoss::SessionLost),
                    _ => self.lost_before(LockLoss::NodeDeleted),
                });
            }
            if order::has_waiters(&names, own, queue.layout()) {
                return Ok(false);
            }
            // The session may have ended since, with a lagging server that does not show it.
            if self.is_valid() {
                return Ok(true);
            }
            // Whether it survives or not: if there is no proof in time, the lock is handed over.
            match timeout_at(deadline, self.prove_all_alive()).await {
                Ok(Ok(())) => {}
                Ok(Err(AcquireError::Lost { loss, .. })) => return Err(self.lost_before(loss)),
                Ok(Err(_)) | Err(_) => return Ok(false),
            }
        }
    }

    /// Replaces the node of the guard by one at the end of the queue.
    async fn hand_over(
        &mut self,
        queue: &Queue,
        deadline: Instant,
    ) -> Result<Enlisted, YieldError> {
        // Code under the lock is notified before another contender can have it.
        if let Some(loss) = self.node().end(LockLoss::Released) {
            return Err(self.lost_before(loss));
        }
        let node = self.node.take().expect("only a release takes it");
        // The node is monitored until the reply, so that its watch fires instead of being removed by a request.
        match queue.rejoin(node, time_until(deadline)).await {
            Ok(enlisted) => Ok(enlisted),
            Err(ReplaceError::NotReplaced { source, .. })
                if source.is_no_node() && source.path() == Some(self.path()) =>
            {
                Err(self.lost_before(LockLoss::NodeDeleted))
            }
            Err(ReplaceError::NotReplaced { source, .. } | ReplaceError::Unknown { source }) => {
                Err(self.given_up(source))
            }
        }
    }

    fn queue(&self) -> Arc<Queue> {
        let queue = self.queue.clone();
        queue.expect("guards of locks without a queue are not public")
    }

    fn lost_before(&self, loss: LockLoss) -> YieldError {
        let path = self.path().clone();
        YieldError::Lost { path, loss }
    }

    fn given_up(&self, source: Error) -> YieldError {
        if source.is_fatal() {
            return self.lost_before(LockLoss::SessionLost);
        }
        let path = self.path().clone();
        YieldError::GivenUp { path, source }
    }
}

/// Waits for the next turn of a contender that has just joined the queue again.
async fn wait_again(queue: &Arc<Queue>, mut enlisted: Enlisted) -> Result<Guard, AcquireError> {
    queue.list_with(&mut enlisted).await?;
    let progress = AcquireProgress::new(&queue.path);
    let granted = queue.wait(enlisted, &progress).await?;
    Ok(queue.guard(granted))
}

fn time_until(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now())
}
