//! Counts the items of a queue, measures the age of the oldest one, and waits for free capacity.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future;
use zk_core::Error;
use zk_core::NodePath;

use super::ItemStore;
use crate::deadline::Deadline;
use crate::leader_time::unix_millis;
use crate::mutex::lock;
use crate::ready_items::ReadyItems;

impl ItemStore {
    /// Counts the children of the items node and of all segments.
    pub(crate) async fn len(&self, deadline: Deadline) -> Result<usize, Error> {
        let (items, segments) = future::join(
            self.count_children(self.paths.items.clone(), deadline),
            self.list_segments(deadline),
        )
        .await;
        let mut all = items?;
        let counts = segments?
            .into_iter()
            .map(|number| self.count_children(self.paths.segment(number), deadline));
        for count in future::join_all(counts).await {
            all += count?;
        }
        Ok(all)
    }

    async fn count_children(&self, path: NodePath, deadline: Deadline) -> Result<usize, Error> {
        let stat = self
            .session
            .exists(path)
            .timeout(deadline.remaining())
            .await?;
        let count = stat.map_or(0, |stat| stat.num_children);
        Ok(usize::try_from(count).unwrap_or(usize::MAX))
    }

    /// Returns the age of the oldest ready item by the leader's clock; `None` if there is none.
    pub(crate) async fn oldest_age(
        self: &Arc<Self>,
        deadline: Deadline,
    ) -> Result<Option<Duration>, Error> {
        loop {
            let now = self.leader_time(deadline).await?;
            let (firsts, is_complete) = {
                let _reading = self.list_lock.lock().await;
                self.refresh_list(false, deadline).await?;
                let mut list = lock(&self.list);
                let firsts = self.first_of_each_priority(&mut list.items, now);
                (firsts, list.is_complete)
            };
            if firsts.is_empty() && is_complete {
                return Ok(None);
            }
            let stats = firsts.values().map(|path| {
                let exists = self.session.exists(path);
                exists.timeout(deadline.remaining()).into_future()
            });
            let mut oldest = None;
            for stat in future::join_all(stats).await {
                let created = stat?.map(|stat| unix_millis(stat.ctime));
                oldest = oldest.into_iter().chain(created).min();
            }
            if let Some(oldest) = oldest {
                return Ok(Some(Duration::from_millis(now.saturating_sub(oldest))));
            }
            // All of them were taken since, or other tasks are taking them.
            if deadline.is_over() {
                return Ok(None);
            }
        }
    }

    /// Returns the first item of each priority: except for items that were put back, it is the oldest one.
    fn first_of_each_priority(&self, items: &mut ReadyItems, now: u64) -> BTreeMap<i32, NodePath> {
        let mut firsts = BTreeMap::new();
        for item in items.ready(now) {
            firsts
                .entry(item.key.priority)
                .or_insert_with(|| self.paths.item(item.segment, &item.name));
        }
        firsts
    }

    /// Waits until the queue may have fewer than `len` items, or until the deadline.
    ///
    /// It watches the items node, from which items are taken first. Takes from segments are seen a second later.
    pub(crate) async fn wait_for_room(&self, len: usize, deadline: Deadline) -> Result<(), Error> {
        let list = self
            .session
            .list(&self.paths.items)
            .timeout(self.deadline().remaining());
        let mut watch = match list.watched().await {
            Ok((_, _, watch)) => watch,
            // The queue is empty, and its node was just deleted.
            Err(error) if error.is_no_node() => return Ok(()),
            Err(error) => return Err(error),
        };
        if self.len(self.deadline()).await? < len {
            return Ok(());
        }
        let recheck = Deadline::after(RECHECK_INTERVAL.min(deadline.remaining()));
        recheck.bound(watch.changed()).await;
        Ok(())
    }
}

const RECHECK_INTERVAL: Duration = Duration::from_secs(1);
