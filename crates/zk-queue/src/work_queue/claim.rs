//! `Claim` and `Delivery`: an item that one consumer processes, and the ways to settle it.

use std::time::Duration;

use zk_core::Error;
use zk_core::ErrorClass;
use zk_core::NodePath;
use zk_core::Session;
use zk_core::Transaction;

use super::held_claim::ClaimIdentity;
use super::held_claim::ClaimLoss;
use super::held_claim::HeldClaim;
use crate::deadline::Deadline;
use crate::detached::Detached;
use crate::error::SettleError;
use crate::layout::Layout;

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
    held: HeldClaim,
}

/// An item that a worker passes to its handler; see [`WorkQueue::work_until`](crate::WorkQueue::work_until).
#[derive(Debug)]
pub struct Delivery<T> {
    item: T,
    deliveries: u32,
    session: Session,
    identity: ClaimIdentity,
}

impl<T> Claim<T> {
    pub(super) fn new(item: T, held: HeldClaim) -> Self {
        Self { item, held }
    }

    /// Splits the claim into the part for a handler and the part that settles it.
    pub(super) fn split(self) -> (Delivery<T>, HeldClaim) {
        let delivery = Delivery {
            item: self.item,
            deliveries: self.held.deliveries,
            session: self.held.queue.session.clone(),
            identity: self.held.identity.clone(),
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

    /// Waits until the claim can no longer be relied on.
    ///
    /// It returns at once when the session ends or the claim is no longer [valid](Self::is_valid).
    /// If another client deletes the claim's node, it returns within five seconds, or within five milliseconds for each
    /// claim that this process has on the queue if that is longer.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a later call returns the loss.
    ///
    /// # Session loss
    ///
    /// Returns [`ClaimLoss::SessionLost`].
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
    /// See [`SettleError`]. If nothing was changed, the item is delivered again.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it continues in the background.
    ///
    /// # Session loss
    ///
    /// A fatal error. Unless it is [`SettleError::Unknown`], the item is delivered again.
    ///
    /// # Cost
    ///
    /// One round trip; two if other acknowledgements are in flight, however many, and a part of a request then. Those that
    /// wait are joined into one transaction.
    /// Two more for a new token, whenever more calls are in flight than before; and four more if a segment was started or
    /// removed since the item was claimed.
    pub async fn acknowledge(self) -> Result<(), SettleError> {
        self.held.acknowledge().await
    }

    /// Removes the item and applies other changes in one transaction, so that the changes are applied exactly once for
    /// each item.
    ///
    /// # Errors
    ///
    /// See [`SettleError`]. If nothing was changed, the item is delivered again.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it continues in the background.
    ///
    /// # Session loss
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
    /// # async fn demo(claim: zk_queue::Claim<String>) -> Result<(), zk_queue::SettleError> {
    /// claim.acknowledge_with(|txn| txn.create("/results/7", "sent")).await
    /// # }
    /// ```
    pub async fn acknowledge_with(
        self,
        changes: impl Fn(Transaction) -> Transaction + Send + Sync + 'static,
    ) -> Result<(), SettleError> {
        self.held.settle(Box::new(changes), None).await
    }

    /// Returns the item to the queue, to be delivered again after `delay` by the leader's clock. If it has used all its
    /// deliveries, it goes to the dead letters with the reason.
    ///
    /// Without a delay, the item keeps its place and can be claimed at once.
    /// Like [`acknowledge`](Self::acknowledge), this retries until the claim is lost.
    ///
    /// # Errors
    ///
    /// See [`SettleError`]. If nothing was changed, the item is delivered again at once.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it continues in the background.
    ///
    /// # Session loss
    ///
    /// A fatal error; the item is delivered again.
    ///
    /// # Cost
    ///
    /// As [`acknowledge`](Self::acknowledge). With a delay, one more write if the leader's time is not known.
    pub async fn reject(
        self,
        delay: Duration,
        reason: impl Into<String> + Send,
    ) -> Result<(), SettleError> {
        self.held.reject(delay, reason.into()).await
    }

    /// Moves the item to the dead letters, with the reason.
    ///
    /// Like [`acknowledge`](Self::acknowledge), this retries until the claim is lost.
    ///
    /// # Errors
    ///
    /// See [`SettleError`]. If nothing was changed, the item is delivered again.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it continues in the background.
    ///
    /// # Session loss
    ///
    /// A fatal error; the item is delivered again.
    ///
    /// # Cost
    ///
    /// As [`acknowledge`](Self::acknowledge), and two more for the first dead letter of a queue.
    pub async fn bury(self, reason: impl Into<String> + Send) -> Result<(), SettleError> {
        self.held.bury(&reason.into()).await
    }
}

impl HeldClaim {
    /// As [`Claim::reject`]. If this is dropped, it continues in the background.
    pub(super) fn reject(
        self,
        delay: Duration,
        reason: String,
    ) -> Detached<Result<(), SettleError>> {
        if self.deliveries >= self.context.options.max_deliveries {
            return self.bury(&reason);
        }
        if delay.is_zero() {
            return self.release();
        }
        self.detached(|claim| claim.reject_until_later(delay, reason))
    }

    /// Deletes the claim, and renames the item to one that is due after the delay.
    async fn reject_until_later(self, delay: Duration, reason: String) -> Result<(), SettleError> {
        let due = self.due_after(delay).await.map_err(SettleError::Core)?;
        let key = self.listed.key.postponed(due, self.deliveries);
        debug_assert_eq!(self.queue.options.layout, Layout::Native);
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

    /// Starts a transaction that fails as a whole once the claim is lost; the caller's parts are counted from two on.
    ///
    /// See [`Claim::txn`] for an exception, which [`Claim::acknowledge_with`] does not have.
    pub fn txn(&self) -> Transaction {
        self.identity.check(self.session.transaction())
    }
}
