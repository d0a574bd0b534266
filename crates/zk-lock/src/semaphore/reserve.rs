//! Takes leases for the contender that is first in the queue.
//!
//! The first contender creates all its lease nodes and then counts the leases. It stays first, and so the only one that
//! does this, until its leases fit or it gives up. The queue provides the order of arrival and prevents deadlocks. The
//! limit does not depend on the queue: see [`capacity::count_leases`].

use std::collections::BTreeSet;

use futures_util::{FutureExt as _, future};
use zk_core::{Bytes, OwnedNode, Watch, WatchEvent};

use super::{Semaphore, SemaphoreLease, capacity};
use crate::error::{AcquireError, Ahead};
use crate::guard::Granted;
use crate::limit_error::LimitError;
use crate::node_monitor::node_lost;
use crate::pending_deletes::PendingDeletes;
use crate::progress::AcquireProgress;
use crate::queue::Enlisted;
use crate::retry::prove_alive;

/// A value that was read, and the watch that fires when it changes.
type Observed<T> = (T, Option<Watch>);

/// What the first contender has read: the limit, and the children of the leases' path.
#[derive(Debug, Default)]
struct Usage {
    limit: Option<Observed<Option<u32>>>,
    children: Option<Observed<Vec<String>>>,
}

/// What a waiter knows of the leases of others.
#[derive(Debug, Default)]
struct OthersLeases {
    listed: BTreeSet<String>,
    unread: BTreeSet<String>,
    /// Those that belong to no session.
    lasting: BTreeSet<String>,
}

/// Whether the leases fit into the limit.
enum CapacityCheck {
    Fits,
    /// Others hold too many leases.
    Full {
        /// The number of leases of others.
        others: usize,
        limit: u32,
    },
}

impl Semaphore {
    /// Joins the queue of waiters, unless more leases are requested than the limit allows.
    pub(super) async fn enlist(&self) -> Result<Enlisted, AcquireError> {
        if self.count == 0 {
            return Err(AcquireError::Limit(LimitError::ZeroLeases));
        }
        if !self.has_confirmed_limit() {
            // The node has to exist first: as a parent of the queue it would be created without its limit.
            let limit = self.ensure_limit().await?;
            self.check_count(limit)?;
            return self.queue.enlist().await;
        }
        let (limit, enlisted) = future::join(self.limit(), self.queue.enlist()).await;
        let limit = match limit? {
            Some(limit) => limit,
            // The semaphore's node was deleted.
            None => self.ensure_limit().await?,
        };
        self.check_count(limit)?;
        enlisted
    }

    /// Returns whether the leases do not fit, or others wait; false if that cannot be found out now.
    pub(super) async fn is_taken(&self) -> bool {
        if self.count == 0 || !self.has_confirmed_limit() {
            return false;
        }
        // They leave together, behind the sync of the first one: no server that lags shows leases that are gone.
        let leases = self.session().list(&self.leases.path).into_future();
        let read = future::join3(self.queue.is_taken(), self.limit(), leases);
        let (others_wait, Ok(Some(limit)), Ok((names, _))) = read.await else {
            return false;
        };
        let [count, limit] =
            [self.count, limit].map(|it| usize::try_from(it).unwrap_or(usize::MAX));
        // Too many for the limit is an error.
        let taken = capacity::count_leases(&names, []).unwrap_or_default();
        count <= limit && (others_wait || taken + count > limit)
    }

    /// Takes the leases as soon as all of them fit.
    pub(super) async fn reserve(
        &self,
        first: Granted,
        progress: &AcquireProgress,
    ) -> Result<SemaphoreLease, AcquireError> {
        let (nodes, mut usage) = self.create_leases().await?;
        let mut of_others = OthersLeases::default();
        loop {
            self.read_missing(&mut usage, &first).await?;
            match self.check_capacity(&usage, &nodes).await? {
                // A known change of the limit must be applied; changes of the children cannot invalidate the count.
                CapacityCheck::Fits if has_fired(&mut usage.limit) => usage.limit = None,
                CapacityCheck::Fits => {
                    if first.session_lease.is_valid() {
                        return Ok(self.grant_lease(first, nodes));
                    }
                    // The wait was long, or the process was stopped or cut off since the list.
                    // Prove that the session is alive and list once more.
                    prove_alive(self.session(), &first.session_lease).await?;
                    usage.children = None;
                }
                CapacityCheck::Full { others, limit } => {
                    of_others.list(&usage, &nodes);
                    let ahead = Ahead::of_leases(others, limit);
                    progress.set_ahead(ahead.clone().with_lasting_leases(&of_others.lasting));
                    if usage.is_watched() {
                        let reporting = async {
                            self.read_leases(&mut of_others).await;
                            if !of_others.lasting.is_empty() {
                                progress.set_ahead(ahead.with_lasting_leases(&of_others.lasting));
                            }
                            future::pending::<()>().await;
                        };
                        tokio::select! {
                            biased;
                            changed = self.wait_for_change(&mut usage) => changed?,
                            () = reporting => {}
                        }
                    } else {
                        // These values were read along with the creates, without watches.
                        usage = Usage::default();
                    }
                }
            }
        }
    }

    /// Takes the leases if all of them fit now.
    pub(super) async fn try_reserve(
        &self,
        first: Granted,
        pending: &PendingDeletes<'_>,
    ) -> Result<Option<SemaphoreLease>, AcquireError> {
        let (nodes, mut usage) = self.create_leases().await?;
        let mut was_read_again = false;
        loop {
            match self.check_capacity(&usage, &nodes).await? {
                CapacityCheck::Fits if first.session_lease.is_valid() => {
                    return Ok(Some(self.grant_lease(first, nodes)));
                }
                CapacityCheck::Fits => {
                    prove_alive(self.session(), &first.session_lease).await?;
                    usage = self.read_usage().await?;
                }
                CapacityCheck::Full { .. } if !was_read_again && pending.wait().await => {
                    was_read_again = true;
                    usage = self.read_usage().await?;
                }
                CapacityCheck::Full { .. } => {
                    // Awaited, so that the next attempt of the same caller does not find its own nodes.
                    let deletes = nodes.into_iter().map(OwnedNode::delete);
                    for deleted in future::join_all(deletes).await {
                        ignore_pending(deleted)?;
                    }
                    ignore_pending(first.node.delete().await)?;
                    return Ok(None);
                }
            }
        }
    }

    /// Creates the nodes of our leases and reads limit and leases behind them.
    async fn create_leases(&self) -> Result<(Vec<OwnedNode>, Usage), AcquireError> {
        // The reads leave directly behind the creates and are executed after them, unless a request was repeated.
        let creates = future::join_all((0..self.count).map(|_| self.leases.create_node()));
        let list = self.session().list(&self.leases.path).into_future();
        let (made, limit, listed) = future::join3(creates, self.limit(), list).await;
        let nodes = made.into_iter().collect::<Result<Vec<_>, _>>()?;
        if let (Ok(limit), Ok((names, _))) = (limit, listed)
            && capacity::count_leases(&names, node_names(&nodes)).is_some()
        {
            let limit = Some((limit, None));
            let children = Some((names, None));
            return Ok((nodes, Usage { limit, children }));
        }
        // The reads were not executed after the creates: the parents were missing, or the connection broke and some
        // requests were repeated.
        let usage = self.read_usage().await?;
        Ok((nodes, usage))
    }

    /// Reads limit and leases, without watches.
    async fn read_usage(&self) -> Result<Usage, AcquireError> {
        let read = || self.session().get(&self.path).into_future();
        let (limit, children) = future::join(self.queue.retry_read(read), self.leases.list()).await;
        let limit = limit.map(|(data, _)| data);
        Ok(Usage {
            limit: Some((self.limit_of(limit)?, None)),
            children: Some((children?, None)),
        })
    }

    /// Reads and watches what is missing, without a time limit.
    ///
    /// It also reads whether our node in the queue exists: if another client deleted it, another contender is first,
    /// and each of the two would wait for the lease nodes of the other.
    async fn read_missing(&self, usage: &mut Usage, first: &Granted) -> Result<(), AcquireError> {
        if usage.limit.is_some() && usage.children.is_some() {
            return Ok(());
        }
        let path = first.node.path();
        let exists = || self.session().exists(path).into_future();
        let is_first = self.queue.retry_read(exists);
        let limit = async {
            match usage.limit.take() {
                Some(observed) => Ok(observed),
                None => self.watch_limit().await,
            }
        };
        let children = async {
            match usage.children.take() {
                Some(observed) => Ok(observed),
                None => self.watch_children().await,
            }
        };
        let (limit, children, is_first) = future::join3(limit, children, is_first).await;
        usage.limit = Some(limit?);
        usage.children = Some(children?);
        match is_first? {
            Some(_) => Ok(()),
            None => Err(node_lost(self.session(), path).await),
        }
    }

    async fn watch_limit(&self) -> Result<Observed<Option<u32>>, AcquireError> {
        let read = || self.session().get(&self.path).watched().into_future();
        match self.queue.retry_read(read).await {
            Ok((data, _, watch)) => Ok((self.parse_limit(&data)?, Some(watch))),
            Err(error) => Ok((self.limit_of(Err(error))?, None)),
        }
    }

    async fn watch_children(&self) -> Result<Observed<Vec<String>>, AcquireError> {
        let path = &self.leases.path;
        let list = || self.session().list(path).watched().into_future();
        match self.queue.retry_read(list).await {
            Ok((names, _, watch)) => Ok((names, Some(watch))),
            // Our nodes are gone as well then.
            Err(error) if error.is_no_node() => Ok((Vec::new(), None)),
            Err(error) => Err(error.into()),
        }
    }

    fn limit_of(&self, read: Result<Bytes, zk_core::Error>) -> Result<Option<u32>, AcquireError> {
        match read {
            Ok(data) => self.parse_limit(&data),
            Err(error) if error.is_no_node() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Decides whether the leases fit.
    async fn check_capacity(
        &self,
        usage: &Usage,
        nodes: &[OwnedNode],
    ) -> Result<CapacityCheck, AcquireError> {
        let limit = match usage.limit {
            Some((Some(limit), _)) => limit,
            // The node was deleted or its data was cleared.
            _ => self.ensure_limit().await?,
        };
        self.check_count(limit)?;
        let children = usage.children.as_ref().map_or(&[][..], |(names, _)| names);
        let Some(taken) = capacity::count_leases(children, node_names(nodes)) else {
            let is_gone = |node: &&OwnedNode| {
                let is_there = |name: &str| children.iter().any(|child| child == name);
                !node.path().name().is_some_and(is_there)
            };
            let gone = nodes.iter().find(is_gone).map(OwnedNode::path);
            let path = gone.unwrap_or(&self.leases.path).clone();
            return Err(node_lost(self.session(), &path).await);
        };
        if taken <= usize::try_from(limit).unwrap_or(usize::MAX) {
            Ok(CapacityCheck::Fits)
        } else {
            let others = taken.saturating_sub(nodes.len());
            Ok(CapacityCheck::Full { others, limit })
        }
    }

    /// Finds out which new leases of others belong to no session, and warns of each: no session's end removes them.
    ///
    /// Leases that cannot be read are left out.
    async fn read_leases(&self, of_others: &mut OthersLeases) {
        let unread: Vec<_> = of_others.unread.iter().cloned().collect();
        for names in unread.chunks(MAX_READ_TOGETHER) {
            let paths = names
                .iter()
                .filter_map(|name| self.leases.path.join(name).ok());
            let paths: Vec<_> = paths.collect();
            let Ok(read) = self.session().get_many(&paths).await else {
                return;
            };
            for (path, read) in paths.iter().zip(read) {
                let name = path.name().unwrap_or_default();
                of_others.unread.remove(name);
                if read.is_ok_and(|(_, stat)| stat.ephemeral_owner.is_none()) {
                    tracing::warn!(
                        path = %self.path,
                        lease = name,
                        "waiting for a lease that no session's end removes"
                    );
                    of_others.lasting.insert(name.to_owned());
                }
            }
        }
    }

    /// Waits until a value that was read changes, and clears it.
    async fn wait_for_change(&self, usage: &mut Usage) -> Result<(), AcquireError> {
        let limit = next_event(&mut usage.limit);
        let children = next_event(&mut usage.children);
        let lost = self.session().lost();
        let event = tokio::select! {
            biased;
            _ = lost => WatchEvent::SessionLost,
            event = limit => event,
            event = children => event,
        };
        if event == WatchEvent::SessionLost {
            return Err(AcquireError::SessionLost { source: None });
        }
        usage.clear_changed();
        Ok(())
    }

    fn check_count(&self, limit: u32) -> Result<(), AcquireError> {
        if self.count <= limit {
            return Ok(());
        }
        Err(AcquireError::Limit(LimitError::TooMany {
            path: self.path.clone(),
            wanted: self.count,
            limit,
        }))
    }

    /// Leaves the queue, so that the next contender is first, and returns the leases.
    fn grant_lease(&self, first: Granted, nodes: Vec<OwnedNode>) -> SemaphoreLease {
        // The deletion has left when this returns: later requests of this session find the queue without this node.
        drop(first);
        let guards = nodes.into_iter().map(|node| {
            let session_lease = self.session().keep_lease();
            self.leases.guard(Granted::new(node, session_lease))
        });
        let lease = SemaphoreLease::new(guards.collect());
        tracing::debug!(path = %self.path, token = %lease.token(), count = lease.count(), "leases acquired");
        lease
    }
}

impl OthersLeases {
    /// Takes the newest list.
    fn list(&mut self, usage: &Usage, nodes: &[OwnedNode]) {
        let names = usage.children.as_ref().map_or(&[][..], |(names, _)| names);
        let leases = names.iter().filter(|name| {
            capacity::is_lease(name) && node_names(nodes).all(|own| own != name.as_str())
        });
        let listed: BTreeSet<_> = leases.cloned().collect();
        self.lasting.retain(|name| listed.contains(name));
        let unread = listed.difference(&self.listed).cloned();
        self.unread.extend(unread);
        self.unread.retain(|name| listed.contains(name));
        self.listed = listed;
    }
}

impl Usage {
    /// Returns whether both values are watched.
    fn is_watched(&self) -> bool {
        matches!(self.limit, Some((_, Some(_)))) && matches!(self.children, Some((_, Some(_))))
    }

    fn clear_changed(&mut self) {
        if has_fired(&mut self.limit) {
            self.limit = None;
        }
        if has_fired(&mut self.children) {
            self.children = None;
        }
    }
}

async fn next_event<T>(observed: &mut Option<Observed<T>>) -> WatchEvent {
    match observed {
        Some((_, Some(watch))) => watch.changed().await,
        _ => future::pending().await,
    }
}

fn has_fired<T>(observed: &mut Option<Observed<T>>) -> bool {
    // The task's coop budget must not let an event look pending.
    let event = tokio::task::coop::unconstrained(next_event(observed));
    event.now_or_never().is_some()
}

/// Returns the names of our lease nodes.
fn node_names(nodes: &[OwnedNode]) -> impl Iterator<Item = &str> {
    nodes.iter().filter_map(|node| node.path().name())
}

/// Ignores a deletion that is not finished, which continues in the background, but not the end of the session.
fn ignore_pending(deleted: Result<(), zk_core::Error>) -> Result<(), AcquireError> {
    match deleted {
        Err(error) if error.is_fatal() => Err(error.into()),
        Err(error) => {
            tracing::debug!(%error, "a node of a failed attempt is deleted in the background");
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

/// How many leases are read at a time.
const MAX_READ_TOGETHER: usize = 64;
