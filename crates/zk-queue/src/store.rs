//! Reads and writes the nodes of a queue: offering, listing and taking items as bytes.
//!
//! To *take* an item is to delete its node and to return it to the caller, whichever method of `Queue` was called.
//! That happens in these steps:
//!
//! 1. [`listing`] lists the children of the items node and of the segments, under one [`list_epoch`]: the versions that
//!    every later transaction about these items checks.
//!    If there is no fence, or the items node is fresh (see `preconditions`), `ItemStore::establish_epoch` writes what
//!    is missing before an item is picked.
//! 2. [`ItemStore::next_item`] picks the first ready item of the list, or a random one of the first few if other
//!    consumers were faster. The item is [`in_flight`] from then on: no other task of this process picks it.
//! 3. [`take`] reads the item's node, unless [`prefetch`] has read it already.
//! 4. [`take`] deletes the node in one transaction. It first writes an idempotency token, then checks the preconditions
//!    of the list epoch, and then deletes the node under the version that was read. If another consumer has the item,
//!    the transaction is refused, and the next item is tried.
//! 5. If the caller is gone by then, [`requeue`] puts the item back.
//!
//! A work queue replaces step 4 by a transaction that creates a claim and writes the item; see `work_queue`.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::hash::DefaultHasher;
use std::hash::Hash as _;
use std::hash::Hasher as _;
use std::pin::pin;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future;
use futures_util::future::BoxFuture;
use futures_util::future::Shared;
use futures_util::future::WeakShared;
use tokio::sync::Notify;
use tokio::time::Instant;
use zk_core::Error;
use zk_core::NodePath;
use zk_core::Session;
use zk_core::Watch;

use crate::deadline::Deadline;
use crate::mutex::lock;
use crate::options::QueueOptions;
use crate::paths::QueuePaths;
use crate::ready_items::ItemId;
use crate::ready_items::ListedItem;
use crate::ready_items::ReadyItems;

mod active_segment;
mod batch;
mod capacity;
mod context;
mod in_flight;
mod list_epoch;
mod listing;
mod offers;
mod oldest_age;
mod prefetch;
mod requeue;
mod segments;
mod take;

use context::QueueContext;
pub(crate) use in_flight::InFlightItem;
use list_epoch::ListEpoch;
pub(crate) use offers::NewItem;
pub(crate) use offers::Offers;
use prefetch::Prefetched;
use segments::Segments;
pub(crate) use take::Candidate;
pub(crate) use take::ReadOutcome;
pub(crate) use take::TakenItem;

/// One queue in one process, shared by all handles.
#[derive(Debug)]
pub(crate) struct ItemStore {
    pub(crate) context: Arc<QueueContext>,
    pub(crate) offers: Arc<Offers>,
    segments: Arc<Segments>,
    /// The parent of the claims, if items are claimed.
    claims: Option<NodePath>,
    list: Mutex<ItemList>,
    /// Held while the list is read.
    list_lock: tokio::sync::Mutex<()>,
    /// Notified when an item in flight is released and can be taken by other tasks.
    released: Notify,
    /// The number of random draws so far.
    draws: AtomicU64,
}

/// The last list of items that this process read.
#[derive(Debug, Default)]
struct ItemList {
    items: ReadyItems,
    /// When reading it began, and how long that took.
    read: Option<(Instant, Duration)>,
    /// Whether all segments were read, and not only as many as were needed to find an item.
    is_complete: bool,
    /// Whether the server had caught up with everything that was committed before reading began.
    is_synced: bool,
    /// Children that are not items and were logged.
    logged: BTreeSet<ItemId>,
    /// Items that are never taken, because their data or their node is malformed.
    quarantined: BTreeSet<ItemId>,
    /// The epoch of the list, if its items may be taken.
    epoch: Option<ListEpoch>,
    /// Items that were read ahead; `None` while the read is pending.
    prefetched: BTreeMap<ItemId, Option<Prefetched>>,
    /// The `czxid` of the items node if the servers refuse to let this session write it.
    read_only_items_node: Option<i64>,
    /// What the waiting tasks wait for; dropped, with its watches, when no task waits.
    next_change: Option<WeakShared<BoxFuture<'static, ()>>>,
}

/// What the caller wants an item for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Read,
    /// To take or claim it, in a transaction that checks the preconditions of the list.
    Change,
}

/// The first item of a list.
enum Next {
    Item(InFlightItem),
    Nothing,
    /// There is an item, but the list's epoch does not allow taking it.
    NoEpoch,
    /// The list is too old.
    Stale,
}

impl ItemStore {
    pub(crate) fn new(
        session: &Session,
        paths: QueuePaths,
        claims: Option<NodePath>,
        options: QueueOptions,
    ) -> Self {
        let context = Arc::new(QueueContext::new(session, paths, options));
        let segments = Arc::new(Segments::new(&context));
        Self {
            offers: Arc::new(Offers::new(&context, &segments)),
            context,
            segments,
            claims,
            list: Mutex::default(),
            list_lock: tokio::sync::Mutex::default(),
            released: Notify::new(),
            draws: AtomicU64::new(0),
        }
    }

    /// Returns the next item that may be taken, from the known list or a new one, and marks it as in flight.
    ///
    /// `None` means that there was no such item at some moment since the call began.
    /// With a `contention_window`, it is a random item among so many behind the first one.
    pub(crate) async fn next_item(
        self: &Arc<Self>,
        purpose: Purpose,
        contention_window: usize,
        deadline: Deadline,
    ) -> Result<Option<InFlightItem>, Error> {
        let began = Instant::now();
        let now = self.context.time_for_delays(deadline).await?;
        let offset = self.random_up_to(contention_window);
        if let Some(item) = self.next_of_recent_list(purpose, offset, now) {
            return Ok(Some(item));
        }
        let _reading = self.list_lock.lock().await;
        loop {
            match self.next_of_new_list(purpose, offset, began, now) {
                Next::Item(item) => return Ok(Some(item)),
                Next::Nothing => return Ok(None),
                Next::NoEpoch if self.establish_epoch(deadline).await? => continue,
                Next::NoEpoch | Next::Stale => {}
            }
            // Items that were committed before the call are listed, even if our server lags.
            let (synced, read) = future::join(
                self.context
                    .session
                    .sync(&self.context.paths.items)
                    .timeout(deadline.remaining())
                    .into_future(),
                self.refresh_list(false, deadline),
            )
            .await;
            synced?;
            read?;
            lock(&self.list).is_synced = true;
        }
    }

    /// Returns `first` and the ready items behind it on the known list, all marked as in flight.
    pub(crate) fn with_following(
        self: &Arc<Self>,
        first: InFlightItem,
        max: usize,
    ) -> Vec<InFlightItem> {
        let now = self.context.known_time();
        let mut list = lock(&self.list);
        let mut items = vec![first];
        while items.len() < max
            && let Some(last) = items.last()
            && let Some(listed) = list.items.next_after(last, now)
        {
            items.push(self.start(&list, listed, Purpose::Change));
        }
        items
    }

    /// Returns a random number from zero to `max`.
    fn random_up_to(&self, max: usize) -> usize {
        if max == 0 {
            return 0;
        }
        let drawn = self.draws.fetch_add(1, Ordering::Relaxed);
        // The fence's name is unique, and drawn from the seed in simulations.
        let unique = self.context.tokens.current_fence();
        let unique = unique.as_ref().map(|node| node.path().as_str());
        let mut hasher = DefaultHasher::new();
        (unique, drawn).hash(&mut hasher);
        let random = usize::try_from(hasher.finish() >> 32).unwrap_or(0);
        random % (max + 1)
    }

    /// Waits until an item may be ready: a new one, one that became due, or one whose claim ended.
    pub(crate) async fn wait(&self, deadline: Deadline) -> Result<(), Error> {
        let mut released = pin!(self.released.notified());
        // Releases from now on notify us; those before are visible in the list.
        released.as_mut().enable();
        let Some(changed) = self.next_change(Instant::now()).await? else {
            return Ok(());
        };
        let now = self
            .context
            .time_for_delays(self.context.deadline())
            .await?;
        let due = {
            let mut list = lock(&self.list);
            if list.items.ready(now).next().is_some() {
                return Ok(());
            }
            list.items.next_due()
        };
        let due = match due {
            // The clocks advance from the reply; one millisecond more makes up for rounding.
            Some(due) => Deadline::after(Duration::from_millis(due.saturating_sub(now) + 1)),
            None => Deadline::never(),
        };
        tokio::select! {
            biased;
            _ = self.context.session.lost() => {}
            () = changed => {}
            () = released => {}
            _ = due.bound(std::future::pending::<()>()) => {}
            _ = deadline.bound(std::future::pending::<()>()) => {}
        }
        Ok(())
    }

    /// Returns a future that resolves when the lists change; `None` if a list that was read since `began` has an item.
    ///
    /// All tasks that wait at the same time share the watches and the lists that set them: while the watches have not
    /// fired, nothing has changed for any of them.
    async fn next_change(&self, began: Instant) -> Result<Option<NextChange>, Error> {
        let _reading = self.list_lock.lock().await;
        let known = {
            let mut list = lock(&self.list);
            let now = self.context.known_time();
            let is_new = list.read.is_some_and(|(at, _)| at >= began);
            if is_new && list.items.ready(now).next().is_some() {
                return Ok(None);
            }
            list.next_change.as_ref().and_then(WeakShared::upgrade)
        };
        if let Some(known) = known.filter(|known| known.peek().is_none()) {
            return Ok(Some(known));
        }
        let mut watches = self.refresh_list(true, self.context.deadline()).await?;
        let changed = async move {
            let fired = watches.iter_mut().map(|watch| Box::pin(watch.changed()));
            future::select_all(fired).await;
        };
        let changed = changed.boxed().shared();
        lock(&self.list).next_change = changed.downgrade();
        Ok(Some(changed))
    }

    /// Returns the next item of the list if that is recent enough.
    fn next_of_recent_list(
        self: &Arc<Self>,
        purpose: Purpose,
        offset: usize,
        now: u64,
    ) -> Option<InFlightItem> {
        let mut list = lock(&self.list);
        let is_stale = list.read.is_none_or(|(at, took)| {
            at.elapsed()
                > self
                    .context
                    .options
                    .refresh
                    .max(took.saturating_mul(LISTING_SHARE))
        });
        if is_stale || !list.allows(purpose) {
            None
        } else {
            self.next_of(&mut list, purpose, offset, now)
        }
    }

    /// Returns the next item of the list if that was read since `began`.
    fn next_of_new_list(
        self: &Arc<Self>,
        purpose: Purpose,
        offset: usize,
        began: Instant,
        now: u64,
    ) -> Next {
        let mut list = lock(&self.list);
        if list.read.is_none_or(|(at, _)| at < began) {
            return Next::Stale;
        }
        if list.items.ready(now).next().is_none() {
            // Some segments say nothing about the others, and a lagging server says nothing about new items.
            return if list.is_complete && list.is_synced {
                Next::Nothing
            } else {
                Next::Stale
            };
        }
        if !list.allows(purpose) {
            return Next::NoEpoch;
        }
        match self.next_of(&mut list, purpose, offset, now) {
            Some(item) => Next::Item(item),
            None => Next::Nothing,
        }
    }

    fn next_of(
        self: &Arc<Self>,
        list: &mut ItemList,
        purpose: Purpose,
        offset: usize,
        now: u64,
    ) -> Option<InFlightItem> {
        let listed = list.items.next(now, offset)?;
        Some(self.start(list, listed, purpose))
    }

    fn start(
        self: &Arc<Self>,
        list: &ItemList,
        listed: ListedItem,
        purpose: Purpose,
    ) -> InFlightItem {
        let epoch = list.epoch.as_ref().filter(|_| purpose == Purpose::Change);
        let preconditions = epoch.and_then(|epoch| epoch.preconditions_for(listed.segment));
        InFlightItem::new(self, listed, preconditions)
    }
}

impl ItemList {
    /// Makes the next call read the list again.
    fn invalidate(&mut self) {
        self.epoch = None;
        self.prefetched.clear();
        self.read = None;
    }

    fn allows(&self, purpose: Purpose) -> bool {
        match purpose {
            Purpose::Read => true,
            Purpose::Change => self.epoch.as_ref().is_some_and(ListEpoch::is_usable),
        }
    }
}

/// Reading lists takes at most this fraction of the time (one in 20).
const LISTING_SHARE: u32 = 20;

/// Watches on the nodes that were listed.
type Watches = Vec<Watch>;

/// Resolves when the first of them fires.
type NextChange = Shared<BoxFuture<'static, ()>>;
