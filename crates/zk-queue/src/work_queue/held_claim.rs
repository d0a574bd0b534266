//! A claim on the ensemble: the node of it, and the ways it ends.
//!
//! The version of an item counts its deliveries, since claiming it writes it: whoever settles a claim does so under the
//! version that the claim made, so that a claim of somebody else, made after ours was lost, is never taken for ours.

use std::cmp::Ordering;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;
use zk_core::Changed;
use zk_core::Error;
use zk_core::ErrorClass;
use zk_core::ErrorKind;
use zk_core::NodePath;
use zk_core::Sequence;
use zk_core::Stat;
use zk_core::Transaction;
use zk_core::Trusted;

use super::Bench;
use super::Loss;
use crate::deadline::Deadline;
use crate::detached::Detached;
use crate::error::SettleError;
use crate::idempotency::Answer;
use crate::idempotency::lock;
use crate::layout::Slot;
use crate::preconditions::Ground;
use crate::ready_items::Spot;
use crate::store::Line;

/// A claim that is ours. Dropped, it is released in the background.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) line: Arc<Line>,
    pub(super) bench: Arc<Bench>,
    pub(super) grip: Grip,
    pub(super) spot: Spot,
    pub(super) data: Vec<u8>,
    pub(super) deliveries: u32,
    pub(super) trusted: Trusted,
    pub(super) is_settled: bool,
    /// When the claim was seen to be there last.
    pub(super) looked: Mutex<Instant>,
    /// Counts the claims that the queue has in this process.
    pub(super) in_hand: Arc<()>,
}

/// What tells that a claim is still the one it was.
#[derive(Debug, Clone)]
pub(super) struct Grip {
    pub(super) item: NodePath,
    pub(super) claim: NodePath,
    /// The version that claiming gave the item.
    pub(super) version: i32,
    /// The transaction that made the item.
    pub(super) czxid: i64,
    /// What it was claimed on.
    pub(super) ground: Arc<Ground>,
    /// The transaction that made the claim, unless its answer was lost.
    pub(super) made_by: Option<i64>,
}

/// How an item leaves its place.
pub(super) type Changes = Box<dyn Fn(Transaction) -> Transaction + Send + Sync>;

impl Held {
    pub(super) fn is_trusted(&self) -> bool {
        self.trusted.is_trusted()
    }

    fn is_ours(&self, claim: &Stat) -> bool {
        let is_same = self
            .grip
            .made_by
            .is_none_or(|made_by| made_by == claim.czxid);
        is_same && claim.ephemeral_owner == Some(self.line.session.id())
    }

    /// Waits until the claim can no longer be relied on.
    pub(super) async fn lost(&self) -> Loss {
        tokio::select! {
            biased;
            _ = self.line.session.lost() => Loss::SessionLost,
            () = self.trusted.lapsed() => Loss::TrustLapsed,
            () = self.deleted() => Loss::ClaimDeleted,
        }
    }

    /// Waits until the node of the claim is gone, or is somebody else's, by a look from time to time.
    ///
    /// Only somebody who deletes the nodes of others makes it go: a watch on each would be used up by some thousand items
    /// that are processed at once, and a watch on their parent fires for every item of all consumers.
    async fn deleted(&self) {
        loop {
            let next = {
                let looked = *lock(&self.looked);
                looked + look_after(self.spot.slot.sequence, Arc::strong_count(&self.in_hand))
            };
            Deadline::at(next).bound(std::future::pending::<()>()).await;
            match self.line.session.exists(&self.grip.claim).await {
                Ok(Some(stat)) if self.is_ours(&stat) => {}
                Ok(_) => return,
                Err(error) if error.is_fatal() => std::future::pending().await,
                // The next look tells.
                Err(_) => {}
            }
            *lock(&self.looked) = Instant::now();
        }
    }

    /// Ends the claim: the item leaves its place, and other changes are made with it. Dropped, it goes on.
    pub(super) fn settle(
        self,
        changes: Changes,
        makes: Option<NodePath>,
    ) -> Detached<Result<(), SettleError>> {
        let session = self.line.session.clone();
        Detached::new(
            &session,
            async move { self.settle_now(changes, makes).await },
            async |_| {},
        )
    }

    /// `makes` is a container that one of the changes puts a node into.
    ///
    /// It goes on for as long as the claim may be good, whatever the time of one operation is: an item that is done would
    /// be done again otherwise. The end of the session ends it.
    async fn settle_now(
        mut self,
        changes: Changes,
        makes: Option<NodePath>,
    ) -> Result<(), SettleError> {
        let (mut rounds, mut attempts) = (0, 0);
        loop {
            match self
                .try_to_settle(&changes, makes.as_ref(), &mut rounds)
                .await
            {
                Ok(true) => {
                    self.is_settled = true;
                    return Ok(());
                }
                Ok(false) => {}
                Err(SettleError::Core(error)) if error.class() == ErrorClass::Recoverable => {
                    tracing::debug!(path = %self.grip.item, %error, "settling a claim again");
                }
                Err(error) => return Err(error),
            }
            attempts += 1;
            Deadline::after(Duration::MAX).pause(attempts).await;
        }
    }

    /// Tells whether it is done; if not, what was in the way is out of it.
    async fn try_to_settle(
        &mut self,
        changes: &Changes,
        makes: Option<&NodePath>,
        rounds: &mut u32,
    ) -> Result<bool, SettleError> {
        let ground = &self.grip.ground;
        let answer =
            self.line
                .receipts
                .confirm_on(ground, Deadline::after(Duration::MAX), |transaction| {
                    changes(
                        transaction
                            .delete(&self.grip.claim)
                            .delete_version(&self.grip.item, self.grip.version),
                    )
                });
        let Some(answer) = answer.await? else {
            let deadline = self.line.deadline();
            let is_there = self.grip.find_again(&self.line, deadline).await;
            if !is_there.map_err(SettleError::Core)? {
                return Err(self.is_lost());
            }
            return Ok(false);
        };
        match answer {
            Answer::Done(_) => Ok(true),
            Answer::Refused { part: 0 | 1, error } => match error.kind() {
                ErrorKind::NoNode | ErrorKind::BadVersion => Err(self.is_lost()),
                kind => {
                    if kind == ErrorKind::NotEmpty {
                        self.line.shun(&self.spot, "it has children");
                    }
                    Err(SettleError::Core(error))
                }
            },
            Answer::Refused { error, .. } => match makes {
                Some(path) if error.is_no_node() && *rounds < MOST_ROUNDS => {
                    *rounds += 1;
                    let made = make_container(&self.line, path, self.line.deadline()).await;
                    made.map_err(SettleError::Core)?;
                    Ok(false)
                }
                _ => Err(SettleError::Refused(error)),
            },
        }
    }

    /// What is left of a claim that is not ours any more goes in the background.
    fn is_lost(&mut self) -> SettleError {
        self.is_settled = true;
        let (line, grip) = (Arc::clone(&self.line), self.grip.clone());
        let session = line.session.clone();
        session.finish(async move { withdraw(&line, &grip).await });
        SettleError::Lost {
            path: self.grip.item.clone(),
        }
    }

    /// Takes the claim away and leaves the item where it is. Dropped, it goes on.
    pub(super) fn release(mut self) -> Detached<Result<(), SettleError>> {
        self.is_settled = true;
        let (line, grip) = (Arc::clone(&self.line), self.grip.clone());
        let session = line.session.clone();
        Detached::new(
            &session,
            async move { release(&line, grip).await.map_err(SettleError::Core) },
            async |_| {},
        )
    }
}

impl Grip {
    /// Goes on on the ground as it is now: offers go to another segment since, or all was deleted and made anew, which is
    /// when the item is not there any more.
    async fn find_again(&mut self, line: &Line, deadline: Deadline) -> Result<bool, Error> {
        let new = line.ground_of(&self.item, self.czxid, deadline);
        let Some(ground) = new.await? else {
            return Ok(false);
        };
        self.ground = ground;
        Ok(true)
    }

    /// Lets a transaction fail unless the claim is still ours.
    pub(super) fn checked(&self, transaction: Transaction) -> Transaction {
        transaction
            .check(&self.claim)
            .check_version(&self.item, self.version)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if !self.is_settled {
            let (line, grip) = (Arc::clone(&self.line), self.grip.clone());
            let session = line.session.clone();
            session.finish(async move { drop(release(&line, grip).await) });
        }
    }
}

/// Takes a claim away unless it is somebody else's. Applied twice it does no harm, and it is repeated until there is an
/// answer.
pub(super) async fn release(line: &Line, mut grip: Grip) -> Result<(), Error> {
    let mut attempts = 0;
    loop {
        let (checked, checks) = grip.ground.under(line.session.transaction(), None);
        let released = checked
            .check_version(&grip.item, grip.version)
            .delete(&grip.claim);
        let Err(error) = released.commit().await else {
            return Ok(());
        };
        let mut error = error;
        if let ErrorKind::NoNode | ErrorKind::BadVersion = error.kind() {
            match error.failed_part().map(|part| part.cmp(&checks)) {
                Some(Ordering::Less) => {
                    if error.failed_part() == Some(0) {
                        // It would be found again for ever.
                        line.receipts.forget_anchor(&grip.ground.anchor);
                    }
                    match grip.find_again(line, line.deadline()).await {
                        Ok(true) => {
                            attempts += 1;
                            line.deadline().pause(attempts).await;
                            continue;
                        }
                        Ok(false) => {
                            withdraw(line, &grip).await;
                            return Ok(());
                        }
                        Err(lost) => error = lost,
                    }
                }
                // The item is gone, or is somebody else's.
                Some(Ordering::Equal) => {
                    withdraw(line, &grip).await;
                    return Ok(());
                }
                // The claim is gone.
                _ => return Ok(()),
            }
        }
        if error.class() != ErrorClass::Recoverable {
            return Err(error);
        }
        attempts += 1;
        line.deadline().pause(attempts).await;
    }
}

/// Takes our claim of an item away that is no longer the one we claimed; it would last as long as the session.
async fn withdraw(line: &Line, grip: &Grip) {
    let Some(made_by) = grip.made_by else {
        return;
    };
    let mut attempts = 0;
    loop {
        match line.session.delete(&grip.claim).created_by(made_by).await {
            Err(error) if error.class() == ErrorClass::Recoverable => {
                attempts += 1;
                line.deadline().pause(attempts).await;
            }
            Err(error) if !error.is_no_node() && !error.is_fatal() => {
                tracing::warn!(claim = %grip.claim, %error, "a claim of an item that is gone is left");
                return;
            }
            _ => return,
        }
    }
}

/// The transaction that claimed an item, which every server tells with the item that was written.
pub(super) fn made_by(changed: &Changed) -> Option<i64> {
    match changed {
        Changed::Set(stat) => Some(stat.mzxid),
        _ => None,
    }
}

/// Makes a node for others below; that it is there is all that counts.
pub(super) async fn make_container(
    line: &Line,
    path: &NodePath,
    deadline: Deadline,
) -> Result<(), Error> {
    let create = line
        .session
        .create(path, "")
        .container()
        .container_parents();
    let made = create.timeout(deadline.remaining()).await;
    let made = match made {
        Err(error) if error.kind() == ErrorKind::Unsupported => {
            let plain = line.session.create(path, "").parents();
            plain.timeout(deadline.remaining()).await
        }
        made => made,
    };
    match made {
        Err(error) if error.is_node_exists() => Ok(()),
        // It is looked for again.
        Err(error) if error.is_outcome_unknown() && !error.is_fatal() => Ok(()),
        other => other.map(|_| ()),
    }
}

/// How often an item has been delivered that has this version under this name.
pub(super) fn deliveries_of(slot: &Slot, version: i32) -> u32 {
    slot.deliveries
        .saturating_add(u32::try_from(version).unwrap_or(u32::MAX))
}

/// How long after the last look a claim is looked at again, with so many in hand.
///
/// Never later than it is documented at [`Claim::lost`](super::Claim::lost), and at different times for those that were
/// claimed together.
fn look_after(sequence: Sequence, in_hand: usize) -> Duration {
    let in_hand = u32::try_from(in_hand).unwrap_or(u32::MAX);
    let longest = LOOK_AGAIN.max(LOOK_SHARE.saturating_mul(in_hand));
    let part = u32::try_from(sequence.number().rem_euclid(64)).unwrap_or(0);
    longest / 128 * (64 + part)
}

pub(super) const MOST_ROUNDS: u32 = 16;
/// How long the loss of a claim stays unseen whose node somebody deleted,
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// or how long for each claim in hand if that is longer.
const LOOK_SHARE: Duration = Duration::from_millis(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_are_looked_at_in_time_and_not_all_at_once() {
        for (in_hand, longest) in [(0, 5_000), (1, 5_000), (1_000, 5_000), (5_000, 25_000)] {
            let longest = Duration::from_millis(longest);
            let all: Vec<_> = (-64..64)
                .map(|number| look_after(Sequence::new(number), in_hand))
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
