//! Several items at once: how they are read, and which of them are taken together.

use std::sync::Arc;

use futures_util::future;
use zk_core::Error;
use zk_core::Stat;

use super::Hand;
use super::Line;
use super::Pick;
use super::Read;
use crate::batch_limits::fitting;
use crate::batch_limits::in_flight;
use crate::deadline::Deadline;
use crate::preconditions::Ground;

impl Line {
    /// Reads several items, and answers those that are there, in their order.
    ///
    /// It goes on until they fill a request, to which each adds its `size`, or until a read fails: what was read before
    /// that can be taken all the same.
    pub(crate) async fn read_all(
        &self,
        hands: Vec<Hand>,
        size: impl Fn(&Pick) -> usize,
        deadline: Deadline,
    ) -> Result<Vec<Pick>, Error> {
        let mut hands = hands.into_iter();
        let mut picks: Vec<Pick> = Vec::new();
        let (mut asked, mut bytes) = (0, 0);
        loop {
            let flight: Vec<_> = hands.by_ref().take(in_flight(asked, bytes)).collect();
            if flight.is_empty() || fitting(picks.iter().map(&size)) < picks.len() {
                return Ok(picks);
            }
            asked += flight.len();
            let reads = flight.into_iter().map(|hand| self.read(hand, deadline));
            for read in future::join_all(reads).await {
                match read {
                    Ok(Read::Item(pick)) => {
                        bytes += pick.item.size();
                        picks.push(pick);
                    }
                    Ok(Read::Gone | Read::Unfit) => {}
                    Err(error) if picks.is_empty() => return Err(error),
                    Err(error) => {
                        tracing::debug!(%error, read = picks.len(), "not all of a batch could be read");
                        return Ok(picks);
                    }
                }
            }
        }
    }

    /// What all of them were read on; those that were read on something else are given back.
    pub(crate) fn common_ground(&self, picks: &mut Vec<Pick>) -> Option<Arc<Ground>> {
        let has_unfounded = picks.iter().any(|pick| pick.hand.ground.is_none());
        let common = common_ground(picks);
        if has_unfounded {
            self.forget_list();
        }
        common
    }

    /// Of items that were read, those that nobody has taken meanwhile; in one flight, however many are gone.
    pub(crate) async fn still_there(
        &self,
        picks: Vec<Pick>,
        deadline: Deadline,
    ) -> Result<Vec<Pick>, Error> {
        if picks.len() < 2 {
            // To try is no more than to look.
            return Ok(picks);
        }
        // What another one has taken is not to be seen any more, even if our server lags behind.
        let sync = self.session.sync(&self.place.items);
        let looks = picks.iter().map(|pick| {
            let look = self.session.exists(&pick.path);
            look.timeout(deadline.remaining()).into_future()
        });
        let (synced, looks) = future::join(
            sync.timeout(deadline.remaining()).into_future(),
            future::join_all(looks),
        )
        .await;
        synced?;
        let looks: Vec<_> = looks.into_iter().collect::<Result<_, _>>()?;
        let mut left = Vec::with_capacity(picks.len());
        for (pick, stat) in picks.into_iter().zip(looks) {
            let is_it =
                |stat: Stat| stat.version == pick.item.version && stat.czxid == pick.item.czxid;
            if stat.is_some_and(is_it) {
                left.push(pick);
            } else {
                pick.hand.done();
            }
        }
        Ok(left)
    }
}

/// What all of them were read on; those that were read on something else are given back.
fn common_ground(picks: &mut Vec<Pick>) -> Option<Arc<Ground>> {
    let grounds = || picks.iter().filter_map(|pick| pick.hand.ground.as_ref());
    // The one that tells more, if there are two that agree.
    let fuller = grounds().find(|ground| ground.items.is_some());
    let common = fuller.or_else(|| grounds().next()).cloned();
    picks.retain(|pick| {
        let both = pick.hand.ground.as_ref().zip(common.as_ref());
        both.is_some_and(|(ground, common)| ground.agrees_with(common))
    });
    common
}
