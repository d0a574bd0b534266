//! Taking items out, as bytes.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future;
use zk_core::Error;
use zk_core::ErrorKind;
use zk_core::NodePath;

use super::Draft;
use super::Hand;
use super::Line;
use crate::deadline::Deadline;
use crate::detached::Detached;
use crate::error::TakeError;
use crate::error::Undecided;
use crate::frame;
use crate::receipt::Answer;
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
    /// Dropped, it goes on, and what it takes is put back.
    pub(crate) fn remove(
        self: &Arc<Self>,
        picks: Vec<Pick>,
        deadline: Deadline,
    ) -> Detached<Result<Vec<Taken>, TakeError>> {
        let (line, other) = (Arc::clone(self), Arc::clone(self));
        Detached::new(
            &self.session,
            async move { line.remove_all(picks, deadline).await },
            async move |taken: Result<Vec<Taken>, TakeError>| {
                for taken in taken.unwrap_or_default() {
                    other.put_back(taken).await;
                }
            },
        )
    }

    async fn remove_all(
        &self,
        mut picks: Vec<Pick>,
        deadline: Deadline,
    ) -> Result<Vec<Taken>, TakeError> {
        while !picks.is_empty() {
            let answer = self.receipts.confirm(deadline, |transaction| {
                picks
                    .iter()
                    .fold(transaction, |transaction, pick| match &pick.rest {
                        None => transaction.delete_version(&pick.path, pick.version),
                        Some(rest) => {
                            transaction.set_version(&pick.path, rest.clone(), pick.version)
                        }
                    })
            });
            match answer.await {
                Ok(Answer::Done(_)) => return Ok(picks.into_iter().map(Taken::of).collect()),
                Ok(Answer::Refused { part, error }) => {
                    let is_gone = match error.kind() {
                        // Somebody else has it, or has changed it: a new list tells.
                        ErrorKind::NoNode | ErrorKind::BadVersion => true,
                        ErrorKind::NotEmpty => false,
                        _ => return Err(error.into()),
                    };
                    let hand = picks.remove(part).hand;
                    if is_gone {
                        hand.done();
                    } else {
                        hand.shun("it has children");
                    }
                }
                Err(failure) if failure.is_in_doubt => {
                    let picks = picks.into_iter().map(Taken::of);
                    let items = picks.map(|taken| (taken.path, taken.data)).collect();
                    let source = failure.error;
                    return Err(TakeError::Undecided(Box::new(Undecided { items, source })));
                }
                Err(failure) => return Err(failure.error.into()),
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
        if !taken.has_rest {
            let answer = self.receipts.confirm(deadline, |transaction| {
                transaction.create(&taken.path, data.clone())
            });
            is_back = match answer.await {
                Ok(Answer::Done(_)) => true,
                // Its place is gone with the node of the queue, or is another one's there.
                Ok(Answer::Refused { .. }) => false,
                Err(failure) => {
                    tracing::error!(path = %taken.path, error = %failure.error, "the session ended before an item was put back");
                    return;
                }
            };
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
            if let Err(error) = self.offer(std::slice::from_ref(&draft), deadline).await {
                tracing::error!(path = %taken.path, %error, "an item could not be put back");
                return;
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
