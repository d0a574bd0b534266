//! The queue of work: an item stays until it is acknowledged.

use std::borrow::Borrow;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::panic::catch_unwind;
use std::sync::Arc;
use std::time::Duration;
use std::time::SystemTime;

use futures_util::future;
use zk_core::Error;
use zk_core::NodePath;
use zk_core::ParsePathError;
use zk_core::Session;
use zk_core::SessionId;
use zk_core::codec::Codec;

use crate::batch_limits::reach;
use crate::deadline::Deadline;
use crate::error::PathError;
use crate::error::TakeError;
use crate::offer::Offer;
use crate::offer::OfferAll;
use crate::options::WorkOptions;
use crate::paths::Place;
use crate::paths::below;
use crate::store::Line;
use crate::store::Pick;
use crate::store::Purpose;

mod claim;
mod create_claims;
mod dead_letters;
mod held_claim;
mod worker;

pub use claim::Claim;
pub use claim::Delivery;
pub use claim::Loss;
pub use dead_letters::DeadLetter;
use held_claim::Held;
pub use worker::Tally;
use worker::message_of;

/// A queue of which every item is processed at least once, and stays in it until that is acknowledged.
///
/// A consumer [claims](Self::claim) an item, processes it, and acknowledges it; a claim that is not acknowledged, because
/// the process died, the session ended or the claim was dropped, leaves the item where it was, for the next one.
/// An item that was delivered too often goes to the [dead letters](Self::dead_letters).
/// One that the codec does not take counts as delivered and goes back with a delay, a second at first, twice as long each
/// further time up to a minute: while a new format is deployed, consumers that do not know it leave the items to those
/// that do. The one that put such an item back leaves it to others for a quarter of that delay more.
/// With the default of 16 deliveries, that gives a deployment more than ten minutes.
/// Clones share what they know of the queue; several tasks may use one queue.
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
    line: Arc<Line>,
    codec: Arc<dyn Codec<T>>,
    bench: Arc<Bench>,
}

/// What is beside the items.
#[derive(Debug)]
struct Bench {
    path: NodePath,
    claims: NodePath,
    dead: NodePath,
    options: WorkOptions,
    /// One more than the claims that there are in this process.
    in_hand: Arc<()>,
}

/// Why an item is not delivered.
struct Undeliverable {
    /// How often it was, and once more if it was just not readable.
    deliveries: u32,
    reason: String,
    /// Whether it goes to the dead letters, and not back for a consumer that may read it.
    is_last: bool,
}

/// Who processes an item.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClaimInfo {
    /// The path of the item.
    pub item: NodePath,
    /// What the owner says of itself: the host and the process, unless it was told otherwise.
    pub owner: String,
    /// The session of the owner, with which the claim ends.
    pub session: Option<SessionId>,
    /// Since when, by the leader's clock.
    pub since: SystemTime,
}

impl<T: Send + 'static> WorkQueue<T> {
    /// Describes the queue at `path`, with the options of [`WorkOptions::default`]. Nothing is sent.
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
        Self::with_options(session, path, codec, &WorkOptions::default())
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
        options: &WorkOptions,
    ) -> Result<Self, PathError>
    where
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        let path = path
            .try_into()
            .map_err(|error| PathError::Parse(error.into()))?;
        if path.is_root() {
            return Err(PathError::Root);
        }
        let claims = below(&path, "claims");
        let place = Place::below(&path);
        let line = Line::new(session, place, Some(claims.clone()), options.queue.clone());
        Ok(Self {
            line: Arc::new(line),
            codec: Arc::new(codec),
            bench: Arc::new(Bench {
                dead: below(&path, "dead"),
                claims,
                path,
                options: options.clone(),
                in_hand: Arc::default(),
            }),
        })
    }

    /// Returns the path of the queue.
    pub fn path(&self) -> &NodePath {
        &self.bench.path
    }

    /// Offers an item.
    pub fn offer(&self, item: &T) -> Offer {
        Offer::new(&self.line, self.codec.encode(item))
    }

    /// Offers several items, in their order.
    pub fn offer_all<I>(&self, items: I) -> OfferAll
    where
        I: IntoIterator<Item: Borrow<T>>,
    {
        let encoded = items
            .into_iter()
            .map(|item| self.codec.encode(item.borrow()));
        OfferAll::new(&self.line, encoded.collect())
    }

    /// Claims the first item that nobody has claimed, and waits for one for as long as it takes.
    ///
    /// # Errors
    ///
    /// [`TakeError::Core`]; nothing is claimed then.
    ///
    /// # Cancel safety
    ///
    /// Safe: an item that is claimed when nobody waits for it any more is released, in the background; that may count as
    /// a delivery.
    ///
    /// # Session loss
    ///
    /// A fatal error; the claims of the session are gone.
    ///
    /// # Cost
    ///
    /// A write, and a read of the next item in the same flight: one round trip.
    /// One more for an item that was not read with the one before, and one when the lists are used up or too old.
    /// Two more for the first call of a session and for each one that is made at the same time as others, and two for
    /// the first one that finds items in a new queue.
    /// Two more, and new lists, when a segment was begun since the lists were read.
    /// While it waits, three watches and one for each segment, and lists each time that an item comes or goes, or a claim
    /// does; those that wait at the same time on clones of one queue share them.
    pub async fn claim(&self) -> Result<Claim<T>, TakeError> {
        loop {
            if let Some(claim) = self.claim_timeout(Duration::MAX).await? {
                return Ok(claim);
            }
        }
    }

    /// Claims the first item that nobody has claimed, and waits for one for at most `time`; `None` when there was none.
    ///
    /// # Errors
    ///
    /// As [`claim`](Self::claim).
    ///
    /// # Cancel safety
    ///
    /// As [`claim`](Self::claim).
    ///
    /// # Session loss
    ///
    /// As [`claim`](Self::claim).
    ///
    /// # Cost
    ///
    /// As [`claim`](Self::claim).
    pub async fn claim_timeout(&self, time: Duration) -> Result<Option<Claim<T>>, TakeError> {
        let patience = Deadline::after(time);
        let _standby = self.line.session.stand_by();
        loop {
            if let Some(claim) = self.try_claim().await? {
                return Ok(Some(claim));
            }
            if patience.is_over() {
                return Ok(None);
            }
            self.line.wait(patience).await?;
        }
    }

    /// Claims the first item that nobody has claimed; `None` when there is none.
    ///
    /// # Errors
    ///
    /// As [`claim`](Self::claim).
    ///
    /// # Cancel safety
    ///
    /// As [`claim`](Self::claim).
    ///
    /// # Session loss
    ///
    /// As [`claim`](Self::claim).
    ///
    /// # Cost
    ///
    /// As [`claim`](Self::claim), without the waiting.
    pub async fn try_claim(&self) -> Result<Option<Claim<T>>, TakeError> {
        Ok(self.try_claim_batch(1).await?.pop())
    }

    /// Claims the first items that nobody has claimed, at most so many and at most 500, and waits until there is one.
    ///
    /// All are claimed in one transaction, as many as it has room for; each has a claim of its own.
    /// None is waited for once there is one, and if `most` is zero.
    ///
    /// # Errors
    ///
    /// As [`claim`](Self::claim).
    ///
    /// # Cancel safety
    ///
    /// As [`claim`](Self::claim): all are released.
    ///
    /// # Session loss
    ///
    /// As [`claim`](Self::claim).
    ///
    /// # Cost
    ///
    /// As [`claim`](Self::claim), and a read for each item, in two flights, or more if the items are large; no more of them
    /// are read than fit, but for some.
    /// Each time that others claim some of them meanwhile, two round trips more, however many those are.
    /// From the second time on, the later half alone is tried and the others stay: who claims one after the other claims
    /// from the front.
    pub async fn claim_batch(&self, most: usize) -> Result<Vec<Claim<T>>, TakeError> {
        let _standby = self.line.session.stand_by();
        loop {
            let claims = self.try_claim_batch(most).await?;
            if most == 0 || !claims.is_empty() {
                return Ok(claims);
            }
            self.line.wait(Deadline::after(Duration::MAX)).await?;
        }
    }

    /// Claims the first items that nobody has claimed, at most so many and at most 500; none when there is none.
    ///
    /// # Errors
    ///
    /// As [`claim`](Self::claim).
    ///
    /// # Cancel safety
    ///
    /// As [`claim_batch`](Self::claim_batch).
    ///
    /// # Session loss
    ///
    /// As [`claim`](Self::claim).
    ///
    /// # Cost
    ///
    /// As [`claim_batch`](Self::claim_batch), without the waiting.
    pub async fn try_claim_batch(&self, most: usize) -> Result<Vec<Claim<T>>, TakeError> {
        let deadline = self.line.deadline();
        if most == 0 {
            return Ok(Vec::new());
        }
        let _standby = self.line.session.stand_by();
        let owner = self.bench.options.owner();
        let most = most.min(MOST_AT_ONCE);
        let mut refusals = 0;
        loop {
            let reach = reach(refusals, most);
            let Some(hand) = self.line.pick(Purpose::Take, reach, deadline).await? else {
                return Ok(Vec::new());
            };
            let hands = self.line.with_more(hand, most);
            let (mut picks, mut items, mut was_set_aside) = (Vec::new(), Vec::new(), false);
            let size = |pick: &Pick| create_claims::size_of_claim(pick, &owner);
            for pick in self.line.read_all(hands, size, deadline).await? {
                match self.deliverable(&pick) {
                    Ok(item) => {
                        items.push((pick.path.clone(), item));
                        picks.push(pick);
                    }
                    Err(why) => {
                        was_set_aside = true;
                        self.set_aside(pick, why, deadline).await?;
                    }
                }
            }
            refusals += u32::from(!was_set_aside);
            if picks.is_empty() {
                continue;
            }
            let claiming = Held::claim(&self.line, &self.bench, picks, deadline);
            let held = self.line.looking_ahead(deadline, claiming).await?;
            // Both are in the same order, and some of the first may be missing in the second.
            let mut items = items.into_iter();
            let claims = held.into_iter().filter_map(|held| {
                let (_, item) = items.find(|(path, _)| *path == held.grip.item)?;
                Some(Claim::new(item, held))
            });
            let claims: Vec<_> = claims.collect();
            if !claims.is_empty() {
                return Ok(claims);
            }
        }
    }

    /// The item, or why it is not delivered.
    fn deliverable(&self, pick: &Pick) -> Result<T, Undeliverable> {
        let before = held_claim::deliveries_of(&pick.hand.slot, pick.item.version);
        let most = self.bench.options.most_deliveries;
        if before >= most {
            return Err(Undeliverable {
                deliveries: before,
                reason: format!("delivered {before} times and never acknowledged"),
                is_last: true,
            });
        }
        let decode = || self.codec.decode(&pick.item.data);
        // One that makes the codec panic would end every worker that comes to it.
        let why = match catch_unwind(AssertUnwindSafe(decode)) {
            Ok(Ok(item)) => return Ok(item),
            Ok(Err(error)) => error.to_string(),
            Err(panic) => format!("the codec panicked: {}", message_of(&*panic)),
        };
        let deliveries = before.saturating_add(1);
        Err(Undeliverable {
            deliveries,
            reason: format!("not readable: {why}"),
            is_last: deliveries >= most,
        })
    }

    /// Tells who processes which item.
    ///
    /// # Errors
    ///
    /// When a read failed.
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
    /// A list, and a read for each claim, 64 in a flight.
    pub async fn claims(&self) -> Result<Vec<ClaimInfo>, Error> {
        let names = match self.line.session.list(&self.bench.claims).await {
            Ok((names, _)) => names,
            Err(error) if error.is_no_node() => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut claims = Vec::new();
        for several in names.chunks(READ_AT_ONCE) {
            let reads = several.iter().filter_map(|name| {
                let (segment, item) = name.split_once('-')?;
                // Whatever others put there need not be the name of a node.
                self.line.options.layout.parse(item)?;
                let segment = segment.parse().ok()?;
                let item = self.line.place.item(segment, item);
                let get = self.line.session.get(below(&self.bench.claims, name));
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

    /// Counts the items, also those that are being processed or are not due yet, without the dead letters.
    ///
    /// # Errors
    ///
    /// When a read failed.
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
    /// One round trip, two with segments.
    pub async fn len(&self) -> Result<usize, Error> {
        self.line.len(self.line.deadline()).await
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
    pub async fn is_empty(&self) -> Result<bool, Error> {
        Ok(self.len().await? == 0)
    }

    /// Tells for how long the oldest of the items is there that could be claimed now, by the leader's clock; `None` when
    /// there is none.
    ///
    /// What is looked at is the first item of each priority. One that was rejected with a delay is as old as that, and
    /// comes before older ones.
    ///
    /// # Errors
    ///
    /// When a read failed.
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
    /// Lists of the items and claims, a read for each priority, and a write to ask for the leader's time if that is not
    /// known.
    pub async fn oldest_age(&self) -> Result<Option<Duration>, Error> {
        self.line.oldest_age(self.line.deadline()).await
    }
}

impl<T> Clone for WorkQueue<T> {
    fn clone(&self) -> Self {
        Self {
            line: Arc::clone(&self.line),
            codec: Arc::clone(&self.codec),
            bench: Arc::clone(&self.bench),
        }
    }
}

impl<T> fmt::Debug for WorkQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkQueue")
            .field("path", &self.bench.path)
            .finish_non_exhaustive()
    }
}

const MOST_AT_ONCE: usize = 500;
/// How many nodes are read in a flight, so that one deadline is enough for all of it.
const READ_AT_ONCE: usize = 64;
