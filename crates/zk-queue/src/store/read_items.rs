//! Reads items' nodes, one or several at once, and the next item while the current one is being taken.

use std::pin::pin;
use std::sync::Arc;

use futures_util::future;
use zk_core::Error;
use zk_core::ErrorKind;
use zk_core::NodePath;

use super::context::QueueContext;
use super::in_flight::InFlightItem;
use super::in_flight::SharedInventory;
use super::item_content::ItemContent;
use crate::batch_limits::fitting_count;
use crate::batch_limits::next_read_count;
use crate::deadline::Deadline;
use crate::ready_items::ItemId;

/// Reads the items of one queue that the inventory lists.
#[derive(Debug)]
pub(crate) struct ItemReader {
    pub(super) context: Arc<QueueContext>,
    pub(super) inventory: Arc<SharedInventory>,
}

/// An item that was read and may be taken.
#[derive(Debug)]
pub(crate) struct Candidate {
    pub(crate) in_flight: InFlightItem,
    pub(crate) path: NodePath,
    pub(crate) item: ItemContent,
}

/// The result of reading an item.
pub(crate) enum ReadOutcome {
    Item(Candidate),
    /// Another consumer has taken it.
    Gone,
    /// It is malformed, and skipped from now on.
    Quarantined,
}

impl ItemReader {
    pub(super) fn new(context: &Arc<QueueContext>, inventory: &Arc<SharedInventory>) -> Self {
        Self {
            context: Arc::clone(context),
            inventory: Arc::clone(inventory),
        }
    }

    /// Reads an item, unless it was read ahead.
    pub(crate) async fn read(
        &self,
        in_flight: InFlightItem,
        deadline: Deadline,
    ) -> Result<ReadOutcome, Error> {
        let path = in_flight.path();
        // A caller that only reads gets the current content.
        let prefetched = in_flight.preconditions.as_ref().and_then(|preconditions| {
            let id = in_flight.id();
            self.inventory.lock().take_prefetched(&id, preconditions)
        });
        let item = match prefetched {
            Some(item) => Ok(item),
            None => match self.context.get(&path, deadline).await {
                Ok((data, stat)) => {
                    ItemContent::parse(self.context.options.layout, data.into(), &stat)
                }
                Err(error) if error.is_no_node() => {
                    in_flight.complete();
                    return Ok(ReadOutcome::Gone);
                }
                Err(error) if error.kind() == ErrorKind::NoAuth => {
                    Err("the session may not read it".to_owned())
                }
                Err(error) => return Err(error),
            },
        };
        match item {
            Ok(item) => Ok(ReadOutcome::Item(Candidate {
                in_flight,
                path,
                item,
            })),
            Err(reason) => {
                in_flight.quarantine(&reason);
                Ok(ReadOutcome::Quarantined)
            }
        }
    }

    /// Reads several items, and returns those that exist, in their order.
    ///
    /// It stops when they fill a request, to which each adds its `size`, or when a read fails; the items that were read
    /// before that are returned.
    pub(crate) async fn read_all(
        &self,
        items: Vec<InFlightItem>,
        size: impl Fn(&Candidate) -> usize,
        deadline: Deadline,
    ) -> Result<Vec<Candidate>, Error> {
        let mut items = items.into_iter();
        let mut candidates: Vec<Candidate> = Vec::new();
        let (mut asked, mut bytes) = (0, 0);
        loop {
            let flight: Vec<_> = items.by_ref().take(next_read_count(asked, bytes)).collect();
            if flight.is_empty() || fitting_count(candidates.iter().map(&size)) < candidates.len() {
                return Ok(candidates);
            }
            asked += flight.len();
            let reads = flight.into_iter().map(|item| self.read(item, deadline));
            for read in future::join_all(reads).await {
                match read {
                    Ok(ReadOutcome::Item(candidate)) => {
                        bytes += candidate.item.size();
                        candidates.push(candidate);
                    }
                    Ok(ReadOutcome::Gone | ReadOutcome::Quarantined) => {}
                    Err(error) if candidates.is_empty() => return Err(error),
                    Err(error) => {
                        tracing::debug!(%error, read = candidates.len(), "a batch was read in part");
                        return Ok(candidates);
                    }
                }
            }
        }
    }

    /// Returns the candidates that were not taken since they were read; one flight of requests, however many are gone.
    pub(super) async fn retain_existing(
        &self,
        candidates: Vec<Candidate>,
        deadline: Deadline,
    ) -> Result<Vec<Candidate>, Error> {
        if candidates.len() < 2 {
            // Trying to take it costs no more than checking it.
            return Ok(candidates);
        }
        // With a sync, items that another consumer has taken are gone even if our server lags.
        let sync = self.context.sync(&self.context.paths.items, deadline);
        let checks = candidates.iter();
        let checks = checks.map(|candidate| self.context.exists(&candidate.path, deadline));
        let (synced, stats) = future::join(sync, future::join_all(checks)).await;
        synced?;
        let stats: Vec<_> = stats.into_iter().collect::<Result<_, _>>()?;
        let mut left = Vec::with_capacity(candidates.len());
        for (candidate, stat) in candidates.into_iter().zip(stats) {
            if stat.is_some_and(|stat| candidate.item.is_current(&stat)) {
                left.push(candidate);
            } else {
                candidate.in_flight.complete();
            }
        }
        Ok(left)
    }

    /// Releases candidates that do not fit into a request, and keeps the contents of some of them.
    pub(super) fn keep_prefetched(&self, candidates: Vec<Candidate>) {
        let (in_flight, read): (Vec<_>, Vec<_>) = candidates
            .into_iter()
            .map(|candidate| (candidate.in_flight, candidate.item))
            .unzip();
        let items = in_flight.iter().zip(read);
        let items = items.map(|(item, read)| (item.id(), item.preconditions.clone(), read));
        self.inventory.lock().keep_prefetched(items);
    }

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
        let now = self.context.known_time();
        let next = self.inventory.lock().begin_prefetch(now);
        let Some((id, preconditions)) = next else {
            return;
        };
        let mut pending = PendingPrefetch {
            inventory: &self.inventory,
            id: Some(id.clone()),
        };
        let path = self.context.paths.item(id.0, &id.1);
        let got = self.context.get(&path, deadline).await;
        pending.id = None;
        // An error is found again when the item is taken.
        if let Ok((data, stat)) = got
            && let Ok(item) = ItemContent::parse(self.context.options.layout, data.into(), &stat)
        {
            self.inventory
                .lock()
                .finish_prefetch(&id, preconditions, item);
        }
    }
}

impl Candidate {
    /// Returns how many bytes taking the item adds to a request.
    pub(crate) fn size(&self) -> usize {
        self.path.as_str().len() + self.item.rest.as_ref().map_or(0, Vec::len)
    }
}

/// A read that is pending. If it is dropped, another call can read the item.
struct PendingPrefetch<'a> {
    inventory: &'a SharedInventory,
    /// `None` once the read has ended.
    id: Option<ItemId>,
}

impl Drop for PendingPrefetch<'_> {
    fn drop(&mut self) {
        if let Some(id) = &self.id {
            self.inventory.lock().cancel_prefetch(id);
        }
    }
}
