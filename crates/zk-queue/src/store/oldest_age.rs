//! Measures the age of the oldest item.

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
    /// Returns the age of the oldest ready item by the leader's clock; `None` if there is none.
    pub(crate) async fn oldest_age(
        self: &Arc<Self>,
        deadline: Deadline,
    ) -> Result<Option<Duration>, Error> {
        loop {
            let now = self.context.leader_time(deadline).await?;
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
                let exists = self.context.session.exists(path);
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
                .or_insert_with(|| self.context.paths.item(item.segment, &item.name));
        }
        firsts
    }
}
