//! Creates claims: one transaction creates the claims' nodes, and writes the items that they are for.
//!
//! Where other clients claim items, too, the claim's node is written once more; see
//! `Layout::claim_version`.
//!
//! An item is written with the data that it has, because the version of its node counts its deliveries, and servers
//! advance the version of a node only together with its data.

use std::sync::{Arc, Mutex};

use tokio::time::Instant;
use zk_core::{
    CommitError, Committed, Error, ErrorClass, ErrorKind, MultiResult, SessionLease, Transaction,
};

use super::WorkContext;
use super::held_claim::{ClaimIdentity, HeldClaim, delivery_count, release};
use super::time_to_run::TimeToRun;
use crate::deadline::Deadline;
use crate::detached::Detached;
use crate::layout::Layout;
use crate::measure::{self, DeliveryTime};
use crate::preconditions::Preconditions;
use crate::ready_items::ListedItem;
use crate::store::{Batch, BatchFailure, Candidate, ItemChange, ItemStore, Refusal};

/// Claims items: creates the node of each claim, and writes the item with the data that it has.
struct NewClaims {
    store: Arc<ItemStore>,
    context: Arc<WorkContext>,
    owner: String,
}

impl ItemChange for NewClaims {
    /// The first part creates the claim, the second one writes the item, and the third one, if any, the claim.
    fn parts(&self) -> usize {
        if self.layout().claim_version().is_some() {
            3
        } else {
            2
        }
    }

    fn add_to(&self, transaction: Transaction, candidates: &[Candidate]) -> Transaction {
        let layout = self.layout();
        candidates
            .iter()
            .fold(transaction, |transaction, candidate| {
                let claim = self.context.claim_path(&candidate.in_flight);
                let Candidate { path, item, .. } = candidate;
                let claimed = transaction
                    .create_ephemeral(&claim, self.owner.as_str())
                    .set_version(path, layout.frame(item.data.clone()), item.version);
                match layout.claim_version() {
                    Some(_) => claimed.set(claim, self.owner.as_str()),
                    None => claimed,
                }
            })
    }

    fn judge(&self, part: usize, error: &Error) -> Refusal<'_> {
        match error.kind() {
            ErrorKind::TooLarge => Refusal::Quarantine("it is too large to be claimed".to_owned()),
            ErrorKind::NoNode if part == 0 => Refusal::CreateParent(&self.context.paths.claims),
            ErrorKind::NodeExists | ErrorKind::NoNode | ErrorKind::BadVersion => Refusal::Forget,
            // The servers refuse to write this item's node.
            _ if part == 1 && error.class() == ErrorClass::Outcome => {
                Refusal::Quarantine(format!("it cannot be claimed: {error}"))
            }
            _ => Refusal::GiveUp,
        }
    }
}

impl HeldClaim {
    /// Claims items in one transaction, and returns the claims in the order of the items.
    ///
    /// Items that are gone or claimed already are left out, and the last items if the request would be too large.
    pub(super) fn claim(
        store: &Arc<ItemStore>,
        context: &Arc<WorkContext>,
        candidates: Vec<Candidate>,
        deadline: Deadline,
    ) -> Detached<Result<Vec<Self>, Error>> {
        let new_claims = NewClaims {
            store: Arc::clone(store),
            context: Arc::clone(context),
            owner: context.options.owner(),
        };
        Detached::new(
            &store.context.session,
            async move { new_claims.create(candidates, deadline).await },
            async |claimed| drop(claimed),
        )
    }
}

impl NewClaims {
    fn layout(&self) -> Layout {
        self.store.context.options.layout
    }

    async fn create(
        self,
        candidates: Vec<Candidate>,
        deadline: Deadline,
    ) -> Result<Vec<HeldClaim>, Error> {
        let items = &self.store.items;
        let size =
            |candidate: &Candidate| claim_request_size(self.layout(), candidate, &self.owner);
        let Some(batch) = items.batch(candidates, size) else {
            return Ok(Vec::new());
        };
        let session = &self.store.context.session;
        // The proofs begin before the claims, so that they cover a claim whose transaction is in doubt at first.
        let session_leases: Vec<_> = batch
            .candidates
            .iter()
            .map(|_| session.keep_lease())
            .collect();
        let (batch, committed) = match items.commit(batch, &self, deadline).await {
            Ok(Some(claimed)) => claimed,
            Ok(None) => return Ok(Vec::new()),
            Err(BatchFailure::NotChanged(error)) => return Err(error),
            Err(BatchFailure::InDoubt(batch, failure)) => {
                let error = failure.error.clone();
                if !error.is_fatal() {
                    self.release_in_doubt(batch, failure);
                }
                return Err(error);
            }
        };
        let claim_czxid = commit_zxid(&committed);
        self.measure_ages(&batch.candidates, &committed);
        // After a pause, proving that the session is alive takes a while. Without the proof each claim would be lost at
        // once. If there is no proof, each claim reports that itself.
        if let Some(first) = session_leases.first() {
            let proved = first.renewed(session.session_timeout()).await;
            proved.unwrap_or_else(|error| tracing::debug!(%error, "the new claims are not valid"));
        }
        let pairs = batch.candidates.into_iter().zip(session_leases);
        let held = pairs.map(|(candidate, session_lease)| {
            let identity = self.identity(&candidate, &batch.preconditions, claim_czxid);
            self.held(candidate, identity, session_lease)
        });
        Ok(held.collect())
    }

    /// Records how old the items are; nothing if the results of the transaction were lost.
    fn measure_ages(&self, candidates: &[Candidate], committed: &Committed) {
        let written = committed.results().iter().filter_map(|part| match part {
            MultiResult::Set(stat) => Some(stat),
            _ => None,
        });
        // Each item is written, and its claim after it if that is written, too.
        for (stat, candidate) in written.step_by(self.parts() - 1).zip(candidates) {
            measure::claimed(stat, candidate.in_flight.key.due);
        }
    }

    fn identity(
        &self,
        candidate: &Candidate,
        preconditions: &Arc<Preconditions>,
        claim_czxid: Option<i64>,
    ) -> ClaimIdentity {
        ClaimIdentity {
            item: candidate.path.clone(),
            claim: self.context.claim_path(&candidate.in_flight),
            version: candidate.item.version.wrapping_add(1),
            item_czxid: candidate.item.czxid,
            preconditions: Arc::clone(preconditions),
            claim_version: self.layout().claim_version(),
            claim_czxid,
        }
    }

    fn held(
        &self,
        candidate: Candidate,
        identity: ClaimIdentity,
        session_lease: SessionLease,
    ) -> HeldClaim {
        let listed = ListedItem::clone(&candidate.in_flight);
        candidate.in_flight.complete();
        let limit = self.context.options.time_to_run;
        let held = HeldClaim {
            queue: Arc::clone(&self.store.context),
            inventory: Arc::clone(&self.store.inventory),
            context: Arc::clone(&self.context),
            deliveries: delivery_count(&listed.key, identity.version),
            listed,
            identity,
            data: candidate.item.data,
            session_lease,
            time_to_run: limit.map(TimeToRun::begin),
            is_settled: false,
            time: DeliveryTime::start(),
            last_checked: Mutex::new(Instant::now()),
            open_claims: Arc::clone(&self.context.open_claims),
        };
        held.limit_time_to_run();
        held
    }

    /// Releases claims in the background whose creation is in doubt: otherwise they might last as long as the session.
    fn release_in_doubt(self, batch: Batch, failure: CommitError) {
        let session = self.store.context.session.clone();
        session.finish(async move {
            let Batch {
                candidates,
                preconditions,
            } = batch;
            let claim_czxid = match failure.resolve().await {
                Ok(committed) => commit_zxid(&committed),
                Err(error) if error.is_outcome_unknown() => None,
                Err(_) => return,
            };
            for candidate in candidates {
                let identity = self.identity(&candidate, &preconditions, claim_czxid);
                if let Err(error) = release(&self.store.context, identity).await {
                    tracing::error!(item = %candidate.path, %error, "a claim that no consumer holds may remain");
                }
            }
        });
    }
}

/// Returns how many bytes claiming an item adds to a request; all paths contain its name.
pub(super) fn claim_request_size(layout: Layout, candidate: &Candidate, owner: &str) -> usize {
    let claim = candidate.path.as_str().len() + owner.len();
    let claims = if layout.claim_version().is_some() {
        2
    } else {
        1
    };
    candidate.path.as_str().len() + claims * claim + candidate.item.data.len()
}

/// Returns the zxid of the transaction that claimed items: servers report it as the `mzxid` of a written item.
fn commit_zxid(committed: &Committed) -> Option<i64> {
    committed.results().iter().find_map(|part| match part {
        MultiResult::Set(stat) => Some(stat.mzxid),
        _ => None,
    })
}
