//! A claim on the ensemble: the node of it, and the ways it ends.
//!
//! The version of an item counts its deliveries, since claiming it writes it: whoever settles a claim does so under the
//! version that the claim made, so that a claim of somebody else, made after ours was lost, is never taken for ours.

use std::sync::Arc;
use std::time::Duration;

use zk_core::Changed;
use zk_core::Error;
use zk_core::ErrorClass;
use zk_core::ErrorKind;
use zk_core::NodePath;
use zk_core::Stat;
use zk_core::Transaction;
use zk_core::Trusted;

use super::Bench;
use super::Loss;
use crate::deadline::Deadline;
use crate::detached::Detached;
use crate::error::SettleError;
use crate::layout::Slot;
use crate::line::Line;
use crate::line::Pick;
use crate::line::claim_name;
use crate::place::below;
use crate::receipt::Answer;
use crate::receipt::Failure;
use crate::shelf::Spot;

/// A claim that is ours. Dropped, it is released in the background.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) line: Arc<Line>,
    pub(super) bench: Arc<Bench>,
    pub(super) grip: Grip,
    pub(super) spot: Spot,
    pub(super) data: Vec<u8>,
    pub(super) czxid: i64,
    pub(super) deliveries: u32,
    trusted: Trusted,
    is_settled: bool,
}

/// What tells that a claim is still the one it was.
#[derive(Debug, Clone)]
pub(super) struct Grip {
    pub(super) item: NodePath,
    pub(super) claim: NodePath,
    /// The version that claiming gave the item.
    pub(super) version: i32,
    /// The transaction that made the claim, unless its answer was lost.
    made_by: Option<i64>,
}

/// How an item leaves its place.
pub(super) type Changes = Box<dyn Fn(Transaction) -> Transaction + Send + Sync>;

impl Held {
    /// Claims an item that was read; `None` when it is claimed already, or gone.
    pub(super) fn claim(
        line: &Arc<Line>,
        bench: &Arc<Bench>,
        pick: Pick,
        deadline: Deadline,
    ) -> Detached<Result<Option<Self>, Error>> {
        let (line, bench) = (Arc::clone(line), Arc::clone(bench));
        let session = line.session.clone();
        Detached::new(
            &session,
            async move { Self::claim_now(line, bench, pick, deadline).await },
            async |claimed| drop(claimed),
        )
    }

    async fn claim_now(
        line: Arc<Line>,
        bench: Arc<Bench>,
        pick: Pick,
        deadline: Deadline,
    ) -> Result<Option<Self>, Error> {
        let claim = below(
            &bench.claims,
            &claim_name(pick.hand.segment, &pick.hand.name),
        );
        let owner = bench.options.owner();
        // Kept fresh from before the claim on, so that a claim that is in doubt at first is seen to be.
        let trusted = line.session.keep_trusted();
        let mut rounds = 0;
        loop {
            rounds += 1;
            let answer = line.receipts.confirm(deadline, |transaction| {
                claimed(transaction, &claim, &owner, &pick)
            });
            let answer = match answer.await {
                Ok(answer) => answer,
                Err(failure) => {
                    let error = failure.error.clone();
                    if error.kind() == ErrorKind::TooLarge {
                        pick.hand.shun("it is too large to be claimed");
                        return Ok(None);
                    }
                    if failure.is_in_doubt && !error.is_fatal() {
                        abandon(&line, claim, owner, pick, failure);
                    }
                    return Err(error);
                }
            };
            match answer {
                Answer::Done(changed) => {
                    let spot = Spot::clone(&pick.hand);
                    pick.hand.done();
                    let version = pick.version.wrapping_add(1);
                    return Ok(Some(Self {
                        line,
                        bench,
                        deliveries: deliveries_of(&spot.slot, version),
                        spot,
                        grip: Grip {
                            item: pick.path,
                            claim,
                            version,
                            made_by: changed.iter().flatten().find_map(made_by),
                        },
                        data: pick.data,
                        czxid: pick.czxid,
                        trusted,
                        is_settled: false,
                    }));
                }
                Answer::Refused { part: 0, error }
                    if error.is_no_node() && rounds < MOST_ROUNDS =>
                {
                    make_container(&line, &bench.claims, deadline).await?;
                }
                Answer::Refused { part, error } => {
                    return match error.kind() {
                        ErrorKind::NodeExists | ErrorKind::NoNode | ErrorKind::BadVersion => {
                            pick.hand.done();
                            Ok(None)
                        }
                        // The item's own node refuses to be written.
                        _ if part == 1 && error.class() == ErrorClass::Outcome => {
                            pick.hand.shun(&format!("it cannot be claimed: {error}"));
                            Ok(None)
                        }
                        _ => Err(error),
                    };
                }
            }
        }
    }

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
        let deleted = async {
            let mut attempts = 0;
            loop {
                match self.line.session.exists(&self.grip.claim).watched().await {
                    Ok((None, _)) => break,
                    // It was deleted, and somebody else has made one since.
                    Ok((Some(stat), _)) if !self.is_ours(&stat) => break,
                    Ok((Some(_), mut watch)) => {
                        attempts = 0;
                        watch.changed().await;
                    }
                    Err(error) if error.is_fatal() => std::future::pending().await,
                    Err(_) => {
                        attempts += 1;
                        Deadline::after(Duration::MAX).pause(attempts).await;
                    }
                }
            }
        };
        tokio::select! {
            biased;
            () = self.line.session.lost() => Loss::SessionLost,
            () = self.trusted.lapsed() => Loss::TrustLapsed,
            () = deleted => Loss::ClaimDeleted,
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
    async fn settle_now(
        mut self,
        changes: Changes,
        makes: Option<NodePath>,
    ) -> Result<(), SettleError> {
        let deadline = self.line.deadline();
        let mut rounds = 0;
        loop {
            rounds += 1;
            let answer = self.line.receipts.confirm(deadline, |transaction| {
                changes(
                    transaction
                        .delete(&self.grip.claim)
                        .delete_version(&self.grip.item, self.grip.version),
                )
            });
            match answer.await? {
                Answer::Done(_) => {
                    self.is_settled = true;
                    return Ok(());
                }
                Answer::Refused { part: 0 | 1, error } => {
                    return match error.kind() {
                        ErrorKind::NoNode | ErrorKind::BadVersion => {
                            self.is_settled = true;
                            let (line, grip) = (Arc::clone(&self.line), self.grip.clone());
                            let session = line.session.clone();
                            session.finish(async move { withdraw(&line, &grip).await });
                            Err(SettleError::Lost {
                                path: self.grip.item.clone(),
                            })
                        }
                        kind => {
                            if kind == ErrorKind::NotEmpty {
                                self.line.shun(&self.spot, "it has children");
                            }
                            Err(SettleError::Core(error))
                        }
                    };
                }
                Answer::Refused { error, .. } => match &makes {
                    Some(path) if error.is_no_node() && rounds < MOST_ROUNDS => {
                        let made = make_container(&self.line, path, deadline).await;
                        made.map_err(SettleError::Core)?;
                    }
                    _ => return Err(SettleError::Refused(error)),
                },
            }
        }
    }

    /// Takes the claim away and leaves the item where it is. Dropped, it goes on.
    pub(super) fn release(mut self) -> Detached<Result<(), SettleError>> {
        self.is_settled = true;
        let (line, grip) = (Arc::clone(&self.line), self.grip.clone());
        let session = line.session.clone();
        Detached::new(
            &session,
            async move { release(&line, &grip).await.map_err(SettleError::Core) },
            async |_| {},
        )
    }
}

impl Grip {
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
            session.finish(async move { drop(release(&line, &grip).await) });
        }
    }
}

/// Claims an item as parts of a transaction.
fn claimed(transaction: Transaction, claim: &NodePath, owner: &str, pick: &Pick) -> Transaction {
    transaction.create_ephemeral(claim, owner).set_version(
        &pick.path,
        pick.data.clone(),
        pick.version,
    )
}

/// Releases, in the background, a claim of which nobody knows whether it was made: it would last as long as the session.
fn abandon(line: &Arc<Line>, claim: NodePath, owner: String, pick: Pick, failure: Failure) {
    let line = Arc::clone(line);
    let session = line.session.clone();
    session.finish(async move {
        let found = line.receipts.find_out(failure, |transaction| {
            claimed(transaction, &claim, &owner, &pick)
        });
        let found = found.await;
        if let Some(Answer::Refused { .. }) = found {
            return;
        }
        let grip = Grip {
            item: pick.path.clone(),
            claim,
            version: pick.version.wrapping_add(1),
            made_by: match found {
                Some(Answer::Done(changed)) => changed.iter().flatten().find_map(made_by),
                _ => None,
            },
        };
        if let Err(error) = release(&line, &grip).await {
            tracing::error!(item = %grip.item, %error, "a claim that nobody has may be left");
        }
    });
}

/// Takes a claim away unless it is somebody else's. Applied twice it does no harm, and it is repeated until there is an
/// answer.
async fn release(line: &Line, grip: &Grip) -> Result<(), Error> {
    let mut attempts = 0;
    loop {
        let checked = line.session.transaction();
        let released = checked
            .check_version(&grip.item, grip.version)
            .delete(&grip.claim);
        let Err(error) = released.commit().await else {
            return Ok(());
        };
        match error.kind() {
            // The item is gone, or is somebody else's.
            ErrorKind::NoNode | ErrorKind::BadVersion if error.failed_part() == Some(0) => {
                withdraw(line, grip).await;
                return Ok(());
            }
            ErrorKind::NoNode => return Ok(()),
            _ if error.class() == ErrorClass::Recoverable => {
                attempts += 1;
                line.deadline().pause(attempts).await;
            }
            _ => return Err(error),
        }
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
fn made_by(changed: &Changed) -> Option<i64> {
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

const MOST_ROUNDS: u32 = 16;
