//! Taking items out, as bytes.

use std::sync::Arc;

use zk_core::Error;
use zk_core::ErrorKind;
use zk_core::NodePath;
use zk_core::Stat;
use zk_core::Transaction;

use super::Hand;
use super::Line;
use crate::batch_limits::fitting;
use crate::batch_limits::left_to_others;
use crate::curator_frame as frame;
use crate::deadline::Deadline;
use crate::detached::Detached;
use crate::error::TakeError;
use crate::error::Undecided;
use crate::idempotency::Answer;
use crate::idempotency::Failure;
use crate::idempotency::Found;
use crate::idempotency::lock;
use crate::preconditions::Ground;
use crate::ready_items::Spot;

/// An item that was read and may be taken.
#[derive(Debug)]
pub(crate) struct Pick {
    pub(crate) hand: Hand,
    pub(crate) path: NodePath,
    pub(crate) item: Item,
}

/// What became of reading an item.
pub(crate) enum Read {
    Item(Pick),
    /// Somebody else has taken it.
    Gone,
    /// It is no item, and is left alone from now on.
    Unfit,
}

/// An item as it was read.
#[derive(Debug)]
pub(crate) struct Item {
    /// Without a frame.
    pub(crate) data: Vec<u8>,
    /// What stays in the node when the item is taken out of it, if it holds more than that item.
    rest: Option<Vec<u8>>,
    pub(crate) version: i32,
    pub(crate) czxid: i64,
}

impl Item {
    /// How much there is of it.
    pub(super) fn size(&self) -> usize {
        self.data.len() + self.rest.as_ref().map_or(0, Vec::len)
    }
}

impl Pick {
    /// What taking it adds to a request.
    pub(crate) fn size(&self) -> usize {
        self.path.as_str().len() + self.item.rest.as_ref().map_or(0, Vec::len)
    }
}

/// An item that was taken.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) path: NodePath,
    pub(crate) data: Vec<u8>,
    pub(super) spot: Spot,
    /// What it was taken on, if it may be put back to its place.
    pub(super) place: Option<Arc<Ground>>,
}

/// Why items were not taken, or not for sure.
enum Unremoved {
    Not(Error),
    InDoubt(Vec<Pick>, Arc<Ground>, Failure),
}

/// Takes items out as parts of a transaction.
fn without(transaction: Transaction, picks: &[Pick]) -> Transaction {
    picks
        .iter()
        .fold(transaction, |transaction, pick| match &pick.item.rest {
            None => transaction.delete_version(&pick.path, pick.item.version),
            Some(rest) => transaction.set_version(&pick.path, rest.clone(), pick.item.version),
        })
}

impl Line {
    /// Reads an item.
    pub(crate) async fn read(&self, hand: Hand, deadline: Deadline) -> Result<Read, Error> {
        let path = hand.path();
        let key = hand.key();
        // Whoever only looks is shown what is there now.
        if let Some(ground) = &hand.ground
            && let Some(Some(ahead)) = lock(&self.stock).ahead.remove(&key)
            && Arc::ptr_eq(&ahead.ground, ground)
        {
            return Ok(Read::Item(Pick {
                hand,
                path,
                item: ahead.item,
            }));
        }
        let (data, stat) = match self.session.get(&path).timeout(deadline.remaining()).await {
            Ok(read) => read,
            Err(error) if error.is_no_node() => {
                hand.done();
                return Ok(Read::Gone);
            }
            Err(error) if error.kind() == ErrorKind::NoAuth => {
                hand.shun("it may not be read");
                return Ok(Read::Unfit);
            }
            Err(error) => return Err(error),
        };
        match self.item_in(data, &stat) {
            Ok(item) => Ok(Read::Item(Pick { hand, path, item })),
            Err(why) => {
                hand.shun(&why);
                Ok(Read::Unfit)
            }
        }
    }

    /// The item in the data of a node, or why there is none.
    pub(super) fn item_in(&self, data: Vec<u8>, stat: &Stat) -> Result<Item, String> {
        let (data, rest) = if self.options.layout.is_framed() {
            match frame::decode(&data).map(|items| items.split_first().map(unframed)) {
                Ok(Some(unframed)) => unframed,
                Ok(None) => return Err("Curator's frame has no item in it".to_owned()),
                Err((at, why)) => return Err(format!("not Curator's frame, at byte {at}: {why}")),
            }
        } else {
            (data, None)
        };
        Ok(Item {
            data,
            rest,
            version: stat.version,
            czxid: stat.czxid,
        })
    }

    /// Takes items out, all at once; answers those that were still there.
    ///
    /// Dropped, it goes on without a deadline, and what it takes is put back.
    pub(crate) async fn remove(
        self: &Arc<Self>,
        picks: Vec<Pick>,
        deadline: Deadline,
    ) -> Result<Vec<Taken>, TakeError> {
        let (line, other) = (Arc::clone(self), Arc::clone(self));
        let removed = Detached::new(
            &self.session,
            async move { line.remove_all(picks, deadline).await },
            async move |removed| {
                for taken in other.removed_after_all(removed).await {
                    other.put_back(taken).await;
                }
            },
        );
        removed.await.map_err(|unremoved| match unremoved {
            Unremoved::Not(error) => error.into(),
            Unremoved::InDoubt(picks, _, failure) => {
                let items = picks.into_iter().map(|pick| {
                    let taken = Taken::of(pick);
                    (taken.path, taken.data)
                });
                TakeError::Undecided(Box::new(Undecided {
                    items: items.collect(),
                    source: failure.error,
                }))
            }
        })
    }

    /// What was taken for a caller that is no longer there, also if that is found out late.
    async fn removed_after_all(&self, removed: Result<Vec<Taken>, Unremoved>) -> Vec<Taken> {
        let (picks, ground, failure) = match removed {
            Ok(taken) => return taken,
            Err(Unremoved::Not(_)) => return Vec::new(),
            Err(Unremoved::InDoubt(picks, ground, failure)) => (picks, ground, failure),
        };
        let found = self
            .receipts
            .find_out(failure, &ground, |transaction| without(transaction, &picks));
        match found.await {
            Found::Done(_) => picks.into_iter().map(Taken::of).collect(),
            Found::Not => Vec::new(),
            Found::Unknown => {
                for pick in picks {
                    tracing::error!(path = %pick.path, "nobody knows whether an item was taken that nobody waited for any more");
                }
                Vec::new()
            }
        }
    }

    async fn remove_all(
        &self,
        mut picks: Vec<Pick>,
        deadline: Deadline,
    ) -> Result<Vec<Taken>, Unremoved> {
        let Some(mut ground) = self.common_ground(&mut picks) else {
            return Ok(Vec::new());
        };
        let rest = picks.split_off(fitting(picks.iter().map(Pick::size)));
        self.keep_for_later(rest);
        let (mut refusals, mut has_moved) = (0, false);
        while !picks.is_empty() {
            let answer = self.receipts.confirm_on(&ground, deadline, |transaction| {
                without(transaction, &picks)
            });
            match answer.await {
                Ok(Some(Answer::Done(_))) => {
                    return Ok(picks.into_iter().map(Taken::of).collect());
                }
                Ok(Some(Answer::Refused { part, error })) => {
                    let is_gone = match error.kind() {
                        // Somebody else has it, or has changed it: a new list tells.
                        ErrorKind::NoNode | ErrorKind::BadVersion => true,
                        ErrorKind::NotEmpty => false,
                        _ => return Err(Unremoved::Not(error)),
                    };
                    let others = picks.split_off(part + 1);
                    if let Some(Pick { hand, .. }) = picks.pop() {
                        if is_gone {
                            hand.done();
                        } else {
                            hand.shun("it has children");
                        }
                    }
                    // Those before it were still there.
                    let others = self.still_there(others, deadline).await;
                    picks.extend(others.map_err(Unremoved::Not)?);
                    refusals += 1;
                    // Whoever has taken some of the first ones will have taken some again.
                    drop(picks.drain(..left_to_others(picks.len(), refusals)));
                }
                Ok(None) if has_moved => {
                    self.lost_ground(&ground);
                    break;
                }
                Ok(None) => {
                    has_moved = true;
                    match self.regain(&ground, deadline).await {
                        Ok(Some(new)) => ground = new,
                        Ok(None) => break,
                        Err(error) => return Err(Unremoved::Not(error)),
                    }
                    picks.retain(|pick| pick.hand.segment == 0);
                }
                Err(failure) if failure.is_in_doubt => {
                    return Err(Unremoved::InDoubt(picks, ground, failure));
                }
                Err(failure) if failure.error.kind() == ErrorKind::TooLarge && picks.len() > 1 => {
                    self.keep_for_later(picks.split_off(picks.len() / 2));
                }
                Err(failure) => return Err(Unremoved::Not(failure.error)),
            }
        }
        Ok(Vec::new())
    }
}

impl Taken {
    fn of(pick: Pick) -> Self {
        let spot = Spot::clone(&pick.hand);
        let ground = pick.hand.ground.clone();
        // With others in its old place, it goes behind them. And whoever has read there what somebody has written since
        // must not find the same version with something else.
        let place = ground.filter(|_| pick.item.rest.is_none() && pick.item.version == 0);
        if pick.item.rest.is_some() {
            // The next item is in the same node.
            drop(pick.hand);
        } else {
            pick.hand.done();
        }
        Self {
            path: pick.path,
            data: pick.item.data,
            spot,
            place,
        }
    }
}

/// The first item of a frame, and what stays when it is taken.
fn unframed((first, others): (&&[u8], &[&[u8]])) -> (Vec<u8>, Option<Vec<u8>>) {
    let rest = (!others.is_empty()).then(|| frame::encode(others.iter().copied()));
    (first.to_vec(), rest)
}
