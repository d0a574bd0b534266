//! Making claims, of one item or of several at once.

use std::sync::Arc;
use std::sync::Mutex;

use tokio::time::Instant;
use zk_core::Error;
use zk_core::ErrorClass;
use zk_core::ErrorKind;
use zk_core::NodePath;
use zk_core::Transaction;
use zk_core::Trusted;

use super::Bench;
use super::held_claim::Grip;
use super::held_claim::Held;
use super::held_claim::MOST_ROUNDS;
use super::held_claim::deliveries_of;
use super::held_claim::made_by;
use super::held_claim::make_container;
use super::held_claim::release;
use crate::batch_limits::fitting;
use crate::batch_limits::left_to_others;
use crate::deadline::Deadline;
use crate::detached::Detached;
use crate::idempotency::Answer;
use crate::idempotency::Failure;
use crate::idempotency::Found;
use crate::paths::below;
use crate::preconditions::Ground;
use crate::ready_items::Spot;
use crate::store::Line;
use crate::store::Pick;
use crate::store::claim_name;

/// An item that was read, and the node that is to claim it.
struct Wish {
    pick: Pick,
    claim: NodePath,
}

impl Held {
    /// Claims items that were read, all at once; answers those of which there is a claim, in their order.
    ///
    /// Those that are claimed already, or gone, are left out, and as many of the last ones as have no room in a request.
    pub(super) fn claim(
        line: &Arc<Line>,
        bench: &Arc<Bench>,
        picks: Vec<Pick>,
        deadline: Deadline,
    ) -> Detached<Result<Vec<Self>, Error>> {
        let (line, bench) = (Arc::clone(line), Arc::clone(bench));
        let session = line.session.clone();
        Detached::new(
            &session,
            async move { Self::claim_now(line, bench, picks, deadline).await },
            async |claimed| drop(claimed),
        )
    }

    async fn claim_now(
        line: Arc<Line>,
        bench: Arc<Bench>,
        mut picks: Vec<Pick>,
        deadline: Deadline,
    ) -> Result<Vec<Self>, Error> {
        let Some(mut ground) = line.common_ground(&mut picks) else {
            return Ok(Vec::new());
        };
        let owner = bench.options.owner();
        let sizes = picks.iter().map(|pick| size_of_claim(pick, &owner));
        let rest = picks.split_off(fitting(sizes));
        line.keep_for_later(rest);
        let mut wishes: Vec<_> = picks.into_iter().map(|pick| bench.wish(pick)).collect();
        // Kept fresh from before the claims on, so that one that is in doubt at first is seen to be.
        let trusted: Vec<_> = wishes.iter().map(|_| line.session.keep_trusted()).collect();
        let (mut rounds, mut refusals, mut has_moved) = (0, 0, false);
        while !wishes.is_empty() {
            rounds += 1;
            let answer = line.receipts.confirm_on(&ground, deadline, |transaction| {
                claimed(transaction, &owner, &wishes)
            });
            let answer = match answer.await {
                Ok(answer) => answer,
                Err(failure) => {
                    let error = failure.error.clone();
                    if error.kind() == ErrorKind::TooLarge {
                        let rest = wishes.split_off(wishes.len() / 2);
                        let mut rest = rest.into_iter().map(|wish| wish.pick);
                        if !wishes.is_empty() {
                            line.keep_for_later(rest.collect());
                            continue;
                        }
                        if let Some(pick) = rest.next() {
                            pick.hand.shun("it is too large to be claimed");
                        }
                        break;
                    }
                    if failure.is_in_doubt && !error.is_fatal() {
                        abandon(&line, owner, wishes, ground, failure);
                    }
                    return Err(error);
                }
            };
            match answer {
                Some(Answer::Done(changed)) => {
                    let made_by = changed.iter().flatten().find_map(made_by);
                    // After a rest the proof that the session is alive takes a while; without it each claim would be
                    // lost at once. Why there is none, if there is none, each says itself.
                    if let Some(first) = trusted.first() {
                        let proved = first.renewed(line.session.session_timeout()).await;
                        proved.unwrap_or_else(
                            |error| tracing::debug!(%error, "claims that are not trusted"),
                        );
                    }
                    let both = wishes.into_iter().zip(trusted);
                    let held = both.map(|(wish, trusted)| {
                        Self::of(&line, &bench, &ground, wish, made_by, trusted)
                    });
                    return Ok(held.collect());
                }
                Some(Answer::Refused { part, error })
                    if part.is_multiple_of(2) && error.is_no_node() && rounds < MOST_ROUNDS =>
                {
                    make_container(&line, &bench.claims, deadline).await?;
                }
                Some(Answer::Refused { part, error }) => {
                    let others = wishes.split_off(part / 2 + 1);
                    match (error.kind(), wishes.pop()) {
                        (_, None) => {}
                        (
                            ErrorKind::NodeExists | ErrorKind::NoNode | ErrorKind::BadVersion,
                            Some(Wish { pick, .. }),
                        ) => pick.hand.done(),
                        // The item's own node refuses to be written.
                        (_, Some(Wish { pick, .. }))
                            if !part.is_multiple_of(2) && error.class() == ErrorClass::Outcome =>
                        {
                            pick.hand.shun(&format!("it cannot be claimed: {error}"));
                        }
                        _ => return Err(error),
                    }
                    let others = others.into_iter().map(|wish| wish.pick).collect();
                    let others = line.still_there(others, deadline).await?;
                    wishes.extend(others.into_iter().map(|pick| bench.wish(pick)));
                    refusals += 1;
                    // Whoever has claimed some of the first ones will have claimed some again.
                    drop(wishes.drain(..left_to_others(wishes.len(), refusals)));
                }
                None if has_moved => {
                    line.lost_ground(&ground);
                    break;
                }
                None => {
                    has_moved = true;
                    let Some(new) = line.regain(&ground, deadline).await? else {
                        break;
                    };
                    ground = new;
                    wishes.retain(|wish| wish.pick.hand.segment == 0);
                }
            }
        }
        Ok(Vec::new())
    }

    fn of(
        line: &Arc<Line>,
        bench: &Arc<Bench>,
        ground: &Arc<Ground>,
        Wish { pick, claim }: Wish,
        made_by: Option<i64>,
        trusted: Trusted,
    ) -> Self {
        let spot = Spot::clone(&pick.hand);
        pick.hand.done();
        let version = pick.item.version.wrapping_add(1);
        Self {
            line: Arc::clone(line),
            bench: Arc::clone(bench),
            deliveries: deliveries_of(&spot.slot, version),
            spot,
            grip: Grip {
                item: pick.path,
                claim,
                version,
                czxid: pick.item.czxid,
                ground: Arc::clone(ground),
                made_by,
            },
            data: pick.item.data,
            trusted,
            is_settled: false,
            looked: Mutex::new(Instant::now()),
            in_hand: Arc::clone(&bench.in_hand),
        }
    }
}

impl Bench {
    fn wish(&self, pick: Pick) -> Wish {
        let name = claim_name(pick.hand.segment, &pick.hand.name);
        let claim = below(&self.claims, &name);
        Wish { pick, claim }
    }
}

/// What claiming an item adds to a request: its name is in both paths.
pub(super) fn size_of_claim(pick: &Pick, owner: &str) -> usize {
    2 * pick.path.as_str().len() + owner.len() + pick.item.data.len()
}

/// Claims items as parts of a transaction, two for each.
fn claimed(transaction: Transaction, owner: &str, wishes: &[Wish]) -> Transaction {
    wishes.iter().fold(transaction, |transaction, wish| {
        let Wish { pick, claim } = wish;
        let data = pick.item.data.clone();
        transaction
            .create_ephemeral(claim, owner)
            .set_version(&pick.path, data, pick.item.version)
    })
}

/// Releases, in the background, claims of which nobody knows whether they were made: they would last as long as the
/// session.
fn abandon(
    line: &Arc<Line>,
    owner: String,
    wishes: Vec<Wish>,
    ground: Arc<Ground>,
    failure: Failure,
) {
    let line = Arc::clone(line);
    let session = line.session.clone();
    session.finish(async move {
        let found = line.receipts.find_out(failure, &ground, |transaction| {
            claimed(transaction, &owner, &wishes)
        });
        let made_by = match found.await {
            Found::Not => return,
            Found::Done(changed) => changed.iter().flatten().find_map(made_by),
            Found::Unknown => None,
        };
        for Wish { pick, claim } in wishes {
            let grip = Grip {
                item: pick.path.clone(),
                claim,
                version: pick.item.version.wrapping_add(1),
                czxid: pick.item.czxid,
                ground: Arc::clone(&ground),
                made_by,
            };
            if let Err(error) = release(&line, grip).await {
                tracing::error!(item = %pick.path, %error, "a claim that nobody has may be left");
            }
        }
    });
}
