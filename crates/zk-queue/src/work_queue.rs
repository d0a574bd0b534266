//! `WorkQueue`: an item stays in the queue until it is acknowledged.
//!
//! An item is claimed as [`store`](crate::store) describes for a take, except that the transaction creates an ephemeral
//! node for the claim and writes the item's node, instead of deleting it. The item's version so counts its deliveries.
//! [`create_claims`] makes that transaction, and [`held_claim`] those that end a claim: they delete the claim, and
//! delete or move the item, under the version that the claim gave it. [`joined_acknowledgements`] ends several claims at
//! once. Rejecting a claim is in `claim`, burying its item in `dead_letters`, and changing many of
//! those in [`dead_letter_batches`]. [`time_to_run`] gives up claims that last too
//! long.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::{Stream, future, stream};
use zk_core::codec::Codec;
use zk_core::{Error, IntoNodePath, NodePath, Session, SessionId};

use crate::batch_limits::MAX_ITEMS_PER_READ;
use crate::codec_panic::catch_decode_panic;
use crate::deadline::Deadline;
use crate::error::{CancelError, LayoutError, PathError, TakeError};
use crate::item_id::ItemId;
use crate::offer::{Offer, OfferAll};
use crate::options::WorkOptions;
use crate::paths::{child, parse_queue_path};
use crate::ready_items::ListedItem;
use crate::store::{CancelOutcome, CancelledItems, Candidate, ItemStore, JoinedCalls, Purpose};
use crate::work_layout::WorkPaths;

mod claim;
mod create_claims;
mod dead_letter_batches;
mod dead_letters;
mod held_claim;
mod joined_acknowledgements;
mod not_settled;
mod time_to_run;
mod worker;

pub use claim::{Claim, Delivery};
pub use dead_letters::DeadLetter;
pub use held_claim::ClaimLoss;
use held_claim::HeldClaim;
use joined_acknowledgements::Acknowledgements;
pub use not_settled::NotSettled;
pub use worker::WorkStats;

/// A queue that keeps each item until it is acknowledged, and so delivers it at least once.
///
/// A consumer [claims](Self::claim) an item, processes it, and acknowledges it. If the process dies, the session ends
/// or the claim is dropped before that, the item stays where it is and is delivered to the next consumer. An item that
/// was delivered too often goes to the [dead letters](Self::dead_letters), unless its node has children, which only
/// another client can create: it stays, is skipped, and counts as [stuck](WorkCounts::stuck).
///
/// An item that the codec cannot decode counts as delivered, and is delivered again after a delay: one second at first,
/// doubling with each delivery, up to a minute. The consumer that rejected it waits for another quarter of the delay.
/// While a new format is deployed, consumers that do not know it so leave the items to those that do. With the default
/// of 16 deliveries, a deployment may take more than ten minutes. With the [layout of another
/// client](crate::WorkLayout), each process waits on its own, so that time is divided by their number, and with 16 of
/// them it may be less than a second.
///
/// Clones are cheap and share the list of items; several tasks may use one queue.
///
/// # Examples
///
/// ```no_run
/// # async fn send(_: &str) -> Result<(), std::io::Error> { Ok(()) }
/// # async fn demo(session: zk_core::Session) -> Result<(), Box<dyn std::error::Error>> {
/// use zk_core::codec::Text;
/// use zk_queue::WorkQueue;
///
/// let queue = WorkQueue::new(&session, "/mail/outgoing", Text)?;
/// queue.offer(&"to anna: hello".to_owned()).priority(-1).await?;
/// let claim = queue.claim().await?;
/// match send(claim.item()).await {
///     Ok(()) => claim.acknowledge().await?,
///     Err(_) => claim.reject(std::time::Duration::from_secs(30), "not sent").await?,
/// }
/// # Ok(())
/// # }
/// ```
pub struct WorkQueue<T> {
    store: Arc<ItemStore>,
    codec: Arc<dyn Codec<T>>,
    context: Arc<WorkContext>,
}

/// The paths, options and claim count that the handles and claims of a queue share.
#[derive(Debug)]
struct WorkContext {
    path: NodePath,
    paths: WorkPaths,
    options: WorkOptions,
    /// Its reference count is the number of claims of this process, plus one.
    open_claims: Arc<()>,
    acknowledgements: Arc<JoinedCalls<Acknowledgements>>,
}

impl WorkContext {
    /// Returns the path of an item's claim.
    fn claim_path(&self, item: &ListedItem) -> NodePath {
        let layout = self.options.queue.layout;
        let name = layout.claim_name(item.segment, &item.name);
        child(&self.paths.claims, &name)
    }
}

/// An item that is not delivered.
struct Undeliverable {
    /// Its deliveries so far, including this one if it could not be decoded.
    deliveries: u32,
    reason: String,
    /// Whether it goes to the dead letters, instead of being delivered again to consumers that may decode it.
    is_last: bool,
}

/// A claim, and the consumer that holds it; returned by [`WorkQueue::claims`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClaimInfo {
    /// The path of the item.
    pub item: NodePath,
    /// The owner's [description of itself](WorkOptions::with_owner); by default the host and the process id.
    pub owner: String,
    /// The session of the owner. The claim ends with it.
    pub session: Option<SessionId>,
    /// When the claim began, by the leader's clock.
    pub since: SystemTime,
}

/// How many items a work queue has; returned by [`WorkQueue::counts`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkCounts {
    /// Items that can be claimed.
    pub ready: usize,
    /// Unclaimed items whose delay is not over, also those that were rejected with one.
    pub delayed: usize,
    /// Items that consumers have claimed.
    pub claimed: usize,
    /// Dead letters.
    pub dead: usize,
    /// Items that this process skips, because they can be neither delivered nor settled: an item whose node another
    /// client has given children, for example. They also count as ready, delayed or claimed.
    ///
    /// Only an administrator can remove them. Each process finds them out by itself: others may count fewer.
    pub stuck: usize,
}

impl<T: Send + 'static> WorkQueue<T> {
    /// Returns a handle of the queue at `path`, with [`WorkOptions::default`]. Sends nothing.
    ///
    /// # Errors
    ///
    /// If `path` is not a valid node path, or is the root.
    pub fn new(
        session: &Session,
        path: impl IntoNodePath,
        codec: impl Codec<T> + 'static,
    ) -> Result<Self, PathError> {
        Self::with_options(session, path, codec, &WorkOptions::default())
    }

    /// Returns a handle of the queue at `path`. Sends nothing.
    ///
    /// # Errors
    ///
    /// If `path` is not a valid node path, or is the root, or the [layout](WorkOptions::with_layout) has a lock path that
    /// is a node of the queue.
    pub fn with_options(
        session: &Session,
        path: impl IntoNodePath,
        codec: impl Codec<T> + 'static,
        options: &WorkOptions,
    ) -> Result<Self, PathError> {
        let path = parse_queue_path(path)?;
        let paths = options.layout.paths(&path)?;
        let claims = Some(paths.claims.clone());
        let store = ItemStore::new(session, paths.queue.clone(), claims, options.queue.clone());
        let acknowledgements = Arc::new(Acknowledgements::new(&store.context));
        Ok(Self {
            codec: Arc::new(codec),
            context: Arc::new(WorkContext {
                path,
                paths,
                options: options.clone(),
                open_claims: Arc::default(),
                acknowledgements: Arc::new(JoinedCalls::new(&store.context, &acknowledgements)),
            }),
            store: Arc::new(store),
        })
    }

    /// Returns the path of the queue.
    pub fn path(&self) -> &NodePath {
        &self.context.path
    }

    /// Checks that the queue has the [layout](WorkOptions::with_layout) of this handle. Call it once at the start: with
    /// another layout, a consumer skips all items, or looks for them in other nodes.
    ///
    /// As [`Queue::check_layout`](crate::Queue::check_layout), for the parent of this layout's items. So it does not find
    /// out that other processes use [`Native`](crate::WorkLayout::Native) or
    /// [`KazooLocking`](crate::WorkLayout::KazooLocking), whose parents differ, nor that they use another lock path.
    ///
    /// # Errors
    ///
    /// As [`Queue::check_layout`](crate::Queue::check_layout), also for cancel safety and cost.
    pub async fn check_layout(&self) -> Result<(), LayoutError> {
        let context = &self.store.context;
        context.check_layout(context.deadline()).await
    }

    /// Adds an item.
    pub fn offer(&self, item: &T) -> Offer {
        Offer::new(&self.store.joined_offers, &*self.codec, item)
    }

    /// Adds several items, in their order.
    pub fn offer_all<I>(&self, items: I) -> OfferAll
    where
        I: IntoIterator<Item: Borrow<T>>,
    {
        OfferAll::new(&self.store.offers, &*self.codec, items)
    }

    /// Removes an item that no consumer has claimed, also one that was rejected and is delivered again later.
    ///
    /// Exactly one of this call and the consumers gets the item. An item that a consumer has is not removed: see
    /// [`CancelOutcome::Claimed`].
    ///
    /// # Errors
    ///
    /// As [`Queue::cancel`](crate::Queue::cancel), also for cancel safety and after a session loss.
    ///
    /// # Cost
    ///
    /// As [`Queue::cancel`](crate::Queue::cancel). If the item was rejected with a delay or is gone, a list of the items
    /// of its segment and a read more; and two more for the first claim of a queue.
    pub async fn cancel(&self, id: &ItemId) -> Result<CancelOutcome, CancelError> {
        let deadline = self.store.context.deadline();
        self.store.cancel(id, deadline).await
    }

    /// Removes the items that were offered with this [id of the application](crate::Offer::id) and that no consumer has
    /// claimed, as Curator's `DistributedIdQueue` does.
    ///
    /// # Errors
    ///
    /// As [`Queue::cancel_with_id`](crate::Queue::cancel_with_id), also for cancel safety, cost and after a session loss.
    pub async fn cancel_with_id(&self, id: &str) -> Result<CancelledItems, CancelError> {
        let deadline = self.store.context.deadline();
        self.store.cancel_with_id(id, deadline).await
    }

    /// Claims the first unclaimed item, and waits until there is one.
    ///
    /// # Errors
    ///
    /// [`TakeError::Core`]; nothing is claimed then.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: if the call is dropped and claims an item, the claim is released in the background. That may count
    /// as a delivery.
    ///
    /// # Cost
    ///
    /// One round trip: a write, and with every eighth claim concurrently a read of the next eight items. And these:
    ///
    /// - one more for an item that was not read ahead, as the first one;
    /// - one more if the lists are used up or too old;
    /// - two more for a new token: in the first call, and whenever more calls are in flight than before;
    /// - two more for the first call that finds items in a new queue;
    /// - two more, and new lists, if a segment was started since the lists were read.
    ///
    /// While it waits: three watches, one more for each segment, and lists each time that an item or a claim is created
    /// or deleted. Tasks that wait at the same time on clones of one queue share them.
    pub async fn claim(&self) -> Result<Claim<T>, TakeError> {
        loop {
            if let Some(claim) = self.claim_timeout(Duration::MAX).await? {
                return Ok(claim);
            }
        }
    }

    /// Claims the first unclaimed item, and waits at most `time` for one; `None` if there was none.
    ///
    /// # Errors
    ///
    /// As [`claim`](Self::claim), which costs the same.
    pub async fn claim_timeout(&self, time: Duration) -> Result<Option<Claim<T>>, TakeError> {
        let wait_deadline = Deadline::after(time);
        let _standby = self.store.context.session.stand_by();
        loop {
            if let Some(claim) = self.try_claim().await? {
                return Ok(Some(claim));
            }
            if wait_deadline.is_over() {
                return Ok(None);
            }
            self.store.list.wait(wait_deadline).await?;
        }
    }

    /// Claims the first unclaimed item; `None` if there is none, or the server of the session does not know it yet.
    ///
    /// # Errors
    ///
    /// As [`claim`](Self::claim), which costs the same but for the wait.
    pub async fn try_claim(&self) -> Result<Option<Claim<T>>, TakeError> {
        Ok(self.try_claim_batch(1).await?.pop())
    }

    /// Claims up to `max` unclaimed items (at most 500) from the front, and waits until there is at least one.
    ///
    /// One transaction claims as many items as fit into it; each item has its own claim.
    /// If `max` is zero, it returns at once.
    ///
    /// # Errors
    ///
    /// As [`claim`](Self::claim).
    ///
    /// # Cost
    ///
    /// As [`claim`](Self::claim), and a read for each item, in two flights, or more if the items are large. It reads
    /// only a few items more than fit.
    /// Each time that other consumers claim some of the items, two round trips more, however many they claim. From the
    /// second time on, only the later half is tried, because consumers that claim single items claim them from the
    /// front.
    pub async fn claim_batch(&self, max: usize) -> Result<Vec<Claim<T>>, TakeError> {
        let _standby = self.store.context.session.stand_by();
        loop {
            let claims = self.try_claim_batch(max).await?;
            if max == 0 || !claims.is_empty() {
                return Ok(claims);
            }
            self.store.list.wait(Deadline::never()).await?;
        }
    }

    /// Claims up to `max` unclaimed items (at most 500) from the front; none if there is none.
    ///
    /// # Errors
    ///
    /// As [`claim_batch`](Self::claim_batch), which costs the same but for the wait.
    pub async fn try_claim_batch(&self, max: usize) -> Result<Vec<Claim<T>>, TakeError> {
        let deadline = self.store.context.deadline();
        if max == 0 {
            return Ok(Vec::new());
        }
        let _standby = self.store.context.session.stand_by();
        let owner = self.context.options.owner();
        let max = max.min(MAX_CLAIMED);
        loop {
            let list = &self.store.list;
            let Some(first) = list.next_item(Purpose::Change, deadline).await? else {
                return Ok(Vec::new());
            };
            let listed = self.store.list.with_following(first, max);
            let (mut candidates, mut items) = (Vec::new(), Vec::new());
            let layout = self.store.context.options.layout;
            let size = |candidate: &Candidate| {
                create_claims::claim_request_size(layout, candidate, &owner)
            };
            for candidate in self.store.items.read_all(listed, size, deadline).await? {
                if candidate.item.has_more() {
                    let reason = "its node has several items; Curator's consumers take them";
                    candidate.in_flight.quarantine(reason);
                    continue;
                }
                match self.decode_deliverable(&candidate) {
                    Ok(item) => {
                        items.push((candidate.path.clone(), item));
                        candidates.push(candidate);
                    }
                    Err(undeliverable) => {
                        self.reject_undeliverable(candidate, undeliverable, deadline)
                            .await?;
                    }
                }
            }
            if candidates.is_empty() {
                continue;
            }
            let claiming = HeldClaim::claim(&self.store, &self.context, candidates, deadline);
            let ahead = max.max(MAX_ITEMS_PER_READ);
            let held = self.store.items.with_prefetch(ahead, deadline, claiming);
            let held = held.await?;
            // `held` has the same order as `items`, without the items that another consumer has claimed.
            let mut items = items.into_iter();
            let claims = held.into_iter().filter_map(|held| {
                let (_, item) = items.find(|(path, _)| *path == held.identity.item)?;
                Some(Claim::new(item, Box::new(held)))
            });
            let claims: Vec<_> = claims.collect();
            if !claims.is_empty() {
                return Ok(claims);
            }
        }
    }

    /// Turns this handle into a stream of claims, one after the other as [`claim`](Self::claim) returns them.
    ///
    /// The stream waits while there is no item. It claims an item only while it is polled, and has at most one claim in
    /// flight, so it keeps none from other consumers. To process several items concurrently, use `for_each_concurrent`,
    /// or [`work_until`](Self::work_until), which claims several with one request.
    ///
    /// # Errors
    ///
    /// The stream returns the errors of [`claim`](Self::claim). It ends after a fatal one, and continues after another.
    ///
    /// # Cancel safety
    ///
    /// A dropped call of `next` loses nothing: a claim that was in flight is returned by the next one.
    ///
    /// # Cost
    ///
    /// As [`claim`](Self::claim), for each item.
    ///
    /// # Dropping
    ///
    /// If the stream is dropped, a claim that was in flight is released in the background, as by a dropped call of
    /// [`claim`](Self::claim).
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn send(_: &str) -> Result<(), std::io::Error> { Ok(()) }
    /// # async fn demo(letters: zk_queue::WorkQueue<String>) -> Result<(), Box<dyn std::error::Error>> {
    /// use futures_util::TryStreamExt;
    ///
    /// let mut claims = std::pin::pin!(letters.into_stream());
    /// while let Some(claim) = claims.try_next().await? {
    ///     send(claim.item()).await?;
    ///     claim.acknowledge().await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn into_stream(self) -> impl Stream<Item = Result<Claim<T>, TakeError>> + Send + 'static {
        stream::unfold(Some(self), async |queue| {
            let queue = queue?;
            let claimed = queue.claim().await;
            let is_over = claimed.as_ref().is_err_and(TakeError::is_fatal);
            Some((claimed, (!is_over).then_some(queue)))
        })
    }

    /// Decodes an item, or returns why it is not delivered.
    fn decode_deliverable(&self, candidate: &Candidate) -> Result<T, Undeliverable> {
        let before = held_claim::delivery_count(&candidate.in_flight.key, candidate.item.version);
        let max = self.context.options.max_deliveries;
        if before >= max {
            return Err(Undeliverable {
                deliveries: before,
                reason: format!("delivered {before} times and never acknowledged"),
                is_last: true,
            });
        }
        let why = match catch_decode_panic(&*self.codec, &candidate.item.data) {
            Ok(item) => return Ok(item),
            Err(why) => why,
        };
        let deliveries = before.saturating_add(1);
        Err(Undeliverable {
            deliveries,
            reason: format!("not readable: {why}"),
            is_last: deliveries >= max,
        })
    }

    /// Lists the claims, the oldest first.
    ///
    /// # Errors
    ///
    /// If a read failed.
    ///
    /// # Cost
    ///
    /// A list, and a read for each claim, 64 in a flight.
    pub async fn claims(&self) -> Result<Vec<ClaimInfo>, Error> {
        let deadline = self.store.context.deadline();
        let names = self
            .store
            .context
            .child_names(&self.context.paths.claims, deadline);
        let names = names.await?;
        let mut claims = Vec::new();
        for several in names.chunks(READ_AT_ONCE) {
            let reads = several.iter().filter_map(|name| {
                // Nodes of other clients may have any name.
                let layout = self.store.context.options.layout;
                let (segment, item) = layout.parse_claim_name(name)?;
                let item = self.store.context.paths.item(segment, item);
                let get = self
                    .store
                    .context
                    .session
                    .get(child(&self.context.paths.claims, name));
                Some(async move { (item, get.await) })
            });
            for (item, read) in future::join_all(reads).await {
                match read {
                    Ok((owner, stat)) => claims.push(ClaimInfo {
                        item,
                        owner: String::from_utf8_lossy(&owner).into_owned(),
                        session: stat.ephemeral_owner,
                        since: stat.ctime,
                    }),
                    Err(error) if error.is_no_node() => {}
                    Err(error) => return Err(error),
                }
            }
        }
        claims.sort_by_key(|claim| claim.since);
        Ok(claims)
    }

    /// Counts the items, including those that are claimed or not due yet, without the dead letters.
    ///
    /// The server of the session may lag: what another session did a moment ago counts after a
    /// [`sync`](zk_core::Session::sync).
    ///
    /// # Errors
    ///
    /// If a read failed.
    ///
    /// # Cost
    ///
    /// One round trip, two with segments.
    pub async fn len(&self) -> Result<usize, Error> {
        self.store.offers.len(self.store.context.deadline()).await
    }

    /// Returns whether [`len`](Self::len) is zero.
    ///
    /// # Errors
    ///
    /// As [`len`](Self::len), which costs the same.
    pub async fn is_empty(&self) -> Result<bool, Error> {
        Ok(self.len().await? == 0)
    }

    /// Counts the items that are ready, delayed and claimed, by the leader's clock, and the dead letters.
    ///
    /// Children that are not items do not count; items that this process skips do. The lists are read one after the other,
    /// from a server that may lag, so the numbers are those of a short time and not of one moment: an item that is claimed
    /// meanwhile may count as ready, and one that is buried twice or not at all.
    ///
    /// # Errors
    ///
    /// If a read failed.
    ///
    /// # Cost
    ///
    /// The lists of all items and claims, in one round trip, or one more for each sixteen segments; and a write if the
    /// leader's time is not known. [`len`](Self::len) reads no lists.
    pub async fn counts(&self) -> Result<WorkCounts, Error> {
        let context = &self.store.context;
        let deadline = context.deadline();
        let dead = context.exists(&self.context.paths.dead_letters, deadline);
        let (items, dead) = future::try_join(self.store.counts(deadline), dead).await?;
        let dead = dead.map_or(0, |stat| stat.num_children);
        Ok(WorkCounts {
            ready: items.ready,
            delayed: items.delayed,
            claimed: items.claimed,
            dead: usize::try_from(dead).unwrap_or(usize::MAX),
            stuck: self.store.inventory.quarantined(),
        })
    }

    /// Returns the age of the oldest item that could be claimed now, by the leader's clock; `None` if there is none.
    ///
    /// It reads the first item of each priority. The age of an item that was rejected with a delay counts from then,
    /// and it comes before older ones.
    ///
    /// # Errors
    ///
    /// If a read failed.
    ///
    /// # Cost
    ///
    /// Lists of the items and claims, a read for each priority, and a write if the leader's time is not known.
    pub async fn oldest_age(&self) -> Result<Option<Duration>, Error> {
        self.store
            .list
            .oldest_age(self.store.context.deadline())
            .await
    }
}

impl<T> Clone for WorkQueue<T> {
    fn clone(&self) -> Self {
        Self {
            store: Arc::clone(&self.store),
            codec: Arc::clone(&self.codec),
            context: Arc::clone(&self.context),
        }
    }
}

impl<T> fmt::Debug for WorkQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkQueue")
            .field("path", &self.context.path)
            .finish_non_exhaustive()
    }
}

/// How many items one transaction claims at most.
const MAX_CLAIMED: usize = 500;
/// How many nodes are read concurrently, so that one deadline suffices for all of them.
const READ_AT_ONCE: usize = 64;
