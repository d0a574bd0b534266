//! Picks the next item of the list, reads the list again when it is used up or too old, and waits for changes.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{self, BoxFuture, Shared, WeakShared};
use tokio::sync::Mutex;
use zk_core::{Error, NodePath};

use super::context::{QueueContext, unix_millis};
use super::in_flight::{InFlightItem, SharedInventory};
use super::inventory::{Next, Purpose};
use super::segments::Segments;
use crate::deadline::Deadline;
use crate::deterministic_draw::draw;

/// Reads the lists of one queue into the inventory.
#[derive(Debug)]
pub(crate) struct ListReader {
    pub(super) context: Arc<QueueContext>,
    pub(super) segments: Arc<Segments>,
    pub(super) inventory: Arc<SharedInventory>,
    /// The parent of the claims, if items are claimed.
    pub(super) claims: Option<NodePath>,
    /// Locked while the list is read.
    pub(super) reading: Mutex<WaitingTasks>,
    /// The number of random draws so far.
    draws: AtomicU64,
}

/// The waiting tasks of a process: they share the watches and the lists that set them.
#[derive(Debug, Default)]
pub(super) struct WaitingTasks {
    /// What they wait for; dropped, with its watches, when no task waits.
    next_change: Option<WeakShared<BoxFuture<'static, ()>>>,
}

/// Resolves when the first watch on the nodes that were listed fires.
type NextChange = Shared<BoxFuture<'static, ()>>;

impl ListReader {
    pub(super) fn new(
        context: &Arc<QueueContext>,
        segments: &Arc<Segments>,
        inventory: &Arc<SharedInventory>,
        claims: Option<NodePath>,
    ) -> Self {
        Self {
            context: Arc::clone(context),
            segments: Arc::clone(segments),
            inventory: Arc::clone(inventory),
            claims,
            reading: Mutex::default(),
            draws: AtomicU64::new(0),
        }
    }

    /// Returns the next item that may be taken, from the known list or a new one; if it is to be taken, it is marked as in
    /// flight.
    ///
    /// `None` means that there was no such item at some moment since the call began.
    /// While other consumers take items, too, it may be a later one.
    pub(crate) async fn next_item(
        &self,
        purpose: Purpose,
        deadline: Deadline,
    ) -> Result<Option<InFlightItem>, Error> {
        let began = self.context.moment();
        let now = self.context.time_for_delays(deadline).await?;
        let random = self.random();
        let (at, refresh) = (self.context.moment(), self.context.options.refresh);
        let recent = self
            .inventory
            .lock()
            .next_of_recent(purpose, random, now, at, refresh);
        if let Some(started) = recent {
            return Ok(Some(self.inventory.in_flight(started, purpose)));
        }
        let _reading = self.reading.lock().await;
        loop {
            let next = self
                .inventory
                .lock()
                .next_of_new(purpose, random, now, began);
            match next {
                Next::Item(started) => {
                    return Ok(Some(self.inventory.in_flight(started, purpose)));
                }
                Next::Nothing => return Ok(None),
                Next::NoEpoch if self.establish_epoch(deadline).await? => continue,
                Next::NoEpoch | Next::Stale => {}
            }
            // Items that were committed before the call are listed, even if our server lags.
            let (synced, read) = future::join(
                self.context.sync(&self.context.paths.items, deadline),
                self.refresh_list(false, deadline),
            )
            .await;
            synced?;
            read?;
            self.inventory.lock().set_synced();
        }
    }

    /// Returns the first item of the known list, marked as in flight, if the list is recent enough. Sends nothing.
    pub(crate) fn next_known(&self) -> Option<InFlightItem> {
        let now = self.context.known_time();
        let (at, refresh) = (self.context.moment(), self.context.options.refresh);
        let mut inventory = self.inventory.lock();
        let started = inventory.next_of_recent(Purpose::Change, self.random(), now, at, refresh)?;
        drop(inventory);
        Some(self.inventory.in_flight(started, Purpose::Change))
    }

    /// Returns `first` and the ready items behind it on the known list, all marked as in flight.
    pub(crate) fn with_following(&self, first: InFlightItem, max: usize) -> Vec<InFlightItem> {
        let now = self.context.known_time();
        let mut inventory = self.inventory.lock();
        let mut items = vec![first];
        while items.len() < max
            && let Some(last) = items.last()
            && let Some(started) = inventory.next_after(last, now)
        {
            items.push(self.inventory.in_flight(started, Purpose::Change));
        }
        items
    }

    /// Returns a random number.
    fn random(&self) -> u32 {
        let count = self.draws.fetch_add(1, Ordering::Relaxed);
        // The fence's name is unique, and drawn from the seed in simulations.
        let unique = self.context.tokens.current_fence();
        draw((unique.as_ref().map(NodePath::as_str), count))
    }

    /// Waits until an item may be ready: a new one, one that became due, or one whose claim ended.
    pub(crate) async fn wait(&self, deadline: Deadline) -> Result<(), Error> {
        let mut released = pin!(self.inventory.released.notified());
        // Releases from now on notify us; those before are visible in the inventory.
        released.as_mut().enable();
        let Some(changed) = self.next_change().await? else {
            return Ok(());
        };
        let now = self
            .context
            .time_for_delays(self.context.deadline())
            .await?;
        let ready_at = self.inventory.lock().ready_at(now);
        let due = match ready_at {
            Some(due) if due <= now => return Ok(()),
            // The clocks advance from the reply; one millisecond more makes up for rounding.
            Some(due) => Deadline::after(Duration::from_millis(due - now + 1)),
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

    /// Returns a future that resolves when the lists change; `None` if a list that was read since the call has an item.
    ///
    /// While the watches have not fired, nothing has changed for any of the waiting tasks.
    async fn next_change(&self) -> Result<Option<NextChange>, Error> {
        let began = self.context.moment();
        let mut waiting = self.reading.lock().await;
        let now = self.context.known_time();
        if self.inventory.lock().has_item_since(began, now) {
            return Ok(None);
        }
        let known = waiting.next_change.as_ref().and_then(WeakShared::upgrade);
        if let Some(known) = known.filter(|known| known.peek().is_none()) {
            return Ok(Some(known));
        }
        let mut watches = self.refresh_list(true, self.context.deadline()).await?;
        let changed = async move {
            let fired = watches.iter_mut().map(|watch| Box::pin(watch.changed()));
            future::select_all(fired).await;
        };
        let changed = changed.boxed().shared();
        waiting.next_change = changed.downgrade();
        Ok(Some(changed))
    }

    /// Returns the age of the oldest ready item by the leader's clock; `None` if there is none.
    pub(crate) async fn oldest_age(&self, deadline: Deadline) -> Result<Option<Duration>, Error> {
        loop {
            let now = self.context.leader_time(deadline).await?;
            let firsts = {
                let _reading = self.reading.lock().await;
                self.refresh_list(false, deadline).await?;
                self.inventory.lock().first_of_each_priority(now)
            };
            let Some(firsts) = firsts else {
                return Ok(None);
            };
            let stats = firsts.iter().map(|(segment, name)| {
                let path = self.context.paths.item(*segment, name);
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
}
