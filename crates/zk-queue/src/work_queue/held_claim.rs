//! A claim that this process holds: noticing its loss, settling it, and releasing it.
//!
//! Claiming an item writes it, so its version counts its deliveries. A claim is settled only under the version that it
//! gave the item: another consumer's claim, made after ours was lost, is never mistaken for ours.

use std::cmp::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, TryFutureExt as _};
use tokio::time::Instant;
use zk_core::{Error, ErrorClass, ErrorKind, NodePath, Sequence, SessionLease, Stat, Transaction};

use super::time_to_run::TimeToRun;
use super::{Claim, NotSettled, WorkContext};
use crate::deadline::Deadline;
use crate::detached::Detached;
use crate::error::SettleError;
use crate::layout::ItemKey;
use crate::measure::{DeliveryOutcome, DeliveryTime};
use crate::mutex::lock;
use crate::preconditions::Preconditions;
use crate::ready_items::ListedItem;
use crate::store::{ConditionalOutcome, MAX_PARENT_ROUNDS, QueueContext, SharedInventory};

/// A claim of this process. If it is dropped, it is released in the background.
#[derive(Debug)]
pub(super) struct HeldClaim {
    pub(super) queue: Arc<QueueContext>,
    /// Skips an item that cannot be settled.
    pub(super) inventory: Arc<SharedInventory>,
    pub(super) context: Arc<WorkContext>,
    pub(super) identity: ClaimIdentity,
    pub(super) listed: ListedItem,
    pub(super) data: Vec<u8>,
    pub(super) deliveries: u32,
    pub(super) session_lease: SessionLease,
    /// The time that this delivery may still take, if it is limited.
    pub(super) time_to_run: Option<TimeToRun>,
    pub(super) is_settled: bool,
    pub(super) time: DeliveryTime,
    /// When the claim's node was last seen.
    pub(super) last_checked: Mutex<Instant>,
    /// Counts this claim while it exists.
    pub(super) open_claims: Arc<()>,
}

/// Why a claim can no longer be relied on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ClaimLoss {
    /// The session ended, and its claims with it.
    SessionLost,
    /// No contact with the ensemble for too long: it may have expired the session and delivered the item again.
    SessionLeaseExpired,
    /// Another client deleted the claim's node.
    ClaimDeleted,
    /// The [time to run](crate::WorkOptions::with_time_to_run) was over, and this process gave the claim up.
    TimeToRunExpired,
}

/// What a transaction checks to be sure that the claim is still ours.
#[derive(Debug, Clone)]
pub(super) struct ClaimIdentity {
    pub(super) item: NodePath,
    pub(super) claim: NodePath,
    /// The version that the claim gave the item.
    pub(super) version: i32,
    /// The transaction that created the item.
    pub(super) item_czxid: i64,
    /// The preconditions under which the item was claimed.
    pub(super) preconditions: Arc<Preconditions>,
    /// The version of the claim's node, if it is checked.
    pub(super) claim_version: Option<i32>,
    /// The transaction that created the claim, unless its reply was lost.
    pub(super) claim_czxid: Option<i64>,
}

/// A claim that was not settled, and why.
#[derive(Debug)]
pub(super) struct Unsettled {
    pub(super) error: SettleError,
    pub(super) held: Box<HeldClaim>,
}

/// The parts of a transaction that a caller adds to the end of a claim.
pub(super) type Changes = Box<dyn Fn(Transaction) -> Transaction + Send + Sync>;

impl HeldClaim {
    pub(super) fn is_valid(&self) -> bool {
        let is_over = self.time_to_run.as_ref().is_some_and(TimeToRun::is_over);
        self.session_lease.is_valid() && !is_over
    }

    fn is_ours(&self, claim: &Stat) -> bool {
        let is_same = self
            .identity
            .claim_czxid
            .is_none_or(|claim_czxid| claim_czxid == claim.czxid);
        is_same && claim.ephemeral_owner == Some(self.queue.session.id())
    }

    /// Waits until the claim can no longer be relied on.
    pub(super) async fn lost(&self) -> ClaimLoss {
        tokio::select! {
            biased;
            _ = self.queue.session.lost() => ClaimLoss::SessionLost,
            () = self.session_lease.lapsed() => ClaimLoss::SessionLeaseExpired,
            () = self.time_to_run_over() => ClaimLoss::TimeToRunExpired,
            () = self.deleted() => ClaimLoss::ClaimDeleted,
        }
    }

    /// Waits until the time to run is over.
    async fn time_to_run_over(&self) {
        match &self.time_to_run {
            Some(time_to_run) => drop(time_to_run.over().await),
            None => std::future::pending().await,
        }
    }

    /// Waits until the claim's node is gone or another one, by reading it from time to time.
    ///
    /// That happens only if another client deletes it. A watch on each claim would exhaust the session's watches with
    /// some thousand claims, and a watch on their parent would fire for every item of every consumer.
    async fn deleted(&self) {
        loop {
            let next = {
                let last_checked = *lock(&self.last_checked);
                last_checked
                    + check_interval(
                        self.listed.key.sequence,
                        Arc::strong_count(&self.open_claims),
                    )
            };
            Deadline::at(next).bound(std::future::pending::<()>()).await;
            match self.queue.session.exists(&self.identity.claim).await {
                Ok(Some(stat)) if self.is_ours(&stat) => {}
                Ok(_) => return,
                Err(error) if error.is_fatal() => std::future::pending().await,
                // The next check finds out.
                Err(_) => {}
            }
            *lock(&self.last_checked) = Instant::now();
        }
    }

    /// Ends the claim by `end` with this outcome, or returns it with the error. If this is dropped, it continues in the
    /// background.
    ///
    /// Every await of a call that ends a claim must be inside `end`: dropping the call outside of it releases the claim
    /// instead.
    pub(super) fn detached<F>(
        mut self: Box<Self>,
        outcome: DeliveryOutcome,
        end: F,
    ) -> Detached<Result<(), Unsettled>>
    where
        F: for<'a> FnOnce(&'a mut Self) -> BoxFuture<'a, Result<(), SettleError>> + Send + 'static,
    {
        self.time_to_run.iter().for_each(TimeToRun::stop);
        let session = self.queue.session.clone();
        let ending = async move {
            if let Err(error) = end(&mut self).await {
                self.time_to_run.iter().for_each(TimeToRun::restart);
                return Err(Unsettled { error, held: self });
            }
            self.is_settled = true;
            self.time.outcome = outcome;
            Ok(())
        };
        Detached::new(&session, ending, async |_| {})
    }

    /// Ends the claim: removes the item, together with those of other claims that are acknowledged at the same time. If
    /// this is dropped, it continues in the background.
    pub(super) fn acknowledge(self: Box<Self>) -> Detached<Result<(), Unsettled>> {
        self.detached(DeliveryOutcome::Acknowledged, |claim| {
            let acknowledging = async move {
                let acknowledgements = Arc::clone(&claim.context.acknowledgements);
                let identity = claim.identity.clone();
                if acknowledgements.call(identity, Deadline::never()).await? {
                    return Ok(());
                }
                let nothing_else: Changes = Box::new(|nothing_else| nothing_else);
                claim.settle_now(nothing_else, None).await
            };
            acknowledging.boxed()
        })
    }

    /// Ends the claim: removes the item and applies further changes. If this is dropped, it continues in the
    /// background.
    ///
    /// `container` is a node that the changes need as a parent.
    pub(super) fn settle(
        self: Box<Self>,
        outcome: DeliveryOutcome,
        changes: Changes,
        container: Option<NodePath>,
    ) -> Detached<Result<(), Unsettled>> {
        self.detached(outcome, |claim| {
            claim.settle_now(changes, container).boxed()
        })
    }

    /// Retries until the claim is settled or lost, without a deadline: a processed item would be delivered again
    /// otherwise.
    pub(super) async fn settle_now(
        &mut self,
        changes: Changes,
        container: Option<NodePath>,
    ) -> Result<(), SettleError> {
        let (mut parent_rounds, mut attempts) = (0, 0);
        loop {
            match self
                .try_to_settle(&changes, container.as_ref(), &mut parent_rounds)
                .await
            {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(SettleError::Core(error)) if error.class() == ErrorClass::Recoverable => {
                    tracing::debug!(path = %self.identity.item, %error, "settling the claim again");
                }
                Err(error) => return Err(error),
            }
            attempts += 1;
            Deadline::never().pause(attempts).await;
        }
    }

    /// Returns whether the claim is settled; otherwise the cause was removed, and another attempt may succeed.
    async fn try_to_settle(
        &mut self,
        changes: &Changes,
        container: Option<&NodePath>,
        parent_rounds: &mut u32,
    ) -> Result<bool, SettleError> {
        let preconditions = &self.identity.preconditions;
        let identity = &self.identity;
        let outcome = self
            .queue
            .commit_if(preconditions, Deadline::never(), |transaction| {
                let ended = identity.delete_claim(transaction);
                changes(ended.delete_version(&identity.item, identity.version))
            });
        match outcome.await? {
            ConditionalOutcome::Committed(_) => Ok(true),
            ConditionalOutcome::PreconditionsFailed => {
                let deadline = self.queue.deadline();
                let still_exists = self.identity.refresh(&self.queue, deadline).await;
                if still_exists.map_err(SettleError::Core)? {
                    Ok(false)
                } else {
                    Err(self.give_up_lost())
                }
            }
            ConditionalOutcome::Refused { part: 0 | 1, error } => match error.kind() {
                ErrorKind::NoNode | ErrorKind::BadVersion => Err(self.give_up_lost()),
                kind => {
                    if kind == ErrorKind::NotEmpty {
                        self.inventory.quarantine(&self.listed, "it has children");
                    }
                    Err(SettleError::Core(error))
                }
            },
            ConditionalOutcome::Refused { error, .. } => match container {
                Some(path) if error.is_no_node() && *parent_rounds < MAX_PARENT_ROUNDS => {
                    *parent_rounds += 1;
                    let deadline = self.queue.deadline();
                    let created = self.queue.create_container(path, deadline).await;
                    created.map_err(SettleError::Core)?;
                    Ok(false)
                }
                _ => Err(SettleError::Refused(error)),
            },
        }
    }

    /// Deletes in the background what may remain of a claim that is no longer ours.
    fn give_up_lost(&mut self) -> SettleError {
        self.is_settled = true;
        self.time.outcome = DeliveryOutcome::Lost;
        let (queue, identity) = (Arc::clone(&self.queue), self.identity.clone());
        let session = queue.session.clone();
        session.finish(async move { delete_claim_node(&queue, &identity).await });
        SettleError::Lost {
            path: self.identity.item.clone(),
        }
    }

    /// Deletes the claim of a rejected item, and leaves the item where it is. If this is dropped, it continues in the
    /// background.
    pub(super) fn release(self: Box<Self>) -> Detached<Result<(), Unsettled>> {
        self.detached(DeliveryOutcome::Rejected, |claim| {
            let released = release(&claim.queue, claim.identity.clone());
            released.map_err(SettleError::Core).boxed()
        })
    }
}

impl Unsettled {
    /// Returns the claim to the caller, unless it is over.
    pub(super) fn into_error<T>(self, item: T) -> NotSettled<T> {
        let Self { error, held } = self;
        let is_over =
            matches!(error, SettleError::Lost { .. }) || error.class() == ErrorClass::Fatal;
        NotSettled {
            error,
            claim: (!is_over).then(|| Claim::new(item, held)),
        }
    }
}

impl ClaimIdentity {
    /// Reads the preconditions again; returns whether the item still exists.
    ///
    /// Either another segment is active, or all nodes were deleted and created again, and then the item is gone.
    async fn refresh(&mut self, queue: &QueueContext, deadline: Deadline) -> Result<bool, Error> {
        let new = queue.preconditions_if_item_exists(&self.item, self.item_czxid, deadline);
        let Some(preconditions) = new.await? else {
            return Ok(false);
        };
        self.preconditions = preconditions;
        Ok(true)
    }

    /// Makes a transaction fail unless the claim is still ours.
    pub(super) fn check(&self, transaction: Transaction) -> Transaction {
        let checked = match self.claim_version {
            Some(version) => transaction.check_version(&self.claim, version),
            None => transaction.check(&self.claim),
        };
        checked.check_version(&self.item, self.version)
    }

    /// Makes a transaction delete the claim's node, unless it is known to be another one.
    pub(super) fn delete_claim(&self, transaction: Transaction) -> Transaction {
        match self.claim_version {
            Some(version) => transaction.delete_version(&self.claim, version),
            None => transaction.delete(&self.claim),
        }
    }
}

impl Drop for HeldClaim {
    fn drop(&mut self) {
        if !self.is_settled {
            if !self.is_valid() {
                self.time.outcome = DeliveryOutcome::Lost;
            }
            release_in_background(&self.queue, &self.identity);
        }
    }
}

/// As [`release`], and closing the session waits for it.
pub(super) fn release_in_background(queue: &Arc<QueueContext>, identity: &ClaimIdentity) {
    let (queue, identity) = (Arc::clone(queue), identity.clone());
    let session = queue.session.clone();
    session.finish(async move { drop(release(&queue, identity).await) });
}

/// Deletes a claim unless it is another consumer's. Repeating it does no harm, so it is repeated until there is a
/// reply, or until the session ends: the servers then delete the claim, and every request fails.
pub(super) async fn release(
    queue: &QueueContext,
    mut identity: ClaimIdentity,
) -> Result<(), Error> {
    let mut attempts = 0;
    loop {
        let (checked, checks) = identity.preconditions.check(queue.session.transaction());
        let released =
            identity.delete_claim(checked.check_version(&identity.item, identity.version));
        let Err(mut error) = released.commit().await else {
            return Ok(());
        };
        if let ErrorKind::NoNode | ErrorKind::BadVersion = error.kind() {
            match error.failed_part().map(|part| part.cmp(&checks)) {
                Some(Ordering::Less) => {
                    if error.failed_part() == Some(0) {
                        // Otherwise it would be used again for ever.
                        queue.tokens.forget_fence(&identity.preconditions.fence);
                    }
                    match identity.refresh(queue, queue.deadline()).await {
                        Ok(true) => {
                            attempts += 1;
                            Deadline::never().pause(attempts).await;
                            continue;
                        }
                        Ok(false) => {
                            delete_claim_node(queue, &identity).await;
                            return Ok(());
                        }
                        Err(lost) => error = lost,
                    }
                }
                // The item is gone, or another consumer has claimed it.
                Some(Ordering::Equal) => {
                    delete_claim_node(queue, &identity).await;
                    return Ok(());
                }
                // The claim is gone, or another client's.
                _ => return Ok(()),
            }
        }
        if error.class() != ErrorClass::Recoverable {
            return Err(error);
        }
        attempts += 1;
        Deadline::never().pause(attempts).await;
    }
}

/// Deletes the node of our claim on an item that is gone or another's; otherwise it would last as long as the session.
///
/// Like [`release`], it is repeated until there is a reply or the session ends.
async fn delete_claim_node(queue: &QueueContext, identity: &ClaimIdentity) {
    let Some(claim_czxid) = identity.claim_czxid else {
        return;
    };
    let mut attempts = 0;
    loop {
        match queue
            .session
            .delete(&identity.claim)
            .created_by(claim_czxid)
            .await
        {
            Err(error) if error.class() == ErrorClass::Recoverable => {
                attempts += 1;
                Deadline::never().pause(attempts).await;
            }
            Err(error) if !error.is_no_node() && !error.is_fatal() => {
                tracing::warn!(claim = %identity.claim, %error, "the claim of an item that is gone was not deleted");
                return;
            }
            _ => return,
        }
    }
}

/// Returns how often an item with this name and version has been delivered.
pub(super) fn delivery_count(key: &ItemKey, version: i32) -> u32 {
    key.deliveries
        .saturating_add(u32::try_from(version).unwrap_or(u32::MAX))
}

/// Returns after what time a claim is checked again.
///
/// It is never longer than [`Claim::lost`](super::Claim::lost) documents, and differs for claims that were made
/// together.
fn check_interval(sequence: Sequence, open_claims: usize) -> Duration {
    let open_claims = u32::try_from(open_claims).unwrap_or(u32::MAX);
    let longest = CHECK_INTERVAL.max(CHECK_INTERVAL_PER_CLAIM.saturating_mul(open_claims));
    let part = u32::try_from(sequence.number().rem_euclid(64)).unwrap_or(0);
    longest / 128 * (64 + part)
}

/// The longest interval between two checks,
const CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// and for each claim of this process, if that is longer.
const CHECK_INTERVAL_PER_CLAIM: Duration = Duration::from_millis(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_are_checked_in_time_and_not_all_at_once() {
        for (open_claims, longest) in [(0, 5_000), (1, 5_000), (1_000, 5_000), (5_000, 25_000)] {
            let longest = Duration::from_millis(longest);
            let all: Vec<_> = (-64..64)
                .map(|number| check_interval(Sequence::new(number), open_claims))
                .collect();
            assert!(
                all.iter()
                    .all(|after| (longest / 2..=longest).contains(after)),
                "{all:?}"
            );
            let different: std::collections::BTreeSet<_> = all.iter().collect();
            assert_eq!(different.len(), 64);
        }
    }
}
