//! Reads the next item while the current one is being taken.

use std::pin::pin;
use std::sync::Arc;

use super::Candidate;
use super::ItemStore;
use super::take::ItemContent;
use crate::deadline::Deadline;
use crate::mutex::lock;
use crate::preconditions::Preconditions;
use crate::ready_items::ItemId;

/// An item that was read ahead.
#[derive(Debug)]
pub(super) struct Prefetched {
    pub(super) preconditions: Arc<Preconditions>,
    pub(super) item: ItemContent,
}

impl ItemStore {
    /// Awaits `work`, and reads the next item concurrently.
    ///
    /// Reading reserves nothing: any consumer can take the item, and taking it checks that it is unchanged.
    pub(crate) async fn with_prefetch<T>(
        &self,
        deadline: Deadline,
        work: impl Future<Output = T>,
    ) -> T {
        let mut work = pin!(work);
        tokio::select! {
            biased;
            () = self.prefetch_next(deadline) => {}
            done = &mut work => return done,
        }
        work.await
    }

    async fn prefetch_next(&self, deadline: Deadline) {
        let Some((id, preconditions)) = self.next_to_prefetch() else {
            return;
        };
        let pending = PendingPrefetch {
            store: self,
            id: Some(id.clone()),
        };
        let path = self.context.paths.item(id.0, &id.1);
        let get = self.context.session.get(path).timeout(deadline.remaining());
        let got = get.await;
        pending.finish();
        // An error is found again when the item is taken.
        if let Ok((data, stat)) = got
            && let Ok(item) = self.parse_item(data, &stat)
            && let Some(prefetched) = lock(&self.list).prefetched.get_mut(&id)
        {
            *prefetched = Some(Prefetched {
                preconditions,
                item,
            });
        }
    }

    /// Releases candidates that do not fit into a request, and keeps the contents of some of them.
    pub(crate) fn keep_prefetched(&self, candidates: Vec<Candidate>) {
        let mut kept: usize = {
            let list = lock(&self.list);
            let read = list.prefetched.values().flatten();
            read.map(|prefetched| prefetched.item.size()).sum()
        };
        for Candidate {
            in_flight, item, ..
        } in candidates
        {
            kept += item.size();
            if kept > MAX_KEPT_BYTES {
                return;
            }
            let id = in_flight.id();
            if let Some(preconditions) = in_flight.preconditions.clone() {
                let prefetched = Some(Prefetched {
                    preconditions,
                    item,
                });
                lock(&self.list).prefetched.insert(id, prefetched);
            }
        }
    }

    /// Returns the first item that no task has read ahead, and marks it as pending.
    fn next_to_prefetch(&self) -> Option<(ItemId, Arc<Preconditions>)> {
        let now = self.context.known_time();
        let mut list = lock(&self.list);
        let list = &mut *list;
        if list.prefetched.len() >= MAX_PREFETCHED {
            return None;
        }
        let mut ready = list.items.ready(now).take(MAX_PREFETCHED);
        let (id, preconditions) = ready.find_map(|listed| {
            let id = listed.id();
            let is_unread = !list.prefetched.contains_key(&id);
            let preconditions = list.epoch.as_ref()?.preconditions_for(listed.segment)?;
            is_unread.then_some((id, preconditions))
        })?;
        list.prefetched.insert(id.clone(), None);
        Some((id, preconditions))
    }
}

/// A read that is pending. If it is dropped, another call can read the item.
struct PendingPrefetch<'a> {
    store: &'a ItemStore,
    id: Option<ItemId>,
}

impl PendingPrefetch<'_> {
    fn finish(mut self) {
        self.id = None;
    }
}

impl Drop for PendingPrefetch<'_> {
    fn drop(&mut self) {
        let Some(id) = self.id.take() else {
            return;
        };
        let mut list = lock(&self.store.list);
        if list.prefetched.get(&id).is_some_and(Option::is_none) {
            list.prefetched.remove(&id);
        }
    }
}

const MAX_PREFETCHED: usize = 16;
/// The size of the items in bytes beyond which contents are not kept.
const MAX_KEPT_BYTES: usize = 2 * 1024 * 1024;
