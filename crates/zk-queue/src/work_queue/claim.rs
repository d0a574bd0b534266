//! `Claim` and `Delivery`: an item that one consumer processes, and the ways to settle it.

use std::time::Duration;

use futures_util::{FutureExt as _, future};
use zk_core::{Error, ErrorClass, NodePath, Session, Transaction};

use super::held_claim::{ClaimIdentity, ClaimLoss, HeldClaim, Unsettled, release};
use super::not_settled::NotSettled;
use super::time_to_run::TimeToRun;
use crate::deadline::Deadline;
use crate::detached::Detached;
use crate::error::SettleError;
use crate::measure::DeliveryOutcome;

/// An item that one consumer processes.
///
/// While [`is_valid`](Self::is_valid) returns true, no other consumer has the item, unless another client deletes
/// the claim's node.
/// A consumer that continues after its claim was [lost](Self::lost) may process the item a second time. It can no
/// longer acknowledge the item, and [`txn`](Self::txn) fails.
///
/// # Dropping
///
/// The claim is released in the background, and the item is delivered again, to any consumer.
/// If the process dies, that happens when its session expires.
#[derive(Debug)]
#[must_use = "the item is delivered again when this is dropped"]
pub struct Claim<T> {
    item: T,
    held: Box<HeldClaim>,
}

/// An item that a worker passes to its handler; see [`WorkQueue::work_until`](crate::WorkQueue::work_until).
#[derive(Debug)]
pub struct Delivery<T> {
    item: T,
    deliveries: u32,
    session: Session,
    identity: ClaimIdentity,
    time_to_run: Option<TimeToRun>,
}

impl<T> Claim<T> {
    pub(super) const fn new(item: T, held: Box<HeldClaim>) -> Self {
        Self { item, held }
    }

    /// Splits the claim into the part for a handler and the part that settles it.
    pub(super) fn split(self) -> (Delivery<T>, Box<HeldClaim>) {
        let delivery = Delivery {
            item: self.item,
            deliveries: self.held.deliveries,
            session: self.held.queue.session.clone(),
            identity: self.held.identity.clone(),
            time_to_run: self.held.time_to_run.clone(),
        };
        (delivery, self.held)
    }

    /// Returns the item.
    pub fn item(&self) -> &T {
        &self.item
    }

    /// Returns how often the item was delivered, this time included: one or more.
    pub fn deliveries(&self) -> u32 {
        self.held.deliveries
    }

    /// Returns the path of the item.
    pub fn path(&self) -> &NodePath {
        &self.held.identity.item
    }

    /// Returns whether certainly no other consumer has the item now. Sends nothing.
    pub fn is_valid(&self) -> bool {
        self.held.is_valid()
    }

    /// Begins the [time to run](crate::WorkOptions::with_time_to_run) of this delivery again. Sends nothing.
    ///
    /// Returns whether the claim is [valid](Self::is_valid). Once the time is over, it has no effect.
    pub fn touch(&self) -> bool {
        self.held.time_to_run.iter().for_each(TimeToRun::touch);
        self.is_valid()
    }

    /// Waits until the claim can no longer be relied on.
    ///
    /// It returns at once when the session ends, the time to run is over, or the claim is no longer [valid](Self::is_valid).
    /// If another client deletes the claim's node, it returns within five seconds, or within five milliseconds for each
    /// claim that this process has on the queue if that is longer.
    ///
    /// # Cost
    ///
    /// A read every few seconds. It needs no watch, so the number of claims is not limited by watches.
    pub async fn lost(&self) -> ClaimLoss {
        self.held.lost().await
    }

    /// Starts a transaction that fails as a whole once the claim is lost; the caller's parts are counted from two on.
    ///
    /// If the queue is deleted and created again, another item may get the name of this one. The transaction then
    /// succeeds while that item is claimed and has been delivered as often as this one.
    /// [`acknowledge_with`](Self::acknowledge_with) does not have this exception.
    pub fn txn(&self) -> Transaction {
        let session = &self.held.queue.session;
        self.held.identity.check(session.transaction())
    }

    /// Removes the item, because it is processed.
    ///
    /// It retries until there is a reply or the claim is lost, also beyond the operation timeout: a processed item is
    /// not delivered again because of a temporary outage. A caller that cannot wait that long can drop the future.
    ///
    /// # Errors
    ///
    /// [`NotSettled`], with the claim if it can be settled by another attempt. If that is dropped and nothing was
    /// changed, the item is delivered again.
    ///
    /// # Session loss
    ///
    /// A fatal error. Unless it is [`SettleError::Unknown`], the item is delivered again. The same holds for the other
    /// functions that settle a claim.
    ///
    /// # Cost
    ///
    /// One round trip; two if other acknowledgements are in flight, however many, and a part of a request then. Those that
    /// wait are joined into one transaction.
    /// Two more for a new token, whenever more calls are in flight than before; and four more if a segment was started or
    /// removed since the item was claimed.
    pub async fn acknowledge(self) -> Result<(), NotSettled<T>> {
        let Self { item, held } = self;
        let acknowledged = held.acknowledge().await;
        acknowledged.map_err(|unsettled| unsettled.into_error(item))
    }

    /// Removes the items of several claims, because they are processed. Returns the outcome of each, in their order.
    ///
    /// As [`acknowledge`](Self::acknowledge) for each claim: one that fails does not affect the others.
    ///
    /// # Errors
    ///
    /// As [`acknowledge`](Self::acknowledge), for each claim.
    ///
    /// # Cost
    ///
    /// Two round trips, and one more for each 500 claims, or half a megabyte of paths.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn demo(queue: zk_queue::WorkQueue<String>) -> Result<(), zk_queue::TakeError> {
    /// let claims = queue.claim_batch(100).await?;
    /// for acknowledged in zk_queue::Claim::acknowledge_all(claims).await {
    ///     if let Err(not_settled) = acknowledged {
    ///         eprintln!("delivered again: {not_settled}");
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn acknowledge_all(claims: Vec<Self>) -> Vec<Result<(), NotSettled<T>>> {
        future::join_all(claims.into_iter().map(Self::acknowledge)).await
    }

    /// Removes the item and applies other changes in one transaction, so that the changes are applied exactly once for
    /// each item.
    ///
    /// # Errors
    ///
    /// As [`acknowledge`](Self::acknowledge).
    ///
    /// # Cost
    ///
    /// As [`acknowledge`](Self::acknowledge), but it is never joined with others.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # use zk_queue::SettleError;
    /// # async fn demo(claim: zk_queue::Claim<String>) -> Result<(), SettleError> {
    /// let processed = claim.acknowledge_with(|txn| txn.create("/results/7", "sent"));
    /// if let Err(failure) = processed.await {
    ///     match (failure.error, failure.claim) {
    ///         // The result exists: it was processed before.
    ///         (SettleError::Refused(error), Some(claim)) if error.is_node_exists() => claim.acknowledge().await?,
    ///         (error, _) => return Err(error),
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn acknowledge_with(
        self,
        changes: impl Fn(Transaction) -> Transaction + Send + Sync + 'static,
    ) -> Result<(), NotSettled<T>> {
        let Self { item, held } = self;
        let settled = held
            .settle(DeliveryOutcome::Acknowledged, Box::new(changes), None)
            .await;
        settled.map_err(|unsettled| unsettled.into_error(item))
    }

    /// Returns the item to the queue, to be delivered again after `delay` by the leader's clock. If it has used all its
    /// deliveries, it goes to the dead letters with the reason.
    ///
    /// Without a delay, the item keeps its place and can be claimed at once.
    /// With the [layout of another client](crate::WorkLayout), other consumers can always claim it at once.
    /// Like [`acknowledge`](Self::acknowledge), this retries until the claim is lost.
    ///
    /// # Errors
    ///
    /// As [`acknowledge`](Self::acknowledge).
    ///
    /// # Cost
    ///
    /// As [`acknowledge`](Self::acknowledge). With a delay, one more write if the leader's time is not known.
    pub async fn reject(
        self,
        delay: Duration,
        reason: impl Into<String> + Send,
    ) -> Result<(), NotSettled<T>> {
        let Self { item, held } = self;
        let rejected = held.reject(delay, reason.into()).await;
        rejected.map_err(|unsettled| unsettled.into_error(item))
    }

    /// Moves the item to the dead letters, with the reason.
    ///
    /// Like [`acknowledge`](Self::acknowledge), this retries until the claim is lost.
    ///
    /// # Errors
    ///
    /// As [`acknowledge`](Self::acknowledge).
    ///
    /// # Cost
    ///
    /// As [`acknowledge`](Self::acknowledge), and two more for the first dead letter of a queue.
    pub async fn bury(self, reason: impl Into<String> + Send) -> Result<(), NotSettled<T>> {
        let Self { item, held } = self;
        let buried = held.bury(&reason.into()).await;
        buried.map_err(|unsettled| unsettled.into_error(item))
    }
}

impl HeldClaim {
    /// As [`Claim::reject`]. If this is dropped, it continues in the background.
    pub(super) fn reject(
        self: Box<Self>,
        delay: Duration,
        reason: String,
    ) -> Detached<Result<(), Unsettled>> {
        if self.deliveries >= self.context.options.max_deliveries {
            return self.bury(&reason);
        }
        if delay.is_zero() {
            return self.release();
        }
        self.detached(DeliveryOutcome::Rejected, move |claim| {
            claim.reject_until_later(delay, reason).boxed()
        })
    }

    /// Deletes the claim, and renames the item to one that is due after the delay.
    async fn reject_until_later(
        &mut self,
        delay: Duration,
        reason: String,
    ) -> Result<(), SettleError> {
        let due = self.due_after(delay).await.map_err(SettleError::Core)?;
        if self.queue.paths.is_shared {
            // Other clients do not know a name with a due time: they may have the item at once. This process defers it
            // first: a list that is read after the release shows it as ready.
            self.inventory.defer(self.listed.clone(), due);
            let released = release(&self.queue, self.identity.clone()).await;
            released.map_err(SettleError::Core)?;
            tracing::debug!(path = %self.identity.item, reason, "the item was rejected, and is left to other consumers for a time");
            return Ok(());
        }
        let key = self.listed.key.postponed(due, self.deliveries);
        let later = self
            .queue
            .paths
            .item(self.listed.segment, &key.native_name());
        let data = self.data.clone();
        tracing::debug!(path = %self.identity.item, reason, "the item was rejected and is delivered again later");
        let rename = move |transaction: Transaction| transaction.create(&later, data.clone());
        self.settle_now(Box::new(rename), None).await
    }

    /// Returns when an item is due that is delayed from now on; retries until there is a reply or the session is lost.
    async fn due_after(&self, delay: Duration) -> Result<u64, Error> {
        let mut attempts = 0;
        loop {
            match self.queue.due_after(delay, self.queue.deadline()).await {
                Err(error) if error.class() == ErrorClass::Recoverable => {
                    attempts += 1;
                    Deadline::never().pause(attempts).await;
                }
                other => return other,
            }
        }
    }
}

impl<T> Delivery<T> {
    /// Returns the item.
    pub fn item(&self) -> &T {
        &self.item
    }

    /// Returns the item by value.
    pub fn into_item(self) -> T {
        self.item
    }

    /// Returns how often the item was delivered, this time included: one or more.
    pub fn deliveries(&self) -> u32 {
        self.deliveries
    }

    /// Returns the path of the item.
    pub fn path(&self) -> &NodePath {
        &self.identity.item
    }

    /// Begins the [time to run](crate::WorkOptions::with_time_to_run) of this delivery again. Sends nothing.
    ///
    /// Returns false if the time is over; the worker drops the handler then.
    pub fn touch(&self) -> bool {
        self.time_to_run.iter().for_each(TimeToRun::touch);
        !self.time_to_run.as_ref().is_some_and(TimeToRun::is_over)
    }

    /// Starts a transaction that fails as a whole once the claim is lost; the caller's parts are counted from two on.
    ///
    /// See [`Claim::txn`] for an exception, which [`Claim::acknowledge_with`] does not have.
    pub fn txn(&self) -> Transaction {
        self.identity.check(self.session.transaction())
    }
}
