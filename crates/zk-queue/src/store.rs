//! The nodes of a queue: offering, listing, and taking items out, as bytes.

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
use crate::idempotency::Receipts;
use crate::idempotency::lock;
use crate::options::QueueOptions;
use crate::paths::Place;
use crate::ready_items::Key;
use crate::ready_items::Shelf;
use crate::ready_items::Spot;

mod batch;
mod in_flight;
mod list_epoch;
mod listing;
mod offer;
mod prefetch;
mod requeue;
mod segments;
mod size_and_age;
mod take;

pub(crate) use in_flight::Hand;
use list_epoch::Footing;
pub(crate) use listing::claim_name;
pub(crate) use offer::Draft;
use prefetch::Ahead;
pub(crate) use take::Pick;
pub(crate) use take::Read;
pub(crate) use take::Taken;

/// One queue as one process sees it; shared by all its handles.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) session: Session,
    pub(crate) place: Place,
    pub(crate) options: QueueOptions,
    pub(crate) receipts: Receipts,
    /// The node that has the claims for children, if there are claims.
    pub(crate) claims: Option<NodePath>,
    tail: Mutex<Option<segments::Tail>>,
    stock: Mutex<Stock>,
    /// Held by whoever reads the lists.
    restocking: tokio::sync::Mutex<()>,
    /// Told when an item that was in hand can be taken by others.
    given_back: Notify,
    /// How often something was left to chance.
    draws: AtomicU64,
}

/// What is known of the items that can be taken.
#[derive(Debug, Default)]
struct Stock {
    shelf: Shelf,
    /// When the reading of it began, and how long it took.
    read: Option<(Instant, Duration)>,
    /// Whether all segments were read, and not only as many as it took to find an item.
    is_whole: bool,
    /// Whether it was read by a server that had caught up with whatever was answered before the reading began.
    is_synced: bool,
    /// Children that were warned of, by segment and name.
    known: BTreeSet<Key>,
    /// Items that are not to be taken, because their data or their node is not what it should be.
    shunned: BTreeSet<Key>,
    /// What the items were read on, if they may be taken.
    footing: Option<Footing>,
    /// Items that were read before their turn, and those that are being read.
    ahead: BTreeMap<Key, Option<Ahead>>,
    /// The node of the items, by what made it, if it may not be written.
    unmarked: Option<i64>,
    /// What those wait for that wait; gone, with its watches, when none does.
    next_change: Option<WeakShared<BoxFuture<'static, ()>>>,
}

/// What an item is picked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Look,
    Take,
}

/// What there is on a list that was just read.
enum Next {
    Hand(Hand),
    Nothing,
    /// There is something, but it cannot be taken safely.
    Unfounded,
    /// The list is not new enough.
    Stale,
}

impl Line {
    pub(crate) fn new(
        session: &Session,
        place: Place,
        claims: Option<NodePath>,
        options: QueueOptions,
    ) -> Self {
        Self {
            receipts: Receipts::new(session, place.receipt()),
            session: session.clone(),
            place,
            options,
            claims,
            tail: Mutex::default(),
            stock: Mutex::default(),
            restocking: tokio::sync::Mutex::default(),
            given_back: Notify::new(),
            draws: AtomicU64::new(0),
        }
    }

    /// The deadline of one call.
    pub(crate) fn deadline(&self) -> Deadline {
        Deadline::after(self.session.operation_timeout())
    }

    /// The next item that may be taken, from the list that is there, or from a new one.
    ///
    /// `None` when there was no such item at some moment since the call began.
    /// With a `reach`, it is one by chance among so many behind the first one.
    pub(crate) async fn pick(
        self: &Arc<Self>,
        purpose: Purpose,
        reach: usize,
        deadline: Deadline,
    ) -> Result<Option<Hand>, Error> {
        let began = Instant::now();
        let now = self.time(deadline).await?;
        let ahead = self.up_to(reach);
        if let Some(hand) = self.on_shelf(purpose, ahead, now) {
            return Ok(Some(hand));
        }
        let _reading = self.restocking.lock().await;
        loop {
            match self.on_new_shelf(purpose, ahead, began, now) {
                Next::Hand(hand) => return Ok(Some(hand)),
                Next::Nothing => return Ok(None),
                Next::Unfounded if self.find_footing(deadline).await? => continue,
                Next::Unfounded | Next::Stale => {}
            }
            // What others have told us of is there, even if our server lags behind theirs.
            let (synced, read) = future::join(
                self.session
                    .sync(&self.place.items)
                    .timeout(deadline.remaining())
                    .into_future(),
                self.restock(false, deadline),
            )
            .await;
            synced?;
            read?;
            lock(&self.stock).is_synced = true;
        }
    }

    /// An item that may be taken, and those behind it on the list that is there, without a new one.
    pub(crate) fn with_more(self: &Arc<Self>, first: Hand, most: usize) -> Vec<Hand> {
        let now = self.receipts.known_time().unwrap_or(0);
        let mut stock = lock(&self.stock);
        let mut hands = vec![first];
        while hands.len() < most
            && let Some(last) = hands.last()
            && let Some(spot) = stock.shelf.next_behind(last, now)
        {
            hands.push(self.hand_of(&stock, spot, Purpose::Take));
        }
        hands
    }

    /// A number by chance, from zero to `most`.
    fn up_to(&self, most: usize) -> usize {
        if most == 0 {
            return 0;
        }
        let drawn = self.draws.fetch_add(1, Ordering::Relaxed);
        // Its name is unique, and drawn from the seed where there is one.
        let unique = self.receipts.anchored();
        let unique = unique.as_ref().map(|node| node.path().as_str());
        let mut hasher = DefaultHasher::new();
        (unique, drawn).hash(&mut hasher);
        let chance = usize::try_from(hasher.finish() >> 32).unwrap_or(0);
        chance % (most + 1)
    }

    /// Waits until there may be an item that can be taken: one more, one that is due, or one whose claim is gone.
    pub(crate) async fn wait(&self, deadline: Deadline) -> Result<(), Error> {
        let mut given_back = pin!(self.given_back.notified());
        // What is given back from now on is told; what was before is seen on the shelf.
        given_back.as_mut().enable();
        let Some(changed) = self.next_change(Instant::now()).await? else {
            return Ok(());
        };
        let now = self.time(self.deadline()).await?;
        let due = {
            let mut stock = lock(&self.stock);
            if stock.shelf.ready(now).next().is_some() {
                return Ok(());
            }
            stock.shelf.next_due()
        };
        let due = match due {
            // The clocks run on from the answer; a millisecond more makes up for what was rounded off.
            Some(due) => Deadline::after(Duration::from_millis(due.saturating_sub(now) + 1)),
            None => Deadline::after(Duration::MAX),
        };
        tokio::select! {
            biased;
            _ = self.session.lost() => {}
            () = changed => {}
            () = given_back => {}
            _ = due.bound(std::future::pending::<()>()) => {}
            _ = deadline.bound(std::future::pending::<()>()) => {}
        }
        Ok(())
    }

    /// What resolves when something changes that the lists show; nothing if one that was read since `began` has an item.
    ///
    /// All tasks that wait at the same time share the watches, and the lists that set them: nothing has changed for any
    /// of them as long as those have not fired.
    async fn next_change(&self, began: Instant) -> Result<Option<NextChange>, Error> {
        let _reading = self.restocking.lock().await;
        let known = {
            let mut stock = lock(&self.stock);
            let now = self.receipts.known_time().unwrap_or(0);
            let is_new = stock.read.is_some_and(|(at, _)| at >= began);
            if is_new && stock.shelf.ready(now).next().is_some() {
                return Ok(None);
            }
            stock.next_change.as_ref().and_then(WeakShared::upgrade)
        };
        if let Some(known) = known.filter(|known| known.peek().is_none()) {
            return Ok(Some(known));
        }
        let mut watches = self.restock(true, self.deadline()).await?;
        let changed = async move {
            let fired = watches.iter_mut().map(|watch| Box::pin(watch.changed()));
            future::select_all(fired).await;
        };
        let changed = changed.boxed().shared();
        lock(&self.stock).next_change = changed.downgrade();
        Ok(Some(changed))
    }

    /// The leader's time, where items have one.
    pub(crate) async fn time(&self, deadline: Deadline) -> Result<u64, Error> {
        if self.options.layout.has_delays() {
            self.receipts.leader_time(deadline).await
        } else {
            Ok(0)
        }
    }

    /// The next item of a list that is not too old.
    fn on_shelf(self: &Arc<Self>, purpose: Purpose, ahead: usize, now: u64) -> Option<Hand> {
        let mut stock = lock(&self.stock);
        let is_stale = stock.read.is_none_or(|(at, took)| {
            at.elapsed() > self.options.refresh.max(took.saturating_mul(LISTING_SHARE))
        });
        if is_stale || !stock.is_fit_for(purpose) {
            None
        } else {
            self.next_in(&mut stock, purpose, ahead, now)
        }
    }

    /// The next item of a list that was read since then.
    fn on_new_shelf(
        self: &Arc<Self>,
        purpose: Purpose,
        ahead: usize,
        began: Instant,
        now: u64,
    ) -> Next {
        let mut stock = lock(&self.stock);
        if stock.read.is_none_or(|(at, _)| at < began) {
            return Next::Stale;
        }
        if stock.shelf.ready(now).next().is_none() {
            // A part of the segments tells nothing of the others, and a server that lags nothing of what is new.
            return if stock.is_whole && stock.is_synced {
                Next::Nothing
            } else {
                Next::Stale
            };
        }
        if !stock.is_fit_for(purpose) {
            return Next::Unfounded;
        }
        match self.next_in(&mut stock, purpose, ahead, now) {
            Some(hand) => Next::Hand(hand),
            None => Next::Nothing,
        }
    }

    fn next_in(
        self: &Arc<Self>,
        stock: &mut Stock,
        purpose: Purpose,
        ahead: usize,
        now: u64,
    ) -> Option<Hand> {
        let spot = stock.shelf.next(now, ahead)?;
        Some(self.hand_of(stock, spot, purpose))
    }

    fn hand_of(self: &Arc<Self>, stock: &Stock, spot: Spot, purpose: Purpose) -> Hand {
        let footing = stock.footing.as_ref().filter(|_| purpose == Purpose::Take);
        let ground = footing.and_then(|footing| footing.of(spot.segment));
        Hand::new(self, spot, ground)
    }
}

impl Stock {
    fn forget(&mut self) {
        self.footing = None;
        self.ahead.clear();
        self.read = None;
    }

    fn is_fit_for(&self, purpose: Purpose) -> bool {
        match purpose {
            Purpose::Look => true,
            Purpose::Take => self.footing.as_ref().is_some_and(Footing::is_firm),
        }
    }
}

/// A list is read at most for one part in so many of the time.
const LISTING_SHARE: u32 = 20;

/// The watches that tell of a change.
type Watches = Vec<Watch>;

/// The first of them to fire.
type NextChange = Shared<BoxFuture<'static, ()>>;
