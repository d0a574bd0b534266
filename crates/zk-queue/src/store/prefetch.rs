//! Reading the next item while this one is being taken.

use std::pin::pin;
use std::sync::Arc;

use super::Line;
use super::Pick;
use super::take::Item;
use crate::deadline::Deadline;
use crate::idempotency::lock;
use crate::preconditions::Ground;
use crate::ready_items::Key;

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
        let looking = Looking {
            line: self,
            key: Some(key.clone()),
        };
        let path = self.place.item(key.0, &key.1);
        let get = self.session.get(path).timeout(deadline.remaining());
        let got = get.await;
        looking.end();
        // Whatever is in the way is found when the item is taken.
        if let Ok((data, stat)) = got
            && let Ok(item) = self.item_in(data, &stat)
            && let Some(ahead) = lock(&self.stock).ahead.get_mut(&key)
        {
            *ahead = Some(Ahead { ground, item });
        }
    }

    /// Gives items back that were read and have no room in a request, and remembers what was read of some of them.
    pub(crate) fn keep_for_later(&self, picks: Vec<Pick>) {
        let known: usize = {
            let stock = lock(&self.stock);
            let read = stock.ahead.values().flatten();
            read.map(|ahead| ahead.item.size()).sum()
        };
        let mut kept = known;
        for Pick { hand, item, .. } in picks {
            kept += item.size();
            if kept > MOST_KEPT {
                return;
            }
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

/// A read that was begun.
///
/// Dropped before it is over, it makes room for another one: the next call may read that item, or another.
struct Looking<'a> {
    line: &'a Line,
    key: Option<Key>,
}

impl Looking<'_> {
    fn end(mut self) {
        self.key = None;
    }
}

impl Drop for Looking<'_> {
    fn drop(&mut self) {
        let Some(key) = self.key.take() else {
            return;
        };
        let mut stock = lock(&self.line.stock);
        if stock.ahead.get(&key).is_some_and(Option::is_none) {
            stock.ahead.remove(&key);
        }
    }
}

const MOST_AHEAD: usize = 16;
/// How many bytes of items are remembered that had no room in a request.
const MOST_KEPT: usize = 2 * 1024 * 1024;
