//! Taking leases, by the one whose turn it is.
//!
//! Whoever is first in the queue makes its lease nodes, all of them, and then counts. It stays first, and so the only
//! one who does, until they fit or it gives up. The order of arrival and the freedom from deadlock come from the queue;
//! the limit does not: see [`capacity::taken`].

use futures_util::FutureExt as _;
use futures_util::future;
use zk_core::OwnedNode;
use zk_core::Watch;
use zk_core::WatchEvent;

use super::AcquireLeaseError;
use super::Lease;
use super::Semaphore;
use super::capacity;
use super::error::Standing;
use crate::error::AcquireError;
use crate::guard::Guard;
use crate::queue::Enlisted;
use crate::queue::Granted;
use crate::retry::Remains;
use crate::retry::proved;

/// Something that was read, and the watch that tells when it changes.
type Seen<T> = (T, Option<Watch>);

/// What the one whose turn it is knows.
#[derive(Debug, Default)]
struct Look {
    limit: Option<Seen<Option<u32>>>,
    children: Option<Seen<Vec<String>>>,
}

/// What a look says.
enum Room {
    Enough,
    /// Others have too many leases.
    Full {
        /// How many others have.
        others: usize,
        limit: u32,
    },
}

impl Semaphore {
    /// Joins the queue of those who wait, unless they ask for more than there is.
    pub(super) async fn enlist(&self, count: u32) -> Result<Enlisted, AcquireLeaseError> {
        if count == 0 {
            return Err(AcquireLeaseError::Nothing);
        }
        if !self.has_agreed() {
            // The node has to be there first: as a parent of the queue it would be made without its limit.
            let limit = self.agree().await?;
            self.check(count, limit)?;
            return Ok(self.queue.enlist().await?);
        }
        let (limit, enlisted) = future::join(self.limit(), self.queue.enlist()).await;
        let limit = match limit? {
            Some(limit) => limit,
            // Somebody deleted the semaphore.
            None => self.agree().await?,
        };
        self.check(count, limit)?;
        Ok(enlisted?)
    }

    /// Takes leases as soon as there is room for all of them.
    pub(super) async fn reserve(
        &self,
        first: Granted,
        count: u32,
        standing: &mut Standing,
    ) -> Result<Lease, AcquireLeaseError> {
        let (nodes, mut look) = self.make(count).await?;
        loop {
            self.complete(&mut look, &first).await?;
            match self.room(&look, &nodes, count).await? {
                // A fall of the limit that has been told of counts; whoever else came or went does not.
                Room::Enough if has_fired(&mut look.limit) => look.limit = None,
                Room::Enough => {
                    if first.trusted.is_trusted() {
                        return Ok(self.granted(first, nodes));
                    }
                    // We waited for long, or were stopped or cut off since we looked.
                    // Prove that the session is alive, and look once more.
                    proved(self.session(), &first.trusted).await?;
                    look.children = None;
                }
                Room::Full { others, limit } => {
                    standing.taken = Some((others, limit));
                    if look.is_watched() {
                        self.changed(&mut look).await?;
                    } else {
                        // What was read along with the creates was read without watches.
                        look = Look::default();
                    }
                }
            }
        }
    }

    /// Takes leases if there is room for all of them now.
    pub(super) async fn try_reserve(
        &self,
        first: Granted,
        count: u32,
        remains: &Remains<'_>,
    ) -> Result<Option<Lease>, AcquireLeaseError> {
        let (nodes, mut look) = self.make(count).await?;
        let mut was_looked_again = false;
        loop {
            match self.room(&look, &nodes, count).await? {
                Room::Enough if first.trusted.is_trusted() => {
                    return Ok(Some(self.granted(first, nodes)));
                }
                Room::Enough => {
                    proved(self.session(), &first.trusted).await?;
                    look = self.look().await?;
                }
                Room::Full { .. } if !was_looked_again && remains.are_gone().await => {
                    was_looked_again = true;
                    look = self.look().await?;
                }
                Room::Full { .. } => {
                    // Waited for, so that the next try of the same caller does not find its own nodes.
                    let deletes = nodes.into_iter().map(OwnedNode::delete);
                    for deleted in future::join_all(deletes).await {
                        finished(deleted)?;
                    }
                    finished(first.node.delete().await)?;
                    return Ok(None);
                }
            }
        }
    }

    /// Makes the nodes of our leases, and looks behind them.
    async fn make(&self, count: u32) -> Result<(Vec<OwnedNode>, Look), AcquireLeaseError> {
        // The reads leave right behind the creates, and are carried out after them, unless something went wrong.
        let creates = future::join_all((0..count).map(|_| self.leases.create_node()));
        let list = self.session().list(&self.leases.path).into_future();
        let (made, limit, listed) = future::join3(creates, self.limit(), list).await;
        let nodes = made.into_iter().collect::<Result<Vec<_>, _>>()?;
        if let (Ok(limit), Ok((names, _))) = (limit, listed)
            && capacity::taken(&names, own(&nodes)).is_some()
        {
            let limit = Some((limit, None));
            let children = Some((names, None));
            return Ok((nodes, Look { limit, children }));
        }
        // The reads were not carried out after the creates: the parents were missing, or the connection broke and some
        // of them were repeated.
        let look = self.look().await?;
        Ok((nodes, look))
    }

    /// Reads what is to be known, once.
    async fn look(&self) -> Result<Look, AcquireLeaseError> {
        let read = || self.session().get(&self.path).into_future();
        let (limit, children) = future::join(self.queue.patiently(read), self.leases.list()).await;
        let limit = limit.map(|(data, _)| data);
        Ok(Look {
            limit: Some((self.limit_of(limit)?, None)),
            children: Some((children?, None)),
        })
    }

    /// Reads what is not known, however long it takes, and watches it.
    ///
    /// Looks whether we are in the queue, too: if somebody took us out of it, another one is first there, and each would
    /// wait for the nodes of the other.
    async fn complete(&self, look: &mut Look, first: &Granted) -> Result<(), AcquireLeaseError> {
        if look.limit.is_some() && look.children.is_some() {
            return Ok(());
        }
        let path = first.node.path();
        let exists = || self.session().exists(path).into_future();
        let is_first = self.queue.patiently(exists);
        let limit = async {
            match look.limit.take() {
                Some(seen) => Ok(seen),
                None => self.watch_limit().await,
            }
        };
        let children = async {
            match look.children.take() {
                Some(seen) => Ok(seen),
                None => self.watch_children().await,
            }
        };
        let (limit, children, is_first) = future::join3(limit, children, is_first).await;
        look.limit = Some(limit?);
        look.children = Some(children?);
        match is_first? {
            Some(_) => Ok(()),
            None => Err(self.queue.node_lost(path).await.into()),
        }
    }

    async fn watch_limit(&self) -> Result<Seen<Option<u32>>, AcquireLeaseError> {
        let read = || self.session().get(&self.path).watched().into_future();
        match self.queue.patiently(read).await {
            Ok((data, _, watch)) => Ok((self.parsed(&data)?, Some(watch))),
            Err(error) => Ok((self.limit_of(Err(error))?, None)),
        }
    }

    async fn watch_children(&self) -> Result<Seen<Vec<String>>, AcquireLeaseError> {
        let path = &self.leases.path;
        let list = || self.session().list(path).watched().into_future();
        match self.queue.patiently(list).await {
            Ok((names, _, watch)) => Ok((names, Some(watch))),
            // Then our nodes are gone, too.
            Err(error) if error.is_no_node() => Ok((Vec::new(), None)),
            Err(error) => Err(error.into()),
        }
    }

    fn limit_of(
        &self,
        read: Result<Vec<u8>, zk_core::Error>,
    ) -> Result<Option<u32>, AcquireLeaseError> {
        match read {
            Ok(data) => self.parsed(&data),
            Err(error) if error.is_no_node() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Judges a look.
    async fn room(
        &self,
        look: &Look,
        nodes: &[OwnedNode],
        count: u32,
    ) -> Result<Room, AcquireLeaseError> {
        let limit = match look.limit {
            Some((Some(limit), _)) => limit,
            // Somebody deleted it, or emptied it.
            _ => self.agree().await?,
        };
        self.check(count, limit)?;
        let children = look.children.as_ref().map_or(&[][..], |(names, _)| names);
        let Some(taken) = capacity::taken(children, own(nodes)) else {
            let is_gone = |node: &&OwnedNode| {
                let is_there = |name: &str| children.iter().any(|child| child == name);
                !node.path().name().is_some_and(is_there)
            };
            let gone = nodes.iter().find(is_gone).map(OwnedNode::path);
            let path = gone.unwrap_or(&self.leases.path).clone();
            return Err(self.queue.node_lost(&path).await.into());
        };
        if taken <= usize::try_from(limit).unwrap_or(usize::MAX) {
            Ok(Room::Enough)
        } else {
            let others = taken.saturating_sub(nodes.len());
            Ok(Room::Full { others, limit })
        }
    }

    /// Waits until something that was seen changed, and forgets it.
    async fn changed(&self, look: &mut Look) -> Result<(), AcquireLeaseError> {
        let limit = fired(&mut look.limit);
        let children = fired(&mut look.children);
        let lost = self.session().lost();
        let event = tokio::select! {
            biased;
            _ = lost => WatchEvent::SessionLost,
            event = limit => event,
            event = children => event,
        };
        if event == WatchEvent::SessionLost {
            return Err(AcquireError::SessionLost { source: None }.into());
        }
        look.forget_what_changed();
        Ok(())
    }

    fn check(&self, wanted: u32, limit: u32) -> Result<(), AcquireLeaseError> {
        if wanted <= limit {
            return Ok(());
        }
        Err(AcquireLeaseError::TooMany {
            path: self.path.clone(),
            wanted,
            limit,
        })
    }

    /// Lets the next one have its turn.
    fn granted(&self, first: Granted, nodes: Vec<OwnedNode>) -> Lease {
        // Its deletion has left by then: a later request of this session finds the queue without this node.
        drop(first);
        let guards = nodes.into_iter().map(|node| {
            let session = self.session().clone();
            let trusted = session.keep_trusted();
            Guard::new(session, node, trusted)
        });
        let lease = Lease::new(guards.collect());
        tracing::debug!(path = %self.path, token = %lease.token(), count = lease.count(), "leases acquired");
        lease
    }
}

impl Look {
    /// Whether both would be told of.
    fn is_watched(&self) -> bool {
        let is_watched = |watch: &Option<Watch>| watch.is_some();
        self.limit
            .as_ref()
            .is_some_and(|(_, watch)| is_watched(watch))
            && self
                .children
                .as_ref()
                .is_some_and(|(_, watch)| is_watched(watch))
    }

    fn forget_what_changed(&mut self) {
        if has_fired(&mut self.limit) {
            self.limit = None;
        }
        if has_fired(&mut self.children) {
            self.children = None;
        }
    }
}

async fn fired<T>(seen: &mut Option<Seen<T>>) -> WatchEvent {
    match seen {
        Some((_, Some(watch))) => watch.changed().await,
        _ => future::pending().await,
    }
}

fn has_fired<T>(seen: &mut Option<Seen<T>>) -> bool {
    fired(seen).now_or_never().is_some()
}

/// The names of our leases.
fn own(nodes: &[OwnedNode]) -> impl Iterator<Item = &str> {
    nodes.iter().filter_map(|node| node.path().name())
}

/// What a removal says to one who gives up: what cannot be finished goes on in the background, but the end of the session
/// is an error.
fn finished(deleted: Result<(), zk_core::Error>) -> Result<(), AcquireLeaseError> {
    match deleted {
        Err(error) if error.is_fatal() => Err(error.into()),
        Err(error) => {
            tracing::debug!(%error, "a node of one who gave up goes later");
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}
