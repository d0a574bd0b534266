//! Creates claims: one transaction creates the claims' nodes, and writes the items that they are for.

use std::sync::Arc;
use std::sync::Mutex;

use tokio::time::Instant;
use zk_core::Error;
use zk_core::ErrorClass;
use zk_core::ErrorKind;
use zk_core::NodePath;
use zk_core::SessionLease;
use zk_core::Transaction;

use super::MAX_PARENT_ROUNDS;
use super::WorkContext;
use super::held_claim::ClaimIdentity;
use super::held_claim::HeldClaim;
use super::held_claim::commit_zxid;
use super::held_claim::delivery_count;
use super::held_claim::release;
use crate::batch_limits::contended_count;
use crate::batch_limits::fitting_count;
use crate::deadline::Deadline;
use crate::detached::Detached;
use crate::idempotency::CommitFailure;
use crate::idempotency::ConditionalOutcome;
use crate::idempotency::Resolution;
use crate::paths::child;
use crate::paths::claim_name;
use crate::preconditions::Preconditions;
use crate::ready_items::ListedItem;
use crate::store::Candidate;
use crate::store::ItemStore;

/// An item that was read, and the path of its claim.
struct ClaimRequest {
    candidate: Candidate,
    claim: NodePath,
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
        let (store, context) = (Arc::clone(store), Arc::clone(context));
        let session = store.context.session.clone();
        Detached::new(
            &session,
            async move { Self::claim_now(store, context, candidates, deadline).await },
            async |claimed| drop(claimed),
        )
    }

    async fn claim_now(
        store: Arc<ItemStore>,
        context: Arc<WorkContext>,
        mut candidates: Vec<Candidate>,
        deadline: Deadline,
    ) -> Result<Vec<Self>, Error> {
        let Some(mut preconditions) = store.retain_of_one_epoch(&mut candidates) else {
            return Ok(Vec::new());
        };
        let owner = context.options.owner();
        let sizes = candidates
            .iter()
            .map(|candidate| claim_request_size(candidate, &owner));
        let rest = candidates.split_off(fitting_count(sizes));
        store.keep_prefetched(rest);
        let mut requests: Vec<_> = candidates
            .into_iter()
            .map(|candidate| context.claim_request(candidate))
            .collect();
        // The proofs begin before the claims, so that they cover a claim whose transaction is in doubt at first.
        let session_leases: Vec<_> = requests
            .iter()
            .map(|_| store.context.session.keep_lease())
            .collect();
        let (mut parent_rounds, mut refusals, mut was_refreshed) = (0, 0, false);
        while !requests.is_empty() {
            let outcome =
                store
                    .context
                    .tokens
                    .commit_once_if(&preconditions, deadline, |transaction| {
                        add_claims(transaction, &owner, &requests)
                    });
            let outcome = match outcome.await {
                Ok(outcome) => outcome,
                Err(failure) => {
                    let error = failure.error.clone();
                    if error.kind() == ErrorKind::TooLarge {
                        let rest = requests.split_off(requests.len() / 2);
                        let mut rest = rest.into_iter().map(|request| request.candidate);
                        if !requests.is_empty() {
                            store.keep_prefetched(rest.collect());
                            continue;
                        }
                        if let Some(candidate) = rest.next() {
                            candidate
                                .in_flight
                                .quarantine("it is too large to be claimed");
                        }
                        break;
                    }
                    if failure.is_in_doubt && !error.is_fatal() {
                        release_in_doubt(&store, owner, requests, preconditions, failure);
                    }
                    return Err(error);
                }
            };
            match outcome {
                ConditionalOutcome::Committed(changed) => {
                    let claim_czxid = changed.iter().flatten().find_map(commit_zxid);
                    // After a pause, proving that the session is alive takes a while. Without the proof each claim
                    // would be lost at once. If there is no proof, each claim reports that itself.
                    if let Some(first) = session_leases.first() {
                        let proved = first.renewed(store.context.session.session_timeout()).await;
                        proved.unwrap_or_else(
                            |error| tracing::debug!(%error, "the new claims are not valid"),
                        );
                    }
                    let pairs = requests.into_iter().zip(session_leases);
                    let held = pairs.map(|(request, session_lease)| {
                        Self::of(
                            &store,
                            &context,
                            &preconditions,
                            request,
                            claim_czxid,
                            session_lease,
                        )
                    });
                    return Ok(held.collect());
                }
                ConditionalOutcome::Refused { part, error }
                    if part.is_multiple_of(2)
                        && error.is_no_node()
                        && parent_rounds < MAX_PARENT_ROUNDS =>
                {
                    parent_rounds += 1;
                    store
                        .context
                        .create_container(&context.claims, deadline)
                        .await?;
                }
                ConditionalOutcome::Refused { part, error } => {
                    let others = requests.split_off(part / 2 + 1);
                    match (error.kind(), requests.pop()) {
                        (_, None) => {}
                        (
                            ErrorKind::NodeExists | ErrorKind::NoNode | ErrorKind::BadVersion,
                            Some(ClaimRequest { candidate, .. }),
                        ) => candidate.in_flight.complete(),
                        // The servers refuse to write this item's node.
                        (_, Some(ClaimRequest { candidate, .. }))
                            if !part.is_multiple_of(2) && error.class() == ErrorClass::Outcome =>
                        {
                            candidate
                                .in_flight
                                .quarantine(&format!("it cannot be claimed: {error}"));
                        }
                        _ => return Err(error),
                    }
                    let others = others
                        .into_iter()
                        .map(|request| request.candidate)
                        .collect();
                    let others = store.retain_existing(others, deadline).await?;
                    requests.extend(
                        others
                            .into_iter()
                            .map(|candidate| context.claim_request(candidate)),
                    );
                    refusals += 1;
                    // The consumer that has claimed some of the first ones probably claims more of them.
                    drop(requests.drain(..contended_count(requests.len(), refusals)));
                }
                ConditionalOutcome::PreconditionsFailed if was_refreshed => {
                    store.invalidate(&preconditions);
                    break;
                }
                ConditionalOutcome::PreconditionsFailed => {
                    was_refreshed = true;
                    let Some(new) = store.advance_epoch(&preconditions, deadline).await? else {
                        break;
                    };
                    preconditions = new;
                    requests.retain(|request| request.candidate.in_flight.segment == 0);
                }
            }
        }
        Ok(Vec::new())
    }

    fn of(
        store: &Arc<ItemStore>,
        context: &Arc<WorkContext>,
        preconditions: &Arc<Preconditions>,
        ClaimRequest { candidate, claim }: ClaimRequest,
        claim_czxid: Option<i64>,
        session_lease: SessionLease,
    ) -> Self {
        let listed = ListedItem::clone(&candidate.in_flight);
        candidate.in_flight.complete();
        let version = candidate.item.version.wrapping_add(1);
        Self {
            store: Arc::clone(store),
            context: Arc::clone(context),
            deliveries: delivery_count(&listed.key, version),
            listed,
            identity: ClaimIdentity {
                item: candidate.path,
                claim,
                version,
                item_czxid: candidate.item.czxid,
                preconditions: Arc::clone(preconditions),
                claim_czxid,
            },
            data: candidate.item.data,
            session_lease,
            is_settled: false,
            last_checked: Mutex::new(Instant::now()),
            open_claims: Arc::clone(&context.open_claims),
        }
    }
}

impl WorkContext {
    fn claim_request(&self, candidate: Candidate) -> ClaimRequest {
        let name = claim_name(candidate.in_flight.segment, &candidate.in_flight.name);
        let claim = child(&self.claims, &name);
        ClaimRequest { candidate, claim }
    }
}

/// Returns how many bytes claiming an item adds to a request; both paths contain its name.
pub(super) fn claim_request_size(candidate: &Candidate, owner: &str) -> usize {
    2 * candidate.path.as_str().len() + owner.len() + candidate.item.data.len()
}

/// Adds the claims to a transaction. Each has two parts: the even one creates the claim, the odd one writes the item.
fn add_claims(transaction: Transaction, owner: &str, requests: &[ClaimRequest]) -> Transaction {
    requests.iter().fold(transaction, |transaction, request| {
        let ClaimRequest { candidate, claim } = request;
        let data = candidate.item.data.clone();
        transaction.create_ephemeral(claim, owner).set_version(
            &candidate.path,
            data,
            candidate.item.version,
        )
    })
}

/// Releases claims in the background whose creation is in doubt: otherwise they might last as long as the session.
fn release_in_doubt(
    store: &Arc<ItemStore>,
    owner: String,
    requests: Vec<ClaimRequest>,
    preconditions: Arc<Preconditions>,
    failure: CommitFailure,
) {
    let store = Arc::clone(store);
    let session = store.context.session.clone();
    session.finish(async move {
        let resolved = store.context.tokens.resolve(failure, &preconditions, |transaction| {
            add_claims(transaction, &owner, &requests)
        });
        let claim_czxid = match resolved.await {
            Resolution::NotCommitted => return,
            Resolution::Committed(changed) => changed.iter().flatten().find_map(commit_zxid),
            Resolution::Unknown => None,
        };
        for ClaimRequest { candidate, claim } in requests {
            let identity = ClaimIdentity {
                item: candidate.path.clone(),
                claim,
                version: candidate.item.version.wrapping_add(1),
                item_czxid: candidate.item.czxid,
                preconditions: Arc::clone(&preconditions),
                claim_czxid,
            };
            if let Err(error) = release(&store, identity).await {
                tracing::error!(item = %candidate.path, %error, "a claim that no consumer holds may remain");
            }
        }
    });
}
