//! The nodes of a queue: offering, listing, and taking items out, as bytes.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use futures_util::future;
use tokio::sync::Notify;
use tokio::time::Instant;
use zk_core::Error;
use zk_core::NodePath;
use zk_core::Session;
use zk_core::Watch;

use crate::deadline::Deadline;
use crate::options::QueueOptions;
use crate::place::Place;
use crate::receipt::Receipts;
use crate::receipt::lock;
use crate::shelf::Shelf;
use crate::shelf::Spot;

mod count;
mod hand;
mod offer;
mod read;
mod remove;
mod segments;

pub(crate) use hand::Hand;
pub(crate) use offer::Draft;
pub(crate) use read::claim_name;
pub(crate) use remove::Pick;
pub(crate) use remove::Taken;

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
}

/// What is known of the items that can be taken.
#[derive(Debug, Default)]
struct Stock {
    shelf: Shelf,
    /// When the reading of it began, and how long it took.
    read: Option<(Instant, Duration)>,
    /// Whether all segments were read, and not only as many as it took to find an item.
    is_whole: bool,
    /// Children that were warned of, by segment and name.
    known: BTreeSet<(u32, Arc<str>)>,
    /// Items that are not to be taken, because their data or their node is not what it should be.
    shunned: BTreeSet<(u32, Arc<str>)>,
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
        }
    }

    /// The deadline of one call.
    pub(crate) fn deadline(&self) -> Deadline {
        Deadline::after(self.session.operation_timeout())
    }

    /// The next item that may be taken, from the list that is there, or from a new one.
    ///
    /// `None` when there was no such item at some moment since the call began.
    pub(crate) async fn pick(self: &Arc<Self>, deadline: Deadline) -> Result<Option<Hand>, Error> {
        let began = Instant::now();
        let now = self.time(deadline).await?;
        if let Some(spot) = self.on_shelf(now) {
            return Ok(Some(Hand::new(self, spot)));
        }
        let _reading = self.restocking.lock().await;
        loop {
            {
                let mut stock = lock(&self.stock);
                if stock.read.is_some_and(|(at, _)| at >= began) {
                    let spot = stock.shelf.next(now);
                    // A part of the segments tells nothing of the others.
                    if spot.is_some() || stock.is_whole {
                        return Ok(spot.map(|spot| Hand::new(self, spot)));
                    }
                }
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
        }
    }

    /// The next items that may be taken from the list that is there, without a new one.
    pub(crate) fn more(self: &Arc<Self>, most: usize) -> Vec<Hand> {
        let now = self.receipts.known_time().unwrap_or(0);
        std::iter::from_fn(|| self.take_from_shelf(now))
            .take(most)
            .map(|spot| Hand::new(self, spot))
            .collect()
    }

    /// Waits until there may be an item that can be taken: one more, one that is due, or one whose claim is gone.
    pub(crate) async fn wait(&self, deadline: Deadline) -> Result<(), Error> {
        let mut given_back = pin!(self.given_back.notified());
        // What is given back from now on is told; what was before is seen on the shelf.
        given_back.as_mut().enable();
        let listed = {
            let _reading = self.restocking.lock().await;
            self.restock(true, self.deadline()).await?
        };
        let now = self.time(self.deadline()).await?;
        let due = {
            let mut stock = lock(&self.stock);
            if let Some(spot) = stock.shelf.next(now) {
                stock.shelf.give_back(spot);
                return Ok(());
            }
            stock.shelf.next_due()
        };
        let due = match due {
            // The clocks run on from the answer; a millisecond more makes up for what was rounded off.
            Some(due) => Deadline::after(Duration::from_millis(due.saturating_sub(now) + 1)),
            None => Deadline::after(Duration::MAX),
        };
        let mut watches = listed;
        let fired = future::select_all(watches.iter_mut().map(|watch| Box::pin(watch.changed())));
        tokio::select! {
            biased;
            () = self.session.lost() => {}
            _ = fired => {}
            () = given_back => {}
            _ = due.bound(std::future::pending::<()>()) => {}
            _ = deadline.bound(std::future::pending::<()>()) => {}
        }
        Ok(())
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
    fn on_shelf(&self, now: u64) -> Option<Spot> {
        let mut stock = lock(&self.stock);
        let is_stale = stock.read.is_none_or(|(at, took)| {
            at.elapsed() > self.options.refresh.max(took.saturating_mul(LISTING_SHARE))
        });
        if is_stale {
            None
        } else {
            stock.shelf.next(now)
        }
    }

    fn take_from_shelf(&self, now: u64) -> Option<Spot> {
        lock(&self.stock).shelf.next(now)
    }
}

/// A list is read at most for one part in so many of the time.
const LISTING_SHARE: u32 = 20;

/// The watches that tell of a change.
type Watches = Vec<Watch>;
