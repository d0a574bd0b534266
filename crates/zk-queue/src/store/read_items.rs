//! Reads items' nodes, several with one request, and the next ones while the current ones are being taken.

use std::pin::pin;
use std::sync::{Arc, Mutex};

use futures_util::future;
use zk_core::{Bytes, Error, ErrorKind, NodePath, Stat};

use super::context::QueueContext;
use super::in_flight::{InFlightItem, SharedInventory};
use super::item_content::ItemContent;
use crate::batch_limits::{
    UNKNOWN_SIZE, expected_largest, fitting_count, items_per_read, next_read_count, prefetch_limit,
};
use crate::deadline::Deadline;
use crate::layout::Layout;
use crate::mutex::lock;
use crate::preconditions::Preconditions;
use crate::ready_items::ListedItem;

/// Reads the items of one queue that the inventory lists.
#[derive(Debug)]
pub(crate) struct ItemReader {
    pub(super) context: Arc<QueueContext>,
    pub(super) inventory: Arc<SharedInventory>,
    /// The size of the largest item that is expected, once any was read or found missing.
    largest: Mutex<Option<usize>>,
}

/// An item that was read and may be taken.
#[derive(Debug)]
pub(crate) struct Candidate {
    pub(crate) in_flight: InFlightItem,
    pub(crate) path: NodePath,
    pub(crate) item: ItemContent,
}

impl ItemReader {
    pub(super) fn new(context: &Arc<QueueContext>, inventory: &Arc<SharedInventory>) -> Self {
        Self {
            context: Arc::clone(context),
            inventory: Arc::clone(inventory),
            largest: Mutex::default(),
        }
    }

    /// Reads an item, unless it was read ahead; if it is to be taken, together with some of the next ones. `None` if it is
    /// gone, or malformed and skipped from now on.
    pub(crate) async fn read(
        &self,
        in_flight: InFlightItem,
        deadline: Deadline,
    ) -> Result<Option<Candidate>, Error> {
        if let Some(content) = self.take_prefetched(&in_flight) {
            return Ok(Candidate::of(in_flight, Ok(content)));
        }
        let mut paths = vec![in_flight.path()];
        let largest = *lock(&self.largest);
        let max_ahead = match largest {
            Some(_) if in_flight.preconditions.is_some() => items_per_read(largest) - 1,
            // The first item shows how large they are.
            _ => 0,
        };
        let ahead = self.begin_prefetch(max_ahead);
        paths.extend(ahead.paths(&self.context));
        let mut read = self.get_each(&paths, deadline).await.into_iter();
        let first = read.next().expect("there is one result for each item");
        ahead.finish(self.context.options.layout, read);
        self.judge(in_flight, first)
    }

    /// Reads items, unless they were read ahead; returns one result for each, in their order.
    async fn read_each(
        &self,
        items: Vec<InFlightItem>,
        deadline: Deadline,
    ) -> Vec<Result<Option<Candidate>, Error>> {
        let prefetched: Vec<_> = items
            .iter()
            .map(|item| self.take_prefetched(item))
            .collect();
        let unread = items.iter().zip(&prefetched);
        let unread = unread.filter(|(_, prefetched)| prefetched.is_none());
        let unread: Vec<_> = unread.map(|(item, _)| item.path()).collect();
        let mut read = self.get_each(&unread, deadline).await.into_iter();
        let all = items.into_iter().zip(prefetched);
        all.filter_map(|(item, prefetched)| match prefetched {
            Some(content) => Some(Ok(Candidate::of(item, Ok(content)))),
            None => Some(self.judge(item, read.next()?)),
        })
        .collect()
    }

    fn take_prefetched(&self, item: &InFlightItem) -> Option<ItemContent> {
        // A caller that only reads gets the current content.
        let preconditions = item.preconditions.as_ref()?;
        let id = item.id();
        self.inventory.lock().take_prefetched(&id, preconditions)
    }

    /// Returns what the result of reading an item's node means.
    fn judge(
        &self,
        in_flight: InFlightItem,
        got: Result<(Bytes, Stat), Error>,
    ) -> Result<Option<Candidate>, Error> {
        let content = match got {
            Ok((data, stat)) => ItemContent::parse(self.context.options.layout, data.into(), &stat),
            Err(error) if error.is_no_node() => {
                if in_flight.preconditions.is_some() {
                    self.inventory.lock().contention.on_missing();
                }
                in_flight.complete();
                return Ok(None);
            }
            Err(error) if error.kind() == ErrorKind::NoAuth => {
                Err("the session may not read it".to_owned())
            }
            Err(error) => return Err(error),
        };
        Ok(Candidate::of(in_flight, content))
    }

    /// Reads nodes in one flight, several with one request; returns one result for each, in their order.
    ///
    /// If the reply to several is lost, they are read one by one.
    async fn get_each(
        &self,
        paths: &[NodePath],
        deadline: Deadline,
    ) -> Vec<Result<(Bytes, Stat), Error>> {
        let per_request = items_per_read(*lock(&self.largest));
        let requests = paths.chunks(per_request).map(async |paths| match paths {
            [path] => vec![self.context.get(path, deadline).await],
            paths => {
                let several = self.context.session.get_many(paths);
                match several.timeout(deadline.remaining()).await {
                    Ok(results) => results,
                    Err(error) => vec![Err(error); paths.len()],
                }
            }
        });
        let read = future::join_all(requests).await.concat();
        let mut largest = lock(&self.largest);
        let is_known = largest.is_some();
        let sizes = read.iter().filter_map(|got| match got {
            Ok((data, _)) => Some(data.len()),
            // A consumer that comes late finds many of these before it finds an item.
            Err(error) => (error.is_no_node() && !is_known).then_some(UNKNOWN_SIZE),
        });
        *largest = expected_largest(*largest, sizes);
        drop(largest);
        read
    }

    /// Reads several items, and returns those that exist, in their order.
    ///
    /// It stops when they fill a request, to which each adds its `size`, or when a read fails; those that were read
    /// before that and fit are returned, and the others released.
    pub(crate) async fn read_all(
        &self,
        items: Vec<InFlightItem>,
        size: impl Fn(&Candidate) -> usize,
        deadline: Deadline,
    ) -> Result<Vec<Candidate>, Error> {
        let mut items = items.into_iter();
        let mut candidates: Vec<Candidate> = Vec::new();
        loop {
            let count = next_read_count(*lock(&self.largest));
            let flight: Vec<_> = items.by_ref().take(count).collect();
            let fitting = fitting_count(candidates.iter().map(&size));
            if flight.is_empty() || fitting < candidates.len() {
                self.keep_prefetched(candidates.split_off(fitting));
                return Ok(candidates);
            }
            for read in self.read_each(flight, deadline).await {
                match read {
                    Ok(candidate) => candidates.extend(candidate),
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

    /// Awaits `work`, and reads up to `max` of the next items concurrently, unless enough were read before.
    ///
    /// Reading reserves nothing: any consumer can take the items, and taking one checks that it is unchanged.
    pub(crate) async fn with_prefetch<T>(
        &self,
        max: usize,
        deadline: Deadline,
        work: impl Future<Output = T>,
    ) -> T {
        let mut work = pin!(work);
        tokio::select! {
            biased;
            () = self.prefetch(max, deadline) => {}
            done = &mut work => return done,
        }
        work.await
    }

    async fn prefetch(&self, max: usize, deadline: Deadline) {
        let pending = self.begin_prefetch(prefetch_limit(*lock(&self.largest), max));
        let paths = pending.paths(&self.context);
        if !paths.is_empty() {
            let read = self.get_each(&paths, deadline).await;
            pending.finish(self.context.options.layout, read);
        }
    }

    fn begin_prefetch(&self, max: usize) -> PendingPrefetch<'_> {
        let now = self.context.known_time();
        PendingPrefetch {
            inventory: &self.inventory,
            items: self.inventory.lock().begin_prefetch(now, max),
        }
    }
}

impl Candidate {
    /// Returns the item with this content; `None` if it is malformed, for that reason, and quarantined.
    fn of(in_flight: InFlightItem, content: Result<ItemContent, String>) -> Option<Self> {
        match content {
            Ok(item) => Some(Self {
                path: in_flight.path(),
                in_flight,
                item,
            }),
            Err(reason) => {
                in_flight.quarantine(&reason);
                None
            }
        }
    }

    /// Returns how many bytes taking the item adds to a request.
    pub(crate) fn size(&self) -> usize {
        self.path.as_str().len() + self.item.rest.as_ref().map_or(0, Vec::len)
    }
}

/// Items that are being read ahead. If it is dropped, another call can read them.
struct PendingPrefetch<'a> {
    inventory: &'a SharedInventory,
    /// None once the read has ended.
    items: Vec<(ListedItem, Arc<Preconditions>)>,
}

impl PendingPrefetch<'_> {
    fn paths(&self, context: &QueueContext) -> Vec<NodePath> {
        let items = self.items.iter();
        let paths = items.map(|(item, _)| context.paths.item(item.segment, &item.name));
        paths.collect()
    }

    /// Keeps what was read: one result for each item, in their order.
    fn finish(
        mut self,
        layout: Layout,
        read: impl IntoIterator<Item = Result<(Bytes, Stat), Error>>,
    ) {
        let items = std::mem::take(&mut self.items);
        let mut inventory = self.inventory.lock();
        for ((item, preconditions), got) in items.into_iter().zip(read) {
            let content = got.map(|(data, stat)| ItemContent::parse(layout, data.into(), &stat));
            match content {
                Ok(Ok(content)) => inventory.finish_prefetch(&item.id(), preconditions, content),
                Err(error) if error.is_no_node() => inventory.forget_prefetch(&item),
                // The error is found again when the item is taken.
                Ok(Err(_)) | Err(_) => inventory.cancel_prefetch(&item.id()),
            }
        }
    }
}

impl Drop for PendingPrefetch<'_> {
    fn drop(&mut self) {
        let mut inventory = self.inventory.lock();
        for (item, _) in &self.items {
            inventory.cancel_prefetch(&item.id());
        }
    }
}
