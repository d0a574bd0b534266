//! `Queue`: ZooKeeper's queue recipe, in which an item is taken before it is processed.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future;
use zk_core::IntoNodePath;
use zk_core::NodePath;
use zk_core::Session;
use zk_core::codec::Codec;
use zk_core::codec::DecodeError;

use crate::batch_limits::MAX_ITEMS_PER_READ;
use crate::batch_limits::contention_window;
use crate::deadline::Deadline;
use crate::error::PathError;
use crate::error::TakeError;
use crate::offer::Offer;
use crate::offer::OfferAll;
use crate::options::QueueOptions;
use crate::paths::QueuePaths;
use crate::paths::parse_queue_path;
use crate::store::Candidate;
use crate::store::InFlightItem;
use crate::store::ItemStore;
use crate::store::Purpose;
use crate::store::ReadOutcome;
use crate::store::TakenItem;

/// A queue from which an item is taken before it is processed.
///
/// Clones are cheap and share the list of items; several tasks may use one queue.
/// Each item is taken once, by one consumer, even if replies are lost. Items that a process has taken are lost if it
/// dies before it has processed them; use a [`WorkQueue`](crate::WorkQueue) if that is not acceptable.
///
/// # Examples
///
/// ```no_run
/// # async fn demo(session: zk_core::Session) -> Result<(), Box<dyn std::error::Error>> {
/// use zk_core::codec::Text;
/// use zk_queue::Queue;
///
/// let queue = Queue::new(&session, "/mail/outgoing", Text)?;
/// queue.offer(&"to anna: hello".to_owned()).await?;
/// let letter = queue.take().await?;
/// # Ok(())
/// # }
/// ```
pub struct Queue<T> {
    store: Arc<ItemStore>,
    codec: Arc<dyn Codec<T>>,
}

/// The items that were taken until the queue was empty or a call failed; returned by [`Queue::drain`].
#[derive(Debug)]
#[non_exhaustive]
#[must_use = "the items have been taken out of the queue"]
pub struct Drained<T> {
    /// The items, in their order.
    pub items: Vec<T>,
    /// `Ok` if the queue was empty in the end; otherwise why the rest was not taken.
    pub end: Result<(), TakeError>,
}

impl<T: Send + 'static> Queue<T> {
    /// Returns a handle of the queue at `path`, with [`QueueOptions::default`]. Sends nothing.
    ///
    /// # Errors
    ///
    /// If `path` is not a valid node path, or is the root.
    pub fn new(
        session: &Session,
        path: impl IntoNodePath,
        codec: impl Codec<T> + 'static,
    ) -> Result<Self, PathError> {
        Self::with_options(session, path, codec, &QueueOptions::default())
    }

    /// Returns a handle of the queue at `path`. Sends nothing.
    ///
    /// # Errors
    ///
    /// If `path` is not a valid node path, or is the root.
    pub fn with_options(
        session: &Session,
        path: impl IntoNodePath,
        codec: impl Codec<T> + 'static,
        options: &QueueOptions,
    ) -> Result<Self, PathError> {
        let paths = QueuePaths::beside(&parse_queue_path(path)?);
        Ok(Self {
            store: Arc::new(ItemStore::new(session, paths, None, options.clone())),
            codec: Arc::new(codec),
        })
    }

    /// Returns the path of the queue.
    pub fn path(&self) -> &NodePath {
        &self.store.context.paths.items
    }

    /// Adds an item at the end of the queue.
    pub fn offer(&self, item: &T) -> Offer {
        Offer::new(&self.store.joined_offers, &*self.codec, item)
    }

    /// Adds several items at the end of the queue, in their order.
    pub fn offer_all<I>(&self, items: I) -> OfferAll
    where
        I: IntoIterator<Item: Borrow<T>>,
    {
        OfferAll::new(&self.store.offers, &*self.codec, items)
    }

    /// Returns the first item without taking it; `None` if the queue is empty.
    ///
    /// # Errors
    ///
    /// [`TakeError::Core`] if a read failed.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    ///
    /// # Cost
    ///
    /// One round trip, and one more if the list of items is used up or too old.
    pub async fn peek(&self) -> Result<Option<T>, TakeError> {
        let deadline = self.store.context.deadline();
        let first = self.first(Purpose::Read, &mut 0, deadline).await?;
        Ok(first.map(|(_, item)| item))
    }

    /// Returns the first item without taking it; an error if the queue is empty.
    ///
    /// # Errors
    ///
    /// [`TakeError::Empty`], and those of [`peek`](Self::peek).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    ///
    /// # Cost
    ///
    /// As [`peek`](Self::peek).
    pub async fn element(&self) -> Result<T, TakeError> {
        self.peek().await?.ok_or_else(|| self.empty())
    }

    /// Takes the first item; `None` if the queue is empty.
    ///
    /// `None` means that the queue was empty at some moment since the call began, on a server that had caught up then.
    /// Items that other tasks of this process are taking, and items that are skipped, do not count.
    ///
    /// # Errors
    ///
    /// [`TakeError::Unknown`], with the item, if it may or may not have been taken; [`TakeError::Core`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: if the call is dropped and takes an item, the item is put back in the background, to its old place
    /// or to the end of its priority (see guarantee 3 of the [crate]). Until then other consumers may take the items
    /// behind it, and it is lost if the process ends before. [`Session::close`] waits for it.
    ///
    /// # Session loss
    ///
    /// A fatal error; [`TakeError::Unknown`] if an item may have been taken.
    ///
    /// # Cost
    ///
    /// One round trip: a write, and with every eighth take concurrently a read of the next eight items. And these:
    ///
    /// - one more for an item that was not read ahead, as the first one;
    /// - one more if the list of items is used up or too old;
    /// - two more for a new token: in the first call, and whenever more calls are in flight than before;
    /// - two more for the first call that finds items in a new node of the queue;
    /// - two more if a segment was started since the list was read, and a new list if the item is in a segment or the
    ///   layout has priorities.
    pub async fn poll(&self) -> Result<Option<T>, TakeError> {
        let deadline = self.store.context.deadline();
        let mut refusals = 0;
        while let Some((candidate, item)) =
            self.first(Purpose::Change, &mut refusals, deadline).await?
        {
            let taking = self.store.takes.take(vec![candidate], deadline);
            // What is read ahead is wasted if other consumers are faster.
            let ahead = if refusals == 0 { MAX_ITEMS_PER_READ } else { 1 };
            let taken = self.store.items.with_prefetch(ahead, deadline, taking);
            if !taken.await?.is_empty() {
                return Ok(Some(item));
            }
            refusals += 1;
        }
        Ok(None)
    }

    /// Takes the first item; an error if the queue is empty.
    ///
    /// # Errors
    ///
    /// [`TakeError::Empty`], and those of [`poll`](Self::poll).
    ///
    /// # Cancel safety
    ///
    /// As [`poll`](Self::poll).
    ///
    /// # Cost
    ///
    /// As [`poll`](Self::poll).
    pub async fn remove(&self) -> Result<T, TakeError> {
        self.poll().await?.ok_or_else(|| self.empty())
    }

    /// Takes the first item, and waits until there is one.
    ///
    /// # Errors
    ///
    /// As [`poll`](Self::poll).
    ///
    /// # Cancel safety
    ///
    /// As [`poll`](Self::poll).
    ///
    /// # Cost
    ///
    /// As [`poll`](Self::poll). While it waits: two watches, one more for each segment, and a list each time that an
    /// item is added or taken, two if another consumer took it.
    /// Tasks that wait at the same time on clones of one queue share the watches and the lists.
    pub async fn take(&self) -> Result<T, TakeError> {
        loop {
            if let Some(item) = self.take_timeout(Duration::MAX).await? {
                return Ok(item);
            }
        }
    }

    /// Takes the first item, and waits at most `time` for one; `None` if there was none.
    ///
    /// It tries once even if `time` is zero. Requests may take longer than `time`: each attempt has the operation
    /// timeout of the session.
    ///
    /// # Errors
    ///
    /// As [`poll`](Self::poll).
    ///
    /// # Cancel safety
    ///
    /// As [`poll`](Self::poll).
    ///
    /// # Cost
    ///
    /// As [`take`](Self::take), without watches if `time` is zero.
    pub async fn take_timeout(&self, time: Duration) -> Result<Option<T>, TakeError> {
        let wait_deadline = Deadline::after(time);
        loop {
            if let Some(item) = self.poll().await? {
                return Ok(Some(item));
            }
            if wait_deadline.is_over() {
                return Ok(None);
            }
            self.store.list.wait(wait_deadline).await?;
        }
    }

    /// Takes up to `max` items (at most 1000) from the front in one transaction; none if the queue is empty.
    ///
    /// It takes fewer if the request would exceed half a megabyte, or if other consumers take some of the items first.
    ///
    /// # Errors
    ///
    /// As [`poll`](Self::poll), with all items.
    ///
    /// # Cancel safety
    ///
    /// As [`poll`](Self::poll): all items are put back.
    ///
    /// # Cost
    ///
    /// As [`poll`](Self::poll), and a read for each item, in two flights, or more if the items are large.
    /// Each time that other consumers take some of the items, two round trips more, however many they take. From the
    /// second time on, only the later half is tried, because consumers that take single items take them from the front.
    pub async fn poll_batch(&self, max: usize) -> Result<Vec<T>, TakeError> {
        let deadline = self.store.context.deadline();
        if max == 0 {
            return Ok(Vec::new());
        }
        let mut refusals = 0;
        while let Some(batch) = self.batch(max, refusals, deadline).await? {
            let (items, _) = self.take_batch(batch, deadline).await?;
            if !items.is_empty() {
                return Ok(items);
            }
            refusals += 1;
        }
        Ok(Vec::new())
    }

    /// Takes all items until the queue is empty.
    ///
    /// If a call fails, the items that were taken before are returned with the error.
    ///
    /// # Cancel safety
    ///
    /// As [`poll`](Self::poll): all items are put back.
    ///
    /// # Cost
    ///
    /// A flight of reads, eight items with each, and a write for each 1000 items. The next items are read while the ones
    /// before are being taken.
    pub async fn drain(&self) -> Drained<T> {
        let mut items = Vec::new();
        let mut requeue = RequeueOnDrop {
            store: Arc::clone(&self.store),
            taken: Vec::new(),
        };
        let mut ahead = None;
        let end = loop {
            let deadline = self.store.context.deadline();
            let batch = match ahead.take() {
                Some(batch) => batch,
                None => match self.batch(MAX_TAKEN, 0, deadline).await {
                    Ok(Some(batch)) => batch,
                    Ok(None) => break Ok(()),
                    Err(error) => break Err(error),
                },
            };
            let taking = async {
                let (more, taken) = self.take_batch(batch, deadline).await?;
                items.extend(more);
                requeue.taken.extend(taken);
                Ok(())
            };
            // The reads are sent first: a server makes the requests of a session one after the other.
            let (next, taken) = future::join(self.batch_ahead(deadline), taking).await;
            if let Err(error) = taken {
                break Err(error);
            }
            ahead = next;
        };
        requeue.taken.clear();
        Drained { items, end }
    }

    /// Counts the items.
    ///
    /// Every child of the queue's nodes counts, including children that are not items and items that are not due yet.
    ///
    /// # Errors
    ///
    /// [`TakeError::Core`] if a read failed.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    ///
    /// # Cost
    ///
    /// One round trip, two with segments. It reads no list of items.
    pub async fn len(&self) -> Result<usize, TakeError> {
        Ok(self.store.offers.len(self.store.context.deadline()).await?)
    }

    /// Returns whether [`len`](Self::len) is zero.
    ///
    /// # Errors
    ///
    /// As [`len`](Self::len).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    ///
    /// # Cost
    ///
    /// As [`len`](Self::len).
    pub async fn is_empty(&self) -> Result<bool, TakeError> {
        Ok(self.len().await? == 0)
    }

    /// Returns the age of the oldest item that can be taken, by the leader's clock; `None` if there is none.
    ///
    /// It reads the first item of each priority, in the first segment that has one. That is the oldest one, except that
    /// an item that was put back comes before older ones, and its age counts from then.
    /// Items that tasks of this process are taking do not count.
    ///
    /// # Errors
    ///
    /// [`TakeError::Core`] if a read failed.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    ///
    /// # Cost
    ///
    /// Lists of as many segments as are needed to find an item, or of all if there are priorities or delays; a read for
    /// each priority; and a write if the leader's time is not known.
    pub async fn oldest_age(&self) -> Result<Option<Duration>, TakeError> {
        Ok(self
            .store
            .list
            .oldest_age(self.store.context.deadline())
            .await?)
    }

    /// Decodes an item of an [`UnknownTake`](crate::UnknownTake).
    ///
    /// # Errors
    ///
    /// If the codec cannot decode it.
    pub fn decode(&self, data: &[u8]) -> Result<T, DecodeError> {
        self.codec.decode(data)
    }

    fn empty(&self) -> TakeError {
        TakeError::Empty {
            path: self.path().clone(),
        }
    }

    /// Reads the first item, or a random later one after several refusals.
    async fn first(
        &self,
        purpose: Purpose,
        refusals: &mut u32,
        deadline: Deadline,
    ) -> Result<Option<(Candidate, T)>, TakeError> {
        while let Some(in_flight) = self
            .store
            .list
            .next_item(purpose, contention_window(*refusals, 1), deadline)
            .await?
        {
            match self.store.items.read(in_flight, deadline).await? {
                ReadOutcome::Item(candidate) => {
                    if let Some(first) = self.decode_candidate(candidate) {
                        return Ok(Some(first));
                    }
                }
                ReadOutcome::Gone if purpose == Purpose::Change => *refusals += 1,
                ReadOutcome::Gone | ReadOutcome::Quarantined => {}
            }
        }
        Ok(None)
    }

    /// Reads the first items, or later ones after several refusals; `None` if the queue is empty.
    async fn batch(
        &self,
        max: usize,
        refusals: u32,
        deadline: Deadline,
    ) -> Result<Option<Vec<(Candidate, T)>>, TakeError> {
        let max = max.min(MAX_TAKEN);
        let window = contention_window(refusals, max);
        while let Some(first) = self
            .store
            .list
            .next_item(Purpose::Change, window, deadline)
            .await?
        {
            let batch = self.read_batch(first, max, deadline).await?;
            if !batch.is_empty() {
                return Ok(Some(batch));
            }
        }
        Ok(None)
    }

    /// Reads the first items of the known list; `None` if there are none, or they cannot be read now.
    async fn batch_ahead(&self, deadline: Deadline) -> Option<Vec<(Candidate, T)>> {
        let first = self.store.list.next_known()?;
        let batch = self.read_batch(first, MAX_TAKEN, deadline).await.ok()?;
        (!batch.is_empty()).then_some(batch)
    }

    /// Reads `first` and the items behind it, as many as can be taken in one transaction.
    async fn read_batch(
        &self,
        first: InFlightItem,
        max: usize,
        deadline: Deadline,
    ) -> Result<Vec<(Candidate, T)>, TakeError> {
        let items = self.store.list.with_following(first, max);
        let candidates = self
            .store
            .items
            .read_all(items, Candidate::size, deadline)
            .await?;
        let decoded = candidates
            .into_iter()
            .filter_map(|candidate| self.decode_candidate(candidate));
        Ok(decoded.collect())
    }

    /// Takes a batch, and returns the items that still existed.
    async fn take_batch(
        &self,
        batch: Vec<(Candidate, T)>,
        deadline: Deadline,
    ) -> Result<(Vec<T>, Vec<TakenItem>), TakeError> {
        let (candidates, items): (Vec<_>, Vec<_>) = batch.into_iter().unzip();
        let paths: Vec<_> = candidates
            .iter()
            .map(|candidate| candidate.path.clone())
            .collect();
        let taken = self.store.takes.take(candidates, deadline).await?;
        // `taken` has the same order as `paths`, without the items that were gone.
        let mut taken_paths = taken.iter().map(|taken| &taken.path).peekable();
        let kept = paths.iter().zip(items);
        let kept = kept.filter(|(path, _)| taken_paths.next_if_eq(path).is_some());
        let kept = kept.map(|(_, item)| item).collect();
        Ok((kept, taken))
    }

    fn decode_candidate(&self, candidate: Candidate) -> Option<(Candidate, T)> {
        match self.codec.decode(&candidate.item.data) {
            Ok(item) => Some((candidate, item)),
            Err(error) => {
                candidate.in_flight.quarantine(&error.to_string());
                None
            }
        }
    }
}

impl<T> Clone for Queue<T> {
    fn clone(&self) -> Self {
        Self {
            store: Arc::clone(&self.store),
            codec: Arc::clone(&self.codec),
        }
    }
}

impl<T> fmt::Debug for Queue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue")
            .field("path", &self.store.context.paths.items)
            .field("layout", &self.store.context.options.layout)
            .finish_non_exhaustive()
    }
}

/// Puts the items back that it has when it is dropped.
struct RequeueOnDrop {
    store: Arc<ItemStore>,
    taken: Vec<TakenItem>,
}

impl Drop for RequeueOnDrop {
    fn drop(&mut self) {
        if self.taken.is_empty() {
            return;
        }
        let (store, taken) = (Arc::clone(&self.store), std::mem::take(&mut self.taken));
        self.store.context.session.finish(async move {
            for taken in taken {
                store.takes.requeue(taken).await;
            }
        });
    }
}

/// How many items one transaction takes at most.
const MAX_TAKEN: usize = 1000;
