//! Reading the next item while this one is being taken.

use std::pin::pin;
use std::sync::Arc;

use super::Line;
use super::Pick;
use super::remove::Item;
use crate::deadline::Deadline;
use crate::ground::Ground;
use crate::receipt::lock;
use crate::shelf::Key;

/// An item that was read before its turn.
#[derive(Debug)]
pub(super) struct Ahead {
    pub(super) ground: Arc<Ground>,
    pub(super) item: Item,
}

impl Line {
    /// Does something, and reads the next item in the same flight.
    ///
    /// It is only read: it stays on the list, for whoever takes it; and that what was read is still so is checked then.
    pub(crate) async fn looking_ahead<T>(
        &self,
        deadline: Deadline,
        work: impl Future<Output = T>,
    ) -> T {
        let mut work = pin!(work);
        tokio::select! {
            biased;
            () = self.look_ahead(deadline) => {}
            done = &mut work => return done,
        }
        work.await
    }

    async fn look_ahead(&self, deadline: Deadline) {
        let Some((key, ground)) = self.next_unread() else {
            return;
        };
        let path = self.place.item(key.0, &key.1);
        let get = self.session.get(path).timeout(deadline.remaining());
        // Whatever is in the way is found when the item is taken.
        if let Ok((data, stat)) = get.await
            && let Ok(item) = self.item_in(data, &stat)
            && let Some(ahead) = lock(&self.stock).ahead.get_mut(&key)
        {
            *ahead = Some(Ahead { ground, item });
        }
    }

    /// Gives items back that were read and have no room in a request.
    pub(crate) fn keep_for_later(&self, picks: Vec<Pick>) {
        for Pick { hand, item, .. } in picks {
            let key = hand.key();
            if let Some(ground) = hand.ground.clone() {
                let ahead = Some(Ahead { ground, item });
                lock(&self.stock).ahead.insert(key, ahead);
            }
        }
    }

    /// The first item that nobody has read ahead, which is noted.
    fn next_unread(&self) -> Option<(Key, Arc<Ground>)> {
        let now = self.receipts.known_time().unwrap_or(0);
        let mut stock = lock(&self.stock);
        let stock = &mut *stock;
        if stock.ahead.len() >= MOST_AHEAD {
            return None;
        }
        let mut ready = stock.shelf.ready(now).take(MOST_AHEAD);
        let (key, ground) = ready.find_map(|spot| {
            let key = spot.key();
            let is_unread = !stock.ahead.contains_key(&key);
            let ground = stock.footing.as_ref()?.of(spot.segment)?;
            is_unread.then_some((key, ground))
        })?;
        stock.ahead.insert(key.clone(), None);
        Some((key, ground))
    }
}

const MOST_AHEAD: usize = 16;
