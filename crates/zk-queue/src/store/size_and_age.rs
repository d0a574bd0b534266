//! How many items there are, and how old they are.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future;
use zk_core::Error;
use zk_core::NodePath;

use super::Line;
use crate::deadline::Deadline;
use crate::idempotency::lock;
use crate::idempotency::millis_of;
use crate::paths::segment_of;
use crate::ready_items::Shelf;

impl Line {
    /// How many children the nodes have that hold the items.
    pub(crate) async fn len(&self, deadline: Deadline) -> Result<usize, Error> {
        let remaining = deadline.remaining();
        let list = self.session.list(self.place.segments()).timeout(remaining);
        let (items, segments) = future::join(
            self.children_of(self.place.items.clone(), deadline),
            list.into_future(),
        )
        .await;
        let mut all = items?;
        let numbers: Vec<u32> = match segments {
            Ok((names, _)) => names.iter().filter_map(|name| segment_of(name)).collect(),
            Err(error) if error.is_no_node() => Vec::new(),
            Err(error) => return Err(error),
        };
        let counts = numbers
            .into_iter()
            .map(|number| self.children_of(self.place.segment(number), deadline));
        for count in future::join_all(counts).await {
            all += count?;
        }
        Ok(all)
    }

    async fn children_of(&self, path: NodePath, deadline: Deadline) -> Result<usize, Error> {
        let stat = self
            .session
            .exists(path)
            .timeout(deadline.remaining())
            .await?;
        let count = stat.map_or(0, |stat| stat.num_children);
        Ok(usize::try_from(count).unwrap_or(usize::MAX))
    }

    /// How long the oldest item is there that can be taken, by the leader's clock; `None` when there is none.
    pub(crate) async fn oldest_age(
        self: &Arc<Self>,
        deadline: Deadline,
    ) -> Result<Option<Duration>, Error> {
        loop {
            let now = self.receipts.leader_time(deadline).await?;
            let (firsts, is_whole) = {
                let _reading = self.restocking.lock().await;
                self.restock(false, deadline).await?;
                let mut stock = lock(&self.stock);
                (self.firsts(&mut stock.shelf, now), stock.is_whole)
            };
            if firsts.is_empty() && is_whole {
                return Ok(None);
            }
            let looks = firsts.values().map(|path| {
                let look = self.session.exists(path);
                look.timeout(deadline.remaining()).into_future()
            });
            let mut oldest = None;
            for look in future::join_all(looks).await {
                let made = look?.map(|stat| millis_of(stat.ctime));
                oldest = oldest.into_iter().chain(made).min();
            }
            if let Some(oldest) = oldest {
                return Ok(Some(Duration::from_millis(now.saturating_sub(oldest))));
            }
            // All of them were taken meanwhile, or are being taken by other tasks.
            if deadline.is_over() {
                return Ok(None);
            }
        }
    }
}

impl Line {
    /// The first item of each priority: but for what was put back, it is the oldest one.
    fn firsts(&self, shelf: &mut Shelf, now: u64) -> BTreeMap<i32, NodePath> {
        let mut firsts = BTreeMap::new();
        for spot in shelf.ready(now) {
            firsts
                .entry(spot.slot.priority)
                .or_insert_with(|| self.place.item(spot.segment, &spot.name));
        }
        firsts
    }

    /// Waits until there may be less than `len` items, or until then.
    ///
    /// The first segment is watched, from which items are taken; what is taken elsewhere is seen a second later.
    pub(crate) async fn wait_for_less(&self, len: usize, patience: Deadline) -> Result<(), Error> {
        let list = self
            .session
            .list(&self.place.items)
            .timeout(self.deadline().remaining());
        let mut watch = match list.watched().await {
            Ok((_, _, watch)) => watch,
            // It has just run empty.
            Err(error) if error.is_no_node() => return Ok(()),
            Err(error) => return Err(error),
        };
        if self.len(self.deadline()).await? < len {
            return Ok(());
        }
        let look_again = Deadline::after(LOOK_AGAIN.min(patience.remaining()));
        look_again.bound(watch.changed()).await;
        Ok(())
    }
}

const LOOK_AGAIN: Duration = Duration::from_secs(1);
