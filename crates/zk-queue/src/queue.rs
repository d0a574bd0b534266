//! `Queue`: ZooKeeper's queue recipe, in which an item is taken before it is processed.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, future, stream};
use zk_core::codec::{Codec, DecodeError};
use zk_core::{IntoNodePath, NodePath, Session};

use crate::batch_limits::MAX_ITEMS_PER_READ;
use crate::codec_panic::catch_decode_panic;
use crate::deadline::Deadline;
use crate::error::{CancelError, LayoutError, PathError, TakeError};
use crate::item_id::ItemId;
use crate::offer::{Offer, OfferAll};
use crate::options::QueueOptions;
use crate::paths::{QueuePaths, parse_queue_path};
use crate::store::{
    CancelOutcome, CancelledItems, Candidate, InFlightItem, ItemStore, Purpose, TakenItem,
};

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

/// How many items a queue has; returned by [`Queue::counts`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueCounts {
    /// Items that can be taken.
    pub ready: usize,
    /// Items whose delay is not over.
    pub delayed: usize,
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

    /// Checks that the queue has the [layout](crate::Layout) of this handle. Call it once at the start: with another
    /// layout, a consumer skips all items, and logs a warning for each.
    ///
    /// The process that creates the queue's node writes the layout into its data. If another client or an earlier build
    /// has created the node, the names of its items show the layout; an empty queue has any.
    /// If there is neither a node nor an item in segments, this creates the node. In the layouts of Curator and kazoo it stays when the queue is empty, and with
    /// it the layout: delete it before the path gets another one.
    ///
    /// # Errors
    ///
    /// [`LayoutError::Mismatch`], or [`LayoutError::Core`] if the node could not be read or created.
    ///
    /// # Cancel safety
    ///
    /// Safe: the node may be created.
    ///
    /// # Cost
    ///
    /// One round trip, and a list of a queue whose node names no layout. If there is no node, a list of the segments, and of
    /// the first one; or two more round trips and a write if there are none.
    pub async fn check_layout(&self) -> Result<(), LayoutError> {
        let context = &self.store.context;
        context.check_layout(context.deadline()).await
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

    /// Removes an item that no consumer has taken; see [`CancelOutcome`].
    ///
    /// Exactly one of this call and the consumers gets the item, also if a reply is lost. It never removes another item.
    ///
    /// # Errors
    ///
    /// [`CancelError::OtherQueue`], [`CancelError::Unknown`] if the item may have been removed, or
    /// [`CancelError::Core`] if it was not.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe once it was polled: the item may still be removed.
    ///
    /// # Session loss
    ///
    /// A fatal error; [`CancelError::Unknown`] if the item may have been removed.
    ///
    /// # Cost
    ///
    /// Two reads one after the other and a write, or three and a write for an item of a segment. And these:
    ///
    /// - two more for a new token: in the first call, and whenever more calls are in flight than before;
    /// - two more, and the lists, in a new node of the queue from which no item was taken so far;
    /// - all again if consumers take or change the item at that moment, or a segment is started;
    /// - a transaction that changes nothing and the reads again before [`Gone`](CancelOutcome::Gone).
    pub async fn cancel(&self, id: &ItemId) -> Result<CancelOutcome, CancelError> {
        let deadline = self.store.context.deadline();
        self.store.cancel(id, deadline).await
    }

    /// Removes the items that were offered with this [id of the application](crate::Offer::id) and that no consumer has
    /// taken, as Curator's `DistributedIdQueue` does.
    ///
    /// It is about the items whose offers returned before this call. Exactly one of this call and the consumers gets each
    /// item, also if a reply is lost. Ids that Curator stores alike are alike: `order_1` also removes the items of `order/1`
    /// and `order|1`.
    ///
    /// It removes one item after the other; the operation timeout applies to each of them.
    ///
    /// # Errors
    ///
    /// [`CancelError::NoIds`] unless the layout is [`Layout::CuratorId`](crate::Layout::CuratorId). After
    /// [`CancelError::Unknown`] or [`CancelError::Core`], some of the items may have been removed; the call may be
    /// repeated.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe once it was polled: some of the items may still be removed.
    ///
    /// # Session loss
    ///
    /// A fatal error; [`CancelError::Unknown`] if the item may have been removed.
    ///
    /// # Cost
    ///
    /// A transaction that changes nothing, the lists of all items, and for each item with the id a read and what
    /// [`cancel`](Self::cancel) costs.
    pub async fn cancel_with_id(&self, id: &str) -> Result<CancelledItems, CancelError> {
        let deadline = self.store.context.deadline();
        self.store.cancel_with_id(id, deadline).await
    }

    /// Returns the first item without taking it; `None` if the queue is empty.
    ///
    /// # Errors
    ///
    /// [`TakeError::Core`] if a read failed.
    ///
    /// # Cost
    ///
    /// One round trip, and one more if the list of items is used up or too old.
    pub async fn peek(&self) -> Result<Option<T>, TakeError> {
        let deadline = self.store.context.deadline();
        let first = self.first(Purpose::Read, deadline).await?;
        Ok(first.map(|(_, item)| item))
    }

    /// Returns the first item without taking it; an error if the queue is empty.
    ///
    /// # Errors
    ///
    /// [`TakeError::Empty`], and those of [`peek`](Self::peek), which costs the same.
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
        while let Some((candidate, item)) = self.first(Purpose::Change, deadline).await? {
            let taking = self.store.takes.take(vec![candidate], deadline);
            let ahead = MAX_ITEMS_PER_READ;
            let taken = self.store.items.with_prefetch(ahead, deadline, taking);
            if !taken.await?.is_empty() {
                return Ok(Some(item));
            }
        }
        Ok(None)
    }

    /// Takes the first item; an error if the queue is empty.
    ///
    /// # Errors
    ///
    /// [`TakeError::Empty`], and those of [`poll`](Self::poll), which costs the same.
    pub async fn remove(&self) -> Result<T, TakeError> {
        self.poll().await?.ok_or_else(|| self.empty())
    }

    /// Takes the first item, and waits until there is one.
    ///
    /// # Errors
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

    /// Turns this handle into a stream of items, taken one after the other as by [`take`](Self::take).
    ///
    /// The stream waits while there is no item. It takes an item only while it is polled.
    ///
    /// # Errors
    ///
    /// The stream returns the errors of [`poll`](Self::poll). It ends after a fatal one, and continues after another.
    ///
    /// # Cancel safety
    ///
    /// A dropped call of `next` loses nothing: an item that was being taken is returned by the next one.
    ///
    /// # Cost
    ///
    /// As [`take`](Self::take), for each item.
    ///
    /// # Dropping
    ///
    /// If the stream is dropped, an item that was being taken is put back, as by a dropped call of [`poll`](Self::poll).
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn demo(queue: zk_queue::Queue<String>) -> Result<(), zk_queue::TakeError> {
    /// use futures_util::TryStreamExt;
    ///
    /// let mut items = std::pin::pin!(queue.into_stream());
    /// while let Some(item) = items.try_next().await? {
    ///     println!("{item}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn into_stream(self) -> impl Stream<Item = Result<T, TakeError>> + Send + 'static {
        stream::unfold(Some(self), async |queue| {
            let queue = queue?;
            let taken = queue.take().await;
            let is_over = taken.as_ref().is_err_and(TakeError::is_fatal);
            Some((taken, (!is_over).then_some(queue)))
        })
    }

    /// Takes up to `max` items (at most 1000) from the front in one transaction; none if the queue is empty.
    ///
    /// It takes fewer if the request would exceed half a megabyte, or if other consumers take some of the items first.
    ///
    /// # Errors
    ///
    /// As [`poll`](Self::poll), with all items.
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
        while let Some(batch) = self.batch(max, deadline).await? {
            let (items, _) = self.take_batch(batch, deadline).await?;
            if !items.is_empty() {
                return Ok(items);
            }
        }
        Ok(Vec::new())
    }

    /// Takes all items until the queue is empty.
    ///
    /// If a call fails, the items that were taken before are returned with the error.
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
                None => match self.batch(MAX_TAKEN, deadline).await {
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
    /// The server of the session may lag: what another session did a moment ago counts after a
    /// [`sync`](zk_core::Session::sync).
    ///
    /// # Errors
    ///
    /// [`TakeError::Core`] if a read failed.
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
    /// As [`len`](Self::len), which costs the same.
    pub async fn is_empty(&self) -> Result<bool, TakeError> {
        Ok(self.len().await? == 0)
    }

    /// Counts the items that are ready and those that are delayed, by the leader's clock.
    ///
    /// Children that are not items do not count; items that this process skips do. The lists are read one after the other,
    /// from a server that may lag, so the numbers are those of a short time and not of one moment.
    ///
    /// # Errors
    ///
    /// [`TakeError::Core`] if a read failed.
    ///
    /// # Cost
    ///
    /// The lists of all items, in one round trip, or one more for each sixteen segments; and a write if the layout has
    /// delays and the leader's time is not known. [`len`](Self::len) reads no lists.
    pub async fn counts(&self) -> Result<QueueCounts, TakeError> {
        let counts = self.store.counts(self.store.context.deadline()).await?;
        Ok(QueueCounts {
            ready: counts.ready,
            delayed: counts.delayed,
        })
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

    /// Reads the first item, or a later one while other consumers take items, too.
    async fn first(
        &self,
        purpose: Purpose,
        deadline: Deadline,
    ) -> Result<Option<(Candidate, T)>, TakeError> {
        while let Some(in_flight) = self.store.list.next_item(purpose, deadline).await? {
            let candidate = self.store.items.read(in_flight, deadline).await?;
            if let Some(first) = candidate.and_then(|it| self.decode_candidate(it)) {
                return Ok(Some(first));
            }
        }
        Ok(None)
    }

    /// Reads the first items, or later ones while other consumers take items, too; `None` if the queue is empty.
    async fn batch(
        &self,
        max: usize,
        deadline: Deadline,
    ) -> Result<Option<Vec<(Candidate, T)>>, TakeError> {
        let max = max.min(MAX_TAKEN);
        while let Some(first) = self.store.list.next_item(Purpose::Change, deadline).await? {
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
        match catch_decode_panic(&*self.codec, &candidate.item.data) {
            Ok(item) => Some((candidate, item)),
            Err(why) => {
                candidate.in_flight.quarantine(&why);
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
