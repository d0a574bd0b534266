//! Claims as consumers have them.

use std::time::Duration;

use zk_core::ErrorClass;
use zk_core::NodePath;
use zk_core::Session;
use zk_core::Transaction;

use super::held_claim::Grip;
use super::held_claim::Held;
use crate::deadline::Deadline;
use crate::error::SettleError;
use crate::layout::Layout;

/// An item that one consumer processes, and nobody else meanwhile.
///
/// While [`is_trusted`](Self::is_trusted) says so, nobody else has the item, unless somebody deletes the nodes of others.
/// A consumer that goes on after its claim was [lost](Self::lost) may do what another one does as well; it cannot
/// acknowledge the item, and [`txn`](Self::txn) fails.
///
/// # Dropping
///
/// The claim is taken away in the background and the item delivered again, to whoever comes first.
/// If the process dies, that happens when its session expires.
#[derive(Debug)]
#[must_use = "the item is delivered again when this is dropped"]
pub struct Claim<T> {
    item: T,
    held: Held,
}

/// Why a claim can no longer be relied on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Loss {
    /// The session is over, and its claims with it.
    SessionLost,
    /// For too long nothing was heard of the ensemble: it may have expired the session and given the item to another.
    TrustLapsed,
    /// Somebody else deleted the node of the claim.
    ClaimDeleted,
}

/// An item that a worker hands to its handler; made by [`WorkQueue::work_until`](crate::WorkQueue::work_until).
#[derive(Debug)]
pub struct Delivery<T> {
    item: T,
    deliveries: u32,
    session: Session,
    grip: Grip,
}

impl<T> Claim<T> {
    pub(super) fn new(item: T, held: Held) -> Self {
        Self { item, held }
    }

    /// Splits off what a handler is given.
    pub(super) fn split(self) -> (Delivery<T>, Held) {
        let delivery = Delivery {
            item: self.item,
            deliveries: self.held.deliveries,
            session: self.held.line.session.clone(),
            grip: self.held.grip.clone(),
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
        &self.held.grip.item
    }

    /// Tells whether nobody else can have the item now. Asks nobody.
    pub fn is_trusted(&self) -> bool {
        self.held.is_trusted()
    }

    /// Waits until the claim can no longer be relied on.
    ///
    /// The end of the session, and that the claim is no longer [trusted](Self::is_trusted), are told at once.
    /// That somebody deleted the node of the claim is told within five seconds, or five milliseconds for each claim that
    /// this process has of the queue if that is longer.
    ///
    /// # Cancel safety
    ///
    /// Safe, nothing is missed.
    ///
    /// # Session loss
    ///
    /// This is how to be told of it.
    ///
    /// # Cost
    ///
    /// A read every few seconds; no watch, so that any number of claims can be waited for.
    pub async fn lost(&self) -> Loss {
        self.held.lost().await
    }

    /// Starts a transaction that fails as a whole once the claim is lost; its own parts are counted from two on.
    ///
    /// When somebody deletes the queue and makes it again, an item of it may have the name of this one: the transaction
    /// succeeds while that is claimed, if it was delivered as often. [`acknowledge_with`](Self::acknowledge_with) does not.
    pub fn txn(&self) -> Transaction {
        let session = &self.held.line.session;
        self.held.grip.checked(session.transaction())
    }

    /// Removes the item, which is done.
    ///
    /// This goes on until it is answered or the claim is lost, also beyond the operation timeout: an item that is done is
    /// not delivered again because the servers were away for a while.
    /// Whoever cannot wait that long drops the future.
    ///
    /// # Errors
    ///
    /// See [`SettleError`]; where nothing was done, the item is delivered again.
    ///
    /// # Cancel safety
    ///
    /// Safe, it goes on in the background.
    ///
    /// # Session loss
    ///
    /// A fatal error; unless it is [`SettleError::Unknown`], the item is delivered again.
    ///
    /// # Cost
    ///
    /// One round trip; two more for each one that is made at the same time as others for the first time, and three more if
    /// a segment was begun or given up since the item was claimed.
    pub async fn acknowledge(self) -> Result<(), SettleError> {
        self.acknowledge_with(|nothing_else| nothing_else).await
    }

    /// Removes the item, which is done, and makes other changes with it, all or none: what they do is done exactly once
    /// for each item.
    ///
    /// # Errors
    ///
    /// See [`SettleError`]; where nothing was done, the item is delivered again.
    ///
    /// # Cancel safety
    ///
    /// Safe, it goes on in the background.
    ///
    /// # Session loss
    ///
    /// As [`acknowledge`](Self::acknowledge).
    ///
    /// # Cost
    ///
    /// As [`acknowledge`](Self::acknowledge).
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

    /// Gives the item back, to be delivered again after `delay` by the leader's clock; one that was delivered as often as
    /// it may be goes to the dead letters, with the reason.
    ///
    /// Without a delay it is at its old place at once.
    /// As [`acknowledge`](Self::acknowledge), this goes on until the claim is lost.
    ///
    /// # Errors
    ///
    /// See [`SettleError`]; where nothing was done, the item is delivered again at once.
    ///
    /// # Cancel safety
    ///
    /// Safe, it goes on in the background.
    ///
    /// # Session loss
    ///
    /// A fatal error; the item is delivered again.
    ///
    /// # Cost
    ///
    /// As [`acknowledge`](Self::acknowledge); with a delay, a write more to ask for the leader's time if that is not known.
    pub async fn reject(
        self,
        delay: Duration,
        reason: impl Into<String> + Send,
    ) -> Result<(), SettleError> {
        self.held.reject(delay, reason.into()).await
    }

    /// Puts the item to the dead letters, with the reason.
    ///
    /// As [`acknowledge`](Self::acknowledge), this goes on until the claim is lost.
    ///
    /// # Errors
    ///
    /// See [`SettleError`]; where nothing was done, the item is delivered again.
    ///
    /// # Cancel safety
    ///
    /// Safe, it goes on in the background.
    ///
    /// # Session loss
    ///
    /// A fatal error; the item is delivered again.
    ///
    /// # Cost
    ///
    /// As [`acknowledge`](Self::acknowledge), and two more for the first dead letter of a queue.
    pub async fn bury(self, reason: impl Into<String> + Send) -> Result<(), SettleError> {
        self.held.bury(reason.into()).await
    }
}

impl Held {
    pub(super) async fn reject(self, delay: Duration, reason: String) -> Result<(), SettleError> {
        if self.deliveries >= self.bench.options.most_deliveries {
            return self.bury(reason).await;
        }
        if delay.is_zero() {
            return self.release().await;
        }
        let mut attempts = 0;
        let due = loop {
            match self.line.due_after(delay, self.line.deadline()).await {
                Ok(due) => break due,
                Err(error) if error.class() == ErrorClass::Recoverable => {
                    attempts += 1;
                    Deadline::after(Duration::MAX).pause(attempts).await;
                }
                Err(error) => return Err(SettleError::Core(error)),
            }
        };
        let slot = self.spot.slot.postponed(due, self.deliveries);
        debug_assert_eq!(self.line.options.layout, Layout::Native);
        let later = self.line.place.item(self.spot.segment, &slot.native_name());
        let data = self.data.clone();
        tracing::debug!(path = %self.grip.item, reason, "an item is to be delivered again later");
        self.settle(
            Box::new(move |transaction| transaction.create(&later, data.clone())),
            None,
        )
        .await
    }
}

impl<T> Delivery<T> {
    /// Returns the item.
    pub fn item(&self) -> &T {
        &self.item
    }

    /// Returns the item, for good.
    pub fn into_item(self) -> T {
        self.item
    }

    /// Returns how often the item was delivered, this time included: one or more.
    pub fn deliveries(&self) -> u32 {
        self.deliveries
    }

    /// Returns the path of the item.
    pub fn path(&self) -> &NodePath {
        &self.grip.item
    }

    /// Starts a transaction that fails as a whole once the claim is lost; its own parts are counted from two on.
    ///
    /// When somebody deletes the queue and makes it again, an item of it may have the name of this one: the transaction
    /// succeeds while that is claimed, if it was delivered as often. [`Claim::acknowledge_with`] does not.
    pub fn txn(&self) -> Transaction {
        self.grip.checked(self.session.transaction())
    }
}
