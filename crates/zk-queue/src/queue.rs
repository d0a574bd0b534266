//! The queue of ZooKeeper's recipe.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use zk_core::NodePath;
use zk_core::ParsePathError;
use zk_core::Session;
use zk_core::codec::Codec;
use zk_core::codec::DecodeError;

use crate::batch_limits::reach;
use crate::deadline::Deadline;
use crate::error::PathError;
use crate::error::TakeError;
use crate::offer::Offer;
use crate::offer::OfferAll;
use crate::options::QueueOptions;
use crate::paths::Place;
use crate::store::Line;
use crate::store::Pick;
use crate::store::Purpose;
use crate::store::Read;
use crate::store::Taken;

/// A queue from which an item is taken before it is processed.
///
/// Clones share what they know of the queue, and cost nothing; several tasks may use one queue.
/// Every item is taken once, by one consumer, also when answers are lost; what a process had taken when it dies is gone.
/// Use a [`WorkQueue`](crate::WorkQueue) where that must not be.
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
    line: Arc<Line>,
    codec: Arc<dyn Codec<T>>,
}

/// What was taken out of a queue until it was empty, or until something went wrong.
#[derive(Debug)]
#[non_exhaustive]
#[must_use = "it has the items that were taken"]
pub struct Drained<T> {
    /// The items, in their order.
    pub items: Vec<T>,
    /// Whether the queue was empty in the end, or what kept the rest from being taken.
    pub end: Result<(), TakeError>,
}

impl<T: Send + 'static> Queue<T> {
    /// Describes the queue at `path`, with the options of [`QueueOptions::default`]. Nothing is sent.
    ///
    /// # Errors
    ///
    /// When `path` is not a path, or is the root.
    pub fn new<P>(
        session: &Session,
        path: P,
        codec: impl Codec<T> + 'static,
    ) -> Result<Self, PathError>
    where
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        Self::with_options(session, path, codec, &QueueOptions::default())
    }

    /// Describes the queue at `path`. Nothing is sent.
    ///
    /// # Errors
    ///
    /// When `path` is not a path, or is the root.
    pub fn with_options<P>(
        session: &Session,
        path: P,
        codec: impl Codec<T> + 'static,
        options: &QueueOptions,
    ) -> Result<Self, PathError>
    where
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        let path = path
            .try_into()
            .map_err(|error| PathError::Parse(error.into()))?;
        let place = Place::beside(&path).ok_or(PathError::Root)?;
        Ok(Self {
            line: Arc::new(Line::new(session, place, None, options.clone())),
            codec: Arc::new(codec),
        })
    }

    /// Returns the path of the queue.
    pub fn path(&self) -> &NodePath {
        &self.line.place.items
    }

    /// Offers an item at the end of the queue.
    pub fn offer(&self, item: &T) -> Offer {
        Offer::new(&self.line, self.codec.encode(item))
    }

    /// Offers several items at the end of the queue, in their order.
    pub fn offer_all<I>(&self, items: I) -> OfferAll
    where
        I: IntoIterator<Item: Borrow<T>>,
    {
        let encoded = items
            .into_iter()
            .map(|item| self.codec.encode(item.borrow()));
        OfferAll::new(&self.line, encoded.collect())
    }

    /// Reads the first item and leaves it there; `None` when the queue is empty.
    ///
    /// # Errors
    ///
    /// [`TakeError::Core`] when a read failed.
    ///
    /// # Cancel safety
    ///
    /// Safe, nothing happened.
    ///
    /// # Session loss
    ///
    /// A fatal error.
    ///
    /// # Cost
    ///
    /// One round trip, and one more when the list of items is used up or too old.
    pub async fn peek(&self) -> Result<Option<T>, TakeError> {
        let deadline = self.line.deadline();
        let first = self.first(Purpose::Look, &mut 0, deadline).await?;
        Ok(first.map(|(_, item)| item))
    }

    /// Reads the first item and leaves it there; an error when the queue is empty.
    ///
    /// # Errors
    ///
    /// [`TakeError::Empty`], and as [`peek`](Self::peek).
    ///
    /// # Cancel safety
    ///
    /// Safe, nothing happened.
    ///
    /// # Session loss
    ///
    /// A fatal error.
    ///
    /// # Cost
    ///
    /// As [`peek`](Self::peek).
    pub async fn element(&self) -> Result<T, TakeError> {
        self.peek().await?.ok_or_else(|| self.empty())
    }

    /// Takes the first item; `None` when the queue is empty.
    ///
    /// Empty it was at some moment since the call began, on a server that had caught up then; but for items that other
    /// tasks of this process were about to take, and those that are passed over.
    ///
    /// # Errors
    ///
    /// [`TakeError::Undecided`], with the item, when nobody knows whether it was taken; [`TakeError::Core`].
    ///
    /// # Cancel safety
    ///
    /// Safe, nothing is lost: an item that is taken when nobody waits for it any more is put back, in the background, to
    /// its place or to the end of its priority; guarantee 3 of the [crate] says when to which.
    /// Until then others may take those behind it, and it is gone if the process ends before; [`Session::close`] waits.
    ///
    /// # Session loss
    ///
    /// A fatal error; [`TakeError::Undecided`] if an item may have been taken.
    ///
    /// # Cost
    ///
    /// A write, and a read of the next item in the same flight: one round trip.
    /// One more for an item that was not read with the one before, and one when the list of items is used up or too old.
    /// Two more for the first call of a session and for each one that is made at the same time as others, and two for
    /// the first one that finds items in a new node of the queue.
    /// Two more when a segment was begun since the list was read, which is read again for items of segments and where there
    /// are priorities.
    pub async fn poll(&self) -> Result<Option<T>, TakeError> {
        let deadline = self.line.deadline();
        let mut refusals = 0;
        while let Some((pick, item)) = self.first(Purpose::Take, &mut refusals, deadline).await? {
            let removed = self.line.remove(vec![pick], deadline);
            if !self.line.looking_ahead(deadline, removed).await?.is_empty() {
                return Ok(Some(item));
            }
            refusals += 1;
        }
        Ok(None)
    }

    /// Takes the first item; an error when the queue is empty.
    ///
    /// # Errors
    ///
    /// [`TakeError::Empty`], and as [`poll`](Self::poll).
    ///
    /// # Cancel safety
    ///
    /// As [`poll`](Self::poll).
    ///
    /// # Session loss
    ///
    /// As [`poll`](Self::poll).
    ///
    /// # Cost
    ///
    /// As [`poll`](Self::poll).
    pub async fn remove(&self) -> Result<T, TakeError> {
        self.poll().await?.ok_or_else(|| self.empty())
    }

    /// Takes the first item, and waits for one for as long as it takes.
    ///
    /// # Errors
    ///
    /// As [`poll`](Self::poll).
    ///
    /// # Cancel safety
    ///
    /// As [`poll`](Self::poll).
    ///
    /// # Session loss
    ///
    /// As [`poll`](Self::poll).
    ///
    /// # Cost
    ///
    /// As [`poll`](Self::poll); while it waits, two watches and one for each segment, and a list each time that something
    /// is offered or taken, two if that went to somebody else.
    /// Those that wait at the same time on clones of one queue share the watches and the lists.
    pub async fn take(&self) -> Result<T, TakeError> {
        loop {
            if let Some(item) = self.take_timeout(Duration::MAX).await? {
                return Ok(item);
            }
        }
    }

    /// Takes the first item, and waits for one for at most `time`; `None` when there was none.
    ///
    /// It looks once in any case, also if `time` is zero. What it sends takes the time that it takes, beyond `time` if need
    /// be, up to the operation timeout of the session for each attempt.
    ///
    /// # Errors
    ///
    /// As [`poll`](Self::poll).
    ///
    /// # Cancel safety
    ///
    /// As [`poll`](Self::poll).
    ///
    /// # Session loss
    ///
    /// As [`poll`](Self::poll).
    ///
    /// # Cost
    ///
    /// As [`take`](Self::take); without watches if `time` is zero.
    pub async fn take_timeout(&self, time: Duration) -> Result<Option<T>, TakeError> {
        let patience = Deadline::after(time);
        loop {
            if let Some(item) = self.poll().await? {
                return Ok(Some(item));
            }
            if patience.is_over() {
                return Ok(None);
            }
            self.line.wait(patience).await?;
        }
    }

    /// Takes the first items, at most so many and at most 1000, all at once; none when the queue is empty.
    ///
    /// They are fewer if that takes more than half a megabyte of a request, and if others took some of them meanwhile.
    ///
    /// # Errors
    ///
    /// As [`poll`](Self::poll), with all items.
    ///
    /// # Cancel safety
    ///
    /// As [`poll`](Self::poll): all are put back.
    ///
    /// # Session loss
    ///
    /// As [`poll`](Self::poll).
    ///
    /// # Cost
    ///
    /// As [`poll`](Self::poll), and a read for each item, in two flights, or more if the items are large.
    /// Each time that others take some of them meanwhile, two round trips more, however many those are.
    /// From the second time on, the later half alone is tried and the others stay: who takes one after the other takes
    /// from the front.
    pub async fn poll_batch(&self, most: usize) -> Result<Vec<T>, TakeError> {
        let deadline = self.line.deadline();
        if most == 0 {
            return Ok(Vec::new());
        }
        let mut refusals = 0;
        while let Some(batch) = self.batch(most, refusals, deadline).await? {
            let (items, _) = self.taken(batch, deadline).await?;
            if !items.is_empty() {
                return Ok(items);
            }
            refusals += 1;
        }
        Ok(Vec::new())
    }

    /// Takes everything until the queue is empty.
    ///
    /// What was taken before something went wrong is in the answer, too.
    ///
    /// # Cancel safety
    ///
    /// As [`poll`](Self::poll): all are put back.
    ///
    /// # Session loss
    ///
    /// As [`poll`](Self::poll).
    ///
    /// # Cost
    ///
    /// For each 1000 items a flight of reads and a write.
    pub async fn drain(&self) -> Drained<T> {
        let mut items = Vec::new();
        let mut safe = PutBack {
            line: Arc::clone(&self.line),
            taken: Vec::new(),
        };
        let end = loop {
            let deadline = self.line.deadline();
            let batch = match self.batch(MOST_AT_ONCE, 0, deadline).await {
                Ok(Some(batch)) => batch,
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            };
            match self.taken(batch, deadline).await {
                Ok((more, taken)) => {
                    items.extend(more);
                    safe.taken.extend(taken);
                }
                Err(error) => break Err(error),
            }
        };
        safe.taken.clear();
        Drained { items, end }
    }

    /// Counts the items.
    ///
    /// Every child of the queue's nodes counts, also what is no item, and what is not due yet.
    ///
    /// # Errors
    ///
    /// [`TakeError::Core`] when a read failed.
    ///
    /// # Cancel safety
    ///
    /// Safe, nothing happened.
    ///
    /// # Session loss
    ///
    /// A fatal error.
    ///
    /// # Cost
    ///
    /// One round trip, two with segments. No list of items is read.
    pub async fn len(&self) -> Result<usize, TakeError> {
        Ok(self.line.len(self.line.deadline()).await?)
    }

    /// Tells whether [`len`](Self::len) is zero.
    ///
    /// # Errors
    ///
    /// As [`len`](Self::len).
    ///
    /// # Cancel safety
    ///
    /// Safe, nothing happened.
    ///
    /// # Session loss
    ///
    /// A fatal error.
    ///
    /// # Cost
    ///
    /// As [`len`](Self::len).
    pub async fn is_empty(&self) -> Result<bool, TakeError> {
        Ok(self.len().await? == 0)
    }

    /// Tells for how long the oldest of the items that can be taken is there, by the leader's clock; `None` when there
    /// is none.
    ///
    /// What is looked at is the first item of each priority, in the first segment that has one: but for items that were
    /// put back, which are as old as that and come before older ones, it is the oldest.
    /// Items that tasks of this process are about to take do not count.
    ///
    /// # Errors
    ///
    /// [`TakeError::Core`] when a read failed.
    ///
    /// # Cancel safety
    ///
    /// Safe, nothing happened.
    ///
    /// # Session loss
    ///
    /// A fatal error.
    ///
    /// # Cost
    ///
    /// Lists of the items, of as many segments as it takes to find one, or of all where there are priorities or delays; a
    /// read for each priority; and a write to ask for the leader's time if that is not known.
    pub async fn oldest_age(&self) -> Result<Option<Duration>, TakeError> {
        Ok(self.line.oldest_age(self.line.deadline()).await?)
    }

    /// Decodes an item of [`Undecided`](crate::Undecided).
    ///
    /// # Errors
    ///
    /// When the codec does not take it.
    pub fn decode(&self, data: &[u8]) -> Result<T, DecodeError> {
        self.codec.decode(data)
    }

    fn empty(&self) -> TakeError {
        TakeError::Empty {
            path: self.path().clone(),
        }
    }

    /// The first item there is, or one behind it after others were faster so often.
    async fn first(
        &self,
        purpose: Purpose,
        refusals: &mut u32,
        deadline: Deadline,
    ) -> Result<Option<(Pick, T)>, TakeError> {
        while let Some(hand) = self
            .line
            .pick(purpose, reach(*refusals, 1), deadline)
            .await?
        {
            match self.line.read(hand, deadline).await? {
                Read::Item(pick) => {
                    if let Some(first) = self.decoded(pick) {
                        return Ok(Some(first));
                    }
                }
                Read::Gone if purpose == Purpose::Take => *refusals += 1,
                Read::Gone | Read::Unfit => {}
            }
        }
        Ok(None)
    }

    /// The first items there are, or some behind them after others were faster so often; `None` when the queue is empty.
    async fn batch(
        &self,
        most: usize,
        refusals: u32,
        deadline: Deadline,
    ) -> Result<Option<Vec<(Pick, T)>>, TakeError> {
        let most = most.min(MOST_AT_ONCE);
        let reach = reach(refusals, most);
        while let Some(hand) = self.line.pick(Purpose::Take, reach, deadline).await? {
            let hands = self.line.with_more(hand, most);
            let picks = self.line.read_all(hands, Pick::size, deadline).await?;
            let batch: Vec<_> = picks
                .into_iter()
                .filter_map(|pick| self.decoded(pick))
                .collect();
            if !batch.is_empty() {
                return Ok(Some(batch));
            }
        }
        Ok(None)
    }

    /// Takes a batch; answers the items that were still there.
    async fn taken(
        &self,
        batch: Vec<(Pick, T)>,
        deadline: Deadline,
    ) -> Result<(Vec<T>, Vec<Taken>), TakeError> {
        let (picks, items): (Vec<_>, Vec<_>) = batch.into_iter().unzip();
        let paths: Vec<_> = picks.iter().map(|pick| pick.path.clone()).collect();
        let taken = self.line.remove(picks, deadline).await?;
        // Both are in the same order, and some of the first may be missing in the second.
        let mut still_there = taken.iter().map(|taken| &taken.path).peekable();
        let kept = paths.iter().zip(items);
        let kept = kept.filter(|(path, _)| still_there.next_if_eq(path).is_some());
        let kept = kept.map(|(_, item)| item).collect();
        Ok((kept, taken))
    }

    fn decoded(&self, pick: Pick) -> Option<(Pick, T)> {
        match self.codec.decode(&pick.item.data) {
            Ok(item) => Some((pick, item)),
            Err(error) => {
                pick.hand.shun(&error.to_string());
                None
            }
        }
    }
}

impl<T> Clone for Queue<T> {
    fn clone(&self) -> Self {
        Self {
            line: Arc::clone(&self.line),
            codec: Arc::clone(&self.codec),
        }
    }
}

impl<T> fmt::Debug for Queue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue")
            .field("path", &self.line.place.items)
            .field("layout", &self.line.options.layout)
            .finish_non_exhaustive()
    }
}

/// Puts items back when it is dropped with them.
struct PutBack {
    line: Arc<Line>,
    taken: Vec<Taken>,
}

impl Drop for PutBack {
    fn drop(&mut self) {
        if self.taken.is_empty() {
            return;
        }
        let (line, taken) = (Arc::clone(&self.line), std::mem::take(&mut self.taken));
        self.line.session.finish(async move {
            for taken in taken {
                line.put_back(taken).await;
            }
        });
    }
}

const MOST_AT_ONCE: usize = 1000;
