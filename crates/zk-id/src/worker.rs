//! Claims worker numbers, each held by one process at a time.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use tokio::time::{Instant, timeout};
use zk_core::{
    Error, IntoNodePath, NodePath, OwnedNode, ParsePathError, Session, SessionBound, SessionLease,
    WatchEvent,
};

use crate::error::{ClaimError, WorkerLoss};
use crate::path_schema::{MAX_ATTEMPTS, ensure_schema};
use crate::worker_slots;

/// Worker numbers from a fixed range, each held by one process at a time: for shards, names, or slots in a table.
///
/// For ids use a [`Snowflake`](crate::Snowflake). A worker number alone does not keep a late id of its last holder from
/// being equal to an early id of the next one.
///
/// # Examples
///
/// ```no_run
/// # async fn demo(session: zk_core::Session) -> Result<(), Box<dyn std::error::Error>> {
/// use zk_id::WorkerIds;
///
/// let workers = WorkerIds::new(&session, "/crawlers", 16)?.with_description("10.0.0.7:8080");
/// let worker = workers.claim().await?;
/// println!("we are number {} of 16", worker.number());
/// worker.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct WorkerIds {
    session: Session,
    path: NodePath,
    workers: u32,
    /// The data of the node at the path.
    schema: Arc<str>,
    preferred: Option<u32>,
    description: Arc<str>,
}

impl WorkerIds {
    /// Creates a handle to the numbers less than `workers` at `path`.
    ///
    /// All processes must use the same number of workers.
    /// The node at the path, and its parents, are created on first use. Use the path for nothing else.
    ///
    /// # Errors
    ///
    /// If `path` is not a valid node path.
    pub fn new(
        session: &Session,
        path: impl IntoNodePath,
        workers: u32,
    ) -> Result<Self, ParsePathError> {
        let path = path.into_node_path()?;
        let schema = format!("zk-id {workers} workers");
        Ok(Self::with_schema(session, path, workers, &schema))
    }

    pub(crate) fn with_schema(
        session: &Session,
        path: NodePath,
        workers: u32,
        schema: &str,
    ) -> Self {
        Self {
            session: session.clone(),
            path,
            workers,
            schema: schema.into(),
            preferred: None,
            description: "".into(),
        }
    }

    /// Sets the number to claim if it is free, such as the one that the process held before. The default is none.
    ///
    /// A number outside of the range is ignored.
    #[must_use]
    pub fn with_preferred(mut self, number: u32) -> Self {
        self.preferred = Some(number);
        self
    }

    /// Sets a description of the process for people, shown by [`holders`](Self::holders). The default is empty.
    #[must_use]
    pub fn with_description(mut self, description: &str) -> Self {
        self.description = description.into();
        self
    }

    /// Returns the path below which the numbers are claimed.
    pub fn path(&self) -> &NodePath {
        &self.path
    }

    /// Claims a free number.
    ///
    /// # Errors
    ///
    /// [`ClaimError::AllTaken`], [`ClaimError::SchemaMismatch`] if the path is used for something else, and
    /// [`ClaimError::Failed`] if the requests did not succeed within the session's operation timeout.
    ///
    /// # Cost
    ///
    /// Three round trips, and one more for each number that another process claims at the same moment.
    /// On a session that has relied on nothing for a minute, two fifths of the session timeout, see
    /// [`Session::stand_by`].
    pub async fn claim(&self) -> Result<WorkerId, ClaimError> {
        self.claim_avoiding(&BTreeSet::new()).await
    }

    /// Claims a free number; one of `avoided` only if there is no other.
    pub(crate) async fn claim_avoiding(
        &self,
        avoided: &BTreeSet<u32>,
    ) -> Result<WorkerId, ClaimError> {
        let session_lease = self.session.keep_lease();
        ensure_schema(&self.session, &self.path, &self.schema).await?;
        for round in 0..MAX_ATTEMPTS {
            match self.try_all(avoided).await {
                Ok(Some((number, node))) => {
                    // The reply only proves that the session was alive when the servers wrote the node.
                    let limit = self.session.operation_timeout();
                    session_lease
                        .renewed(limit.max(self.session.session_timeout()))
                        .await?;
                    return Ok(WorkerId {
                        number,
                        node,
                        session_lease,
                    });
                }
                // The server may lag and list numbers that are free again.
                Ok(None) if round == 0 => self.session.sync(&self.path).await?,
                Ok(None) => break,
                // Another client deleted the path.
                Err(error) if error.is_no_node() => {
                    ensure_schema(&self.session, &self.path, &self.schema).await?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err(ClaimError::AllTaken {
            path: self.path.clone(),
            workers: self.workers,
        })
    }

    /// Claims a number. If none is free, waits for one, at most for `limit`.
    ///
    /// # Errors
    ///
    /// Those of [`claim`](Self::claim). [`ClaimError::AllTaken`] if no number was free within `limit`.
    ///
    /// # Cost
    ///
    /// That of [`claim`](Self::claim), at first and after each change among the workers, and a watch meanwhile.
    /// Each claim and release wakes every waiter: do not use this with many waiters.
    pub async fn claim_timeout(&self, limit: Duration) -> Result<WorkerId, ClaimError> {
        let since = Instant::now();
        loop {
            let error = match self.claim().await {
                Err(error @ ClaimError::AllTaken { .. }) => error,
                result => return result,
            };
            let left = limit.saturating_sub(since.elapsed());
            if left.is_zero() {
                return Err(error);
            }
            // Lists again, so that no change since the claim is missed.
            let (names, _, mut watch) = self.session.list(&self.path).watched().await?;
            let taken = self.taken(names).len();
            if taken >= usize::try_from(self.workers).unwrap_or(usize::MAX) {
                drop(timeout(left, watch.changed()).await);
            }
        }
    }

    /// Returns the claimed numbers in order, each with the description of its holder.
    ///
    /// # Errors
    ///
    /// If a request fails.
    ///
    /// # Cost
    ///
    /// One round trip, and one for each number.
    pub async fn holders(&self) -> Result<Vec<(u32, String)>, Error> {
        let names = match self.session.list(&self.path).await {
            Ok((names, _)) => names,
            Err(error) if error.is_no_node() => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut holders = Vec::new();
        for number in self.taken(names) {
            match self.session.get(self.worker_path(number)).await {
                Ok((data, _)) => {
                    let text = String::from_utf8_lossy(&data);
                    let description = text
                        .split_once('\n')
                        .map_or("", |(_, description)| description);
                    holders.push((number, description.to_owned()));
                }
                // It was deleted since the list.
                Err(error) if error.is_no_node() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(holders)
    }

    /// Tries every number that is free according to the list.
    async fn try_all(&self, avoided: &BTreeSet<u32>) -> Result<Option<(u32, OwnedNode)>, Error> {
        let (names, _) = self.session.list(&self.path).await?;
        let taken = self.taken(names);
        let start = self.session.id().as_i64().cast_unsigned();
        let free = || worker_slots::free(&taken, self.workers, self.preferred, start);
        // Two passes without a list: there may be four billion numbers.
        let first = free().filter(|number| !avoided.contains(number));
        let last = free().filter(|number| avoided.contains(number));
        for number in first.chain(last) {
            let data = format!("{}\n{}", unique_writer(&self.session), self.description);
            let create = self
                .session
                .create(self.worker_path(number), data)
                .claimed();
            if let Some(node) = create.await? {
                return Ok(Some((number, node)));
            }
        }
        Ok(None)
    }

    fn taken(&self, names: Vec<String>) -> BTreeSet<u32> {
        names
            .into_iter()
            .filter_map(|name| worker_slots::number(&name))
            .filter(|number| *number < self.workers)
            .collect()
    }

    fn worker_path(&self, number: u32) -> NodePath {
        child(&self.path, &worker_slots::worker_name(number))
    }
}

/// A worker number that this process holds while it is [valid](Self::is_valid).
///
/// # Dropping
///
/// The number is released in the background, see [`OwnedNode`]. If the process dies, the end of its session releases
/// it.
#[derive(Debug)]
#[must_use = "the number is released when this is dropped"]
pub struct WorkerId {
    number: u32,
    node: OwnedNode,
    session_lease: SessionLease,
}

impl WorkerId {
    /// Returns the number.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Returns the path of the node that claims the number.
    pub fn path(&self) -> &NodePath {
        self.node.path()
    }

    /// Returns a number that is higher for every later holder of the worker number: the zxid of the claim.
    pub fn fencing_token(&self) -> u64 {
        self.node.stat().czxid.cast_unsigned()
    }

    /// Returns when the number was claimed, by the leader's clock.
    pub(crate) fn claimed_at(&self) -> SystemTime {
        self.node.stat().ctime
    }

    /// Returns whether this process certainly holds the number now, as long as no client deletes the node of another
    /// one.
    ///
    /// Sends no request.
    pub fn is_valid(&self) -> bool {
        self.session_lease.is_valid()
    }

    /// Waits until the number is lost or no longer valid.
    ///
    /// After [`WorkerLoss::SessionLeaseExpired`] it may be [valid](Self::is_valid) again, if the session survived.
    ///
    /// # Session loss
    ///
    /// [`WorkerLoss::SessionLeaseExpired`] or [`WorkerLoss::SessionLost`].
    ///
    /// # Cost
    ///
    /// A watch on the node.
    pub async fn lost(&self) -> WorkerLoss {
        let node = self.node();
        tokio::select! {
            biased;
            loss = node.lost() => loss,
            () = self.session_lease.lapsed() => match self.session_lease.valid_until() {
                Some(_) => WorkerLoss::SessionLeaseExpired,
                None => WorkerLoss::SessionLost,
            },
        }
    }

    /// Returns a value that waits for the loss of the node.
    pub(crate) fn node(&self) -> WorkerNode {
        WorkerNode {
            session: self.node.session().clone(),
            path: self.node.path().clone(),
            czxid: self.node.stat().czxid,
        }
    }

    /// Releases the number and waits until the ensemble has released it, at most for the operation timeout.
    ///
    /// # Errors
    ///
    /// If the number may not be released yet. The release then continues in the background while the session lives.
    pub async fn release(self) -> Result<(), Error> {
        self.node.delete().await
    }
}

impl SessionBound for WorkerId {
    type Loss = WorkerLoss;

    async fn lost(&self) -> WorkerLoss {
        Self::lost(self).await
    }
}

/// The node of a claimed worker number.
#[derive(Debug)]
pub(crate) struct WorkerNode {
    session: Session,
    path: NodePath,
    czxid: i64,
}

impl WorkerNode {
    /// Waits until the node is deleted, by another client or with the session.
    pub(crate) async fn lost(&self) -> WorkerLoss {
        tokio::select! {
            biased;
            _ = self.session.lost() => WorkerLoss::SessionLost,
            () = self.deleted() => if self.session.is_over().await {
                WorkerLoss::SessionLost
            } else {
                WorkerLoss::NodeDeleted
            },
        }
    }

    async fn deleted(&self) {
        let session = &self.session;
        let czxid = self.czxid;
        loop {
            // Reads first, so that no earlier deletion is missed.
            match session.exists(&self.path).watched().await {
                Ok((Some(stat), mut watch)) if stat.czxid == czxid => match watch.changed().await {
                    WatchEvent::SessionLost => std::future::pending().await,
                    WatchEvent::Deleted => return,
                    // Another client wrote to it.
                    _ => {}
                },
                Ok(_) => return,
                Err(error) if error.is_fatal() => std::future::pending().await,
                Err(error) => {
                    tracing::warn!(path = %self.path, %error, "cannot watch our worker node, trying again");
                    session.pause(session.session_timeout() / 3).await;
                }
            }
        }
    }
}

/// Returns a text that no other call writes, of this session or another one.
pub(crate) fn unique_writer(session: &Session) -> String {
    let call = CALLS.fetch_add(1, Ordering::Relaxed);
    format!("{}-{call}", session.id())
}

/// Returns the path of a child. `name` must be a valid name.
pub(crate) fn child(path: &NodePath, name: &str) -> NodePath {
    path.join(name)
        .expect("a name of letters, digits and a hyphen")
}

static CALLS: AtomicU64 = AtomicU64::new(0);
