//! `PreparedOffer`: an offer that the application adds to a transaction which it commits itself.
//!
//! Pure: no I/O and no clock.

use zk_core::{CreateMode, Error, ErrorKind, NodePath, Transaction};

/// An offer for a transaction that the application commits; returned by [`Offer::prepare`](crate::Offer::prepare).
///
/// It can be added to several transactions, each of which offers the item if and only if it is committed.
///
/// # Examples
///
/// The result of one queue is the task of the next, exactly once:
///
/// ```no_run
/// # use zk_queue::WorkQueue;
/// # async fn demo(images: WorkQueue<String>, thumbnails: WorkQueue<String>) -> Result<(), Box<dyn std::error::Error>> {
/// use zk_queue::SettleError;
///
/// let mut claim = images.claim().await?;
/// loop {
///     let next = thumbnails.offer(claim.item()).prepare().await?;
///     let added = next.clone();
///     let Err(failure) = claim.acknowledge_with(move |txn| added.add_to(txn)).await else {
///         break;
///     };
///     match (failure.error, failure.claim) {
///         (SettleError::Refused(error), Some(same)) if next.is_outdated(&error) => claim = same,
///         (error, _) => return Err(error.into()),
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use = "nothing is offered until it is added to a transaction that is committed"]
pub struct PreparedOffer {
    control_node: NodePath,
    control_version: i32,
    /// Without the number that the server appends.
    item: NodePath,
    data: Vec<u8>,
}

impl PreparedOffer {
    /// `control_version` is that of the control node while the item's parent is the active segment.
    pub(crate) fn new(
        (control_node, control_version): (NodePath, i32),
        item: NodePath,
        data: Vec<u8>,
    ) -> Self {
        Self {
            control_node,
            control_version,
            item,
            data,
        }
    }

    /// Adds the offer to a transaction, as two parts: a check of the queue, and the creation of the item, whose result has
    /// its path.
    ///
    /// The paths are relative to the [namespace](zk_core::Session::namespace) of the queue's session, which has to be that
    /// of the transaction's.
    /// What a lost reply does depends on how the transaction is committed.
    /// [`Claim::acknowledge_with`](crate::Claim::acknowledge_with), [`Offer::commit_with`](crate::Offer::commit_with) and
    /// [`IdempotencyTokens`](zk_core::IdempotencyTokens) find out whether it was committed;
    /// [`Transaction::commit`] returns that the outcome is unknown.
    pub fn add_to(&self, transaction: Transaction) -> Transaction {
        transaction
            .check_version(&self.control_node, self.control_version)
            .create_as(&self.item, self.data.clone(), SEQUENTIAL, None)
    }

    /// Returns whether a transaction was refused because the offer is outdated: another segment was started, or the servers
    /// have removed the empty node of the queue. Prepare it again then.
    ///
    /// A refusal by [`NodeExists`](ErrorKind::NodeExists) is none: another client has itself chosen the next number of the
    /// queue, and the offer is refused until an ordinary [`offer`](crate::Offer) has skipped that number.
    pub fn is_outdated(&self, refusal: &Error) -> bool {
        let is_ours = |path: &NodePath| *path == self.control_node || *path == self.item;
        let is_refused = matches!(refusal.kind(), ErrorKind::NoNode | ErrorKind::BadVersion);
        is_refused && refusal.failed_part().is_some() && refusal.path().is_some_and(is_ours)
    }
}

/// How items are created.
pub(crate) const SEQUENTIAL: CreateMode = CreateMode::PersistentSequential;
