//! Taking items out, as bytes.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future;
use zk_core::Error;
use zk_core::ErrorClass;
use zk_core::ErrorKind;
use zk_core::NodePath;
use zk_core::Transaction;

use super::Draft;
use super::Hand;
use super::Line;
use crate::deadline::Deadline;
use crate::detached::Detached;
use crate::error::OfferError;
use crate::error::TakeError;
use crate::error::Undecided;
use crate::frame;
use crate::receipt::Answer;
use crate::receipt::Failure;
use crate::shelf::Spot;

/// An item that was read and may be taken.
#[derive(Debug)]
pub(crate) struct Pick {
    pub(crate) hand: Hand,
    pub(crate) path: NodePath,
    /// The item, without a frame.
    pub(crate) data: Vec<u8>,
    /// What stays in the node when the item is taken out of it, if it holds more than that item.
    rest: Option<Vec<u8>>,
    pub(crate) version: i32,
    pub(crate) czxid: i64,
}

/// An item that was taken.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) path: NodePath,
    pub(crate) data: Vec<u8>,
    spot: Spot,
    /// Whether there is a node in its place, with other items.
    has_rest: bool,
}

/// Why items were not taken, or not for sure.
enum Unremoved {
    Not(Error),
    InDoubt(Vec<Pick>, Failure),
}

/// Takes items out as parts of a transaction.
fn without(transaction: Transaction, picks: &[Pick]) -> Transaction {
    picks
        .iter()
        .fold(transaction, |transaction, pick| match &pick.rest {
            None => transaction.delete_version(&pick.path, pick.version),
            Some(rest) => transaction.set_version(&pick.path, rest.clone(), pick.version),
        })
}

impl Line {
    /// Reads an item; `None` when it is gone, or is none.
    pub(crate) async fn read(&self, hand: Hand, deadline: Deadline) -> Result<Option<Pick>, Error> {
        let path = hand.path();
        let (data, stat) = match self.session.get(&path).timeout(deadline.remaining()).await {
            Ok(read) => read,
            Err(error) if error.is_no_node() => {
                hand.done();
                return Ok(None);
            }
            Err(error) if error.kind() == ErrorKind::NoAuth => {
                hand.shun("it may not be read");
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let (data, rest) = if self.options.layout.is_framed() {
            match frame::decode(&data).map(|items| items.split_first().map(unframed)) {
                Ok(Some(unframed)) => unframed,
                Ok(None) => {
                    hand.shun("Curator's frame has no item in it");
                    return Ok(None);
                }
                Err((at, why)) => {
                    hand.shun(&format!("not Curator's frame, at byte {at}: {why}"));
                    return Ok(None);
                }
            }
        } else {
            (data, None)
        };
        Ok(Some(Pick {
            hand,
            path,
            data,
            rest,
            version: stat.version,
            czxid: stat.czxid,
        }))
    }

    /// Reads several items in one flight, and answers those that are there.
    pub(crate) async fn read_all(
        &self,
        hands: Vec<Hand>,
        deadline: Deadline,
    ) -> Result<Vec<Pick>, Error> {
        let reads = hands.into_iter().map(|hand| self.read(hand, deadline));
        let read = future::join_all(reads).await;
        let read: Result<Vec<_>, _> = read.into_iter().collect();
        Ok(read?.into_iter().flatten().collect())
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
            Unremoved::InDoubt(picks, failure) => {
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
        let (picks, failure) = match removed {
            Ok(taken) => return taken,
            Err(Unremoved::Not(_)) => return Vec::new(),
            Err(Unremoved::InDoubt(picks, failure)) => (picks, failure),
        };
        let found = self
            .receipts
            .find_out(failure, |transaction| without(transaction, &picks));
        match found.await {
            Some(Answer::Done(_)) => picks.into_iter().map(Taken::of).collect(),
            Some(Answer::Refused { .. }) => Vec::new(),
            None => {
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
        while !picks.is_empty() {
            let answer = self
                .receipts
                .confirm(deadline, |transaction| without(transaction, &picks));
            match answer.await {
                Ok(Answer::Done(_)) => return Ok(picks.into_iter().map(Taken::of).collect()),
                Ok(Answer::Refused { part, error }) => {
                    let is_gone = match error.kind() {
                        // Somebody else has it, or has changed it: a new list tells.
                        ErrorKind::NoNode | ErrorKind::BadVersion => true,
                        ErrorKind::NotEmpty => false,
                        _ => return Err(Unremoved::Not(error)),
                    };
                    let hand = picks.remove(part).hand;
                    if is_gone {
                        hand.done();
                    } else {
                        hand.shun("it has children");
                    }
                }
                Err(failure) if failure.is_in_doubt => {
                    return Err(Unremoved::InDoubt(picks, failure));
                }
                Err(failure) => return Err(Unremoved::Not(failure.error)),
            }
        }
        Ok(Vec::new())
    }

    /// Puts an item back to its place that was taken for somebody who is no longer there.
    pub(crate) async fn put_back(&self, taken: Taken) {
        let data = if self.options.layout.is_framed() {
            frame::encode([taken.data.as_slice()])
        } else {
            taken.data
        };
        // For as long as the session lives: an attempt that were given up might put it back all the same.
        let deadline = Deadline::after(Duration::MAX);
        let mut is_back = false;
        let (mut is_in_doubt, mut attempts) = (false, 0);
        // With others in its old place, it goes behind them.
        let mut may_fit = !taken.has_rest;
        while may_fit {
            let answer = self.receipts.confirm(deadline, |transaction| {
                transaction.create(&taken.path, data.clone())
            });
            match answer.await {
                Ok(Answer::Done(_)) => is_back = true,
                // It was put there by the attempt whose outcome was unknown.
                Ok(Answer::Refused { error, .. }) if is_in_doubt && error.is_node_exists() => {
                    is_back = true;
                }
                // Its place is gone with the node of the queue, or is another one's there.
                Ok(Answer::Refused { .. }) => {}
                Err(failure) if failure.error.class() == ErrorClass::Recoverable => {
                    is_in_doubt |= failure.is_in_doubt;
                    attempts += 1;
                    deadline.pause(attempts).await;
                    continue;
                }
                Err(failure) => {
                    tracing::error!(path = %taken.path, error = %failure.error, "an item could not be put back");
                    return;
                }
            }
            may_fit = false;
        }
        if !is_back {
            // Behind everything else.
            let priority = self
                .options
                .layout
                .has_priorities()
                .then_some(taken.spot.slot.priority);
            let draft = Draft {
                stem: self.options.layout.stem(priority, 0).unwrap_or_default(),
                data,
            };
            let mut attempts = 0;
            while let Err(error) = self.offer(std::slice::from_ref(&draft), deadline).await {
                // One that may be there already must not be there twice.
                let is_unknown = matches!(error, OfferError::Unknown(_));
                if is_unknown || error.class() != ErrorClass::Recoverable {
                    tracing::error!(path = %taken.path, %error, "an item could not be put back");
                    return;
                }
                attempts += 1;
                deadline.pause(attempts).await;
            }
        }
        tracing::debug!(path = %taken.path, "an item was put back that nobody waited for any more");
    }
}

impl Taken {
    fn of(pick: Pick) -> Self {
        let spot = Spot::clone(&pick.hand);
        let has_rest = pick.rest.is_some();
        if has_rest {
            // The next item is in the same node.
            drop(pick.hand);
        } else {
            pick.hand.done();
        }
        Self {
            path: pick.path,
            data: pick.data,
            spot,
            has_rest,
        }
    }
}

/// The first item of a frame, and what stays when it is taken.
fn unframed((first, others): (&&[u8], &[&[u8]])) -> (Vec<u8>, Option<Vec<u8>>) {
    let rest = (!others.is_empty()).then(|| frame::encode(others.iter().copied()));
    (first.to_vec(), rest)
}
