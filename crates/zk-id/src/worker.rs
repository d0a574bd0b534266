//! A number for each process, that no other one has at the same time.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::time::Duration;
use std::time::SystemTime;

use tokio::time::Instant;
use tokio::time::timeout;
use zk_core::Error;
use zk_core::NodePath;
use zk_core::OwnedNode;
use zk_core::ParsePathError;
use zk_core::Session;
use zk_core::Trusted;
use zk_core::WatchEvent;

use crate::error::ClaimError;
use crate::error::Loss;
use crate::path_schema::ROUNDS;
use crate::path_schema::settle;
use crate::worker_slots as slots;

/// Worker numbers from a fixed range, of which each is one process's at a time: for shards, names, slots in a table.
///
/// For ids take a [`Snowflake`](crate::Snowflake), which has one and more: that a number is one process's at a time does
/// not keep a late id of the last process from being the same as an early one of the next.
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
    /// What the data of the node at the path says.
    charter: Arc<str>,
    preferred: Option<u32>,
    description: Arc<str>,
}

impl WorkerIds {
    /// Makes a handle of the numbers below `workers` that are claimed below `path`.
    ///
    /// All processes have to say the same number of workers.
    /// The node at the path is made when it is needed, and so are its parents; use it for nothing else.
    ///
    /// # Errors
    ///
    /// When `path` is none.
    pub fn new<P>(session: &Session, path: P, workers: u32) -> Result<Self, ParsePathError>
    where
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        let path = path.try_into().map_err(Into::into)?;
        let charter = format!("zk-id {workers} workers");
        Ok(Self::chartered(session, path, workers, &charter))
    }

    pub(crate) fn chartered(
        session: &Session,
        path: NodePath,
        workers: u32,
        charter: &str,
    ) -> Self {
        Self {
            session: session.clone(),
            path,
            workers,
            charter: charter.into(),
            preferred: None,
            description: "".into(),
        }
    }

    /// Sets the number to be claimed if it is free, as the one that a process had before; default, none.
    ///
    /// One outside of the range is as none.
    #[must_use]
    pub fn with_preferred(mut self, number: u32) -> Self {
        self.preferred = Some(number);
        self
    }

    /// Sets a text by which people know the process, for [`holders`](Self::holders); default, an empty one.
    #[must_use]
    pub fn with_description(mut self, description: &str) -> Self {
        self.description = description.into();
        self
    }

    /// Returns the node below which the numbers are claimed.
    pub fn path(&self) -> &NodePath {
        &self.path
    }

    /// Claims a number that is free.
    ///
    /// # Errors
    ///
    /// [`ClaimError::AllTaken`], [`ClaimError::OtherUse`] when others use the path for something else, and
    /// [`ClaimError::Failed`] when the ensemble did not do it within the session's operation timeout.
    ///
    /// # Cancel safety
    ///
    /// Safe: a number that was claimed, or will be by a request that has left, is released in the background.
    ///
    /// # Session loss
    ///
    /// [`ClaimError::Failed`].
    ///
    /// # Cost
    ///
    /// Three round trips, and one more for each number that somebody else claims at the same moment.
    /// On a session that has relied on nothing for a minute, two fifths of the session timeout; see
    /// [`Session::stand_by`].
    pub async fn claim(&self) -> Result<WorkerId, ClaimError> {
        self.claim_avoiding(&BTreeSet::new()).await
    }

    /// Claims a number that is free, one of `avoided` only if no other one is.
    pub(crate) async fn claim_avoiding(
        &self,
        avoided: &BTreeSet<u32>,
    ) -> Result<WorkerId, ClaimError> {
        let trusted = self.session.keep_trusted();
        settle(&self.session, &self.path, &self.charter).await?;
        for round in 0..ROUNDS {
            match self.try_all(avoided).await {
                Ok(Some((number, node))) => {
                    // The answer proves that the session was alive; that it is now is proven by this.
                    let patience = self.session.operation_timeout();
                    trusted
                        .renewed(patience.max(self.session.session_timeout()))
                        .await?;
                    return Ok(WorkerId {
                        number,
                        node,
                        trusted,
                    });
                }
                // The server may have shown numbers that are free again.
                Ok(None) if round == 0 => self.session.sync(&self.path).await?,
                Ok(None) => break,
                // Somebody has removed the path.
                Err(error) if error.is_no_node() => {
                    settle(&self.session, &self.path, &self.charter).await?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err(ClaimError::AllTaken {
            path: self.path.clone(),
            workers: self.workers,
        })
    }

    /// Claims a number, and waits for one to be free, at most for `limit`.
    ///
    /// # Errors
    ///
    /// Those of [`claim`](Self::claim); [`ClaimError::AllTaken`] when none was free in all that time.
    ///
    /// # Cancel safety
    ///
    /// Safe: a number that was claimed, or will be by a request that has left, is released in the background.
    ///
    /// # Session loss
    ///
    /// [`ClaimError::Failed`].
    ///
    /// # Cost
    ///
    /// That of [`claim`](Self::claim), once and after each change among the workers, and a watch meanwhile.
    /// Who waits is woken by every one that comes and goes: this is not for many that wait.
    pub async fn claim_timeout(&self, limit: Duration) -> Result<WorkerId, ClaimError> {
        let since = Instant::now();
        loop {
            let error = match self.claim().await {
                Err(error @ ClaimError::AllTaken { .. }) => error,
                answer => return answer,
            };
            let left = limit.saturating_sub(since.elapsed());
            if left.is_zero() {
                return Err(error);
            }
            // This lists again, so that what changed since is not missed.
            let (names, _, mut watch) = self.session.list(&self.path).watched().await?;
            let taken = self.taken(names).len();
            if taken >= usize::try_from(self.workers).unwrap_or(usize::MAX) {
                drop(timeout(left, watch.changed()).await);
            }
        }
    }

    /// Returns the numbers that are taken, with the descriptions of who has them, in order.
    ///
    /// # Errors
    ///
    /// When the ensemble does not answer.
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
    /// One round trip, and one for each number.
    pub async fn holders(&self) -> Result<Vec<(u32, String)>, Error> {
        let names = match self.session.list(&self.path).await {
            Ok((names, _)) => names,
            Err(error) if error.is_no_node() => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut holders = Vec::new();
        for number in self.taken(names) {
            match self.session.get(self.slot(number)).await {
                Ok((data, _)) => {
                    let text = String::from_utf8_lossy(&data);
                    let description = text.split_once('\n').map_or("", |(_, it)| it);
                    holders.push((number, description.to_owned()));
                }
                // It has just gone.
                Err(error) if error.is_no_node() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(holders)
    }

    /// Tries every number that seems to be free.
    async fn try_all(&self, avoided: &BTreeSet<u32>) -> Result<Option<(u32, OwnedNode)>, Error> {
        let (names, _) = self.session.list(&self.path).await?;
        let taken = self.taken(names);
        let start = self.session.id().as_i64().cast_unsigned();
        let free = slots::free(&taken, self.workers, self.preferred, start);
        let (last, first): (Vec<u32>, Vec<u32>) = free.partition(|number| avoided.contains(number));
        for number in first.into_iter().chain(last) {
            let data = format!("{}\n{}", writer(&self.session), self.description);
            let create = self.session.create(self.slot(number), data).claimed();
            if let Some(node) = create.await? {
                return Ok(Some((number, node)));
            }
        }
        Ok(None)
    }

    fn taken(&self, names: Vec<String>) -> BTreeSet<u32> {
        names
            .into_iter()
            .filter_map(|name| slots::number(&name))
            .filter(|number| *number < self.workers)
            .collect()
    }

    fn slot(&self, number: u32) -> NodePath {
        below(&self.path, &slots::worker_name(number))
    }
}

/// A worker number that is this process's for as long as it is [trusted](Self::is_trusted).
///
/// # Dropping
///
/// The number is released in the background, see [`OwnedNode`]; if the process dies, when its session ends.
#[derive(Debug)]
#[must_use = "the number is released when this is dropped"]
pub struct WorkerId {
    number: u32,
    node: OwnedNode,
    trusted: Trusted,
}

impl WorkerId {
    /// Returns the number.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Returns the node that says that the number is taken.
    pub fn path(&self) -> &NodePath {
        self.node.path()
    }

    /// Returns a number that is greater for whoever has the worker number later: the transaction that claimed it.
    pub fn fencing_token(&self) -> u64 {
        self.node.stat().czxid.cast_unsigned()
    }

    /// Returns when the number was claimed, by the leader's clock.
    pub(crate) fn claimed_at(&self) -> SystemTime {
        self.node.stat().ctime
    }

    /// Tells whether certainly nobody else can have the number now, as long as nobody deletes the node of another one.
    /// Asks nobody.
    pub fn is_trusted(&self) -> bool {
        self.trusted.is_trusted()
    }

    /// Waits until the number is lost, or can no longer be relied on.
    ///
    /// After [`Loss::TrustLapsed`] it may be [trusted](Self::is_trusted) again, if the session has survived.
    ///
    /// # Cancel safety
    ///
    /// Safe, nothing happened.
    ///
    /// # Session loss
    ///
    /// It resolves.
    ///
    /// # Cost
    ///
    /// A watch on the node.
    pub async fn lost(&self) -> Loss {
        let place = self.place();
        tokio::select! {
            biased;
            loss = place.gone() => loss,
            () = self.trusted.lapsed() => match self.trusted.until() {
                Some(_) => Loss::TrustLapsed,
                None => Loss::SessionLost,
            },
        }
    }

    /// Returns what waits until the node is gone.
    pub(crate) fn place(&self) -> Place {
        Place {
            session: self.node.session().clone(),
            path: self.node.path().clone(),
            czxid: self.node.stat().czxid,
        }
    }

    /// Releases the number and waits until the ensemble has done it, at most for the operation timeout.
    ///
    /// # Errors
    ///
    /// When it is not known to be released; the release then continues in the background, while the session lives.
    ///
    /// # Cancel safety
    ///
    /// Safe: the release continues in the background.
    ///
    /// # Session loss
    ///
    /// A fatal error; the number is released with the session.
    pub async fn release(self) -> Result<(), Error> {
        self.node.delete().await
    }
}

/// The node of a worker number, for whoever waits until it is gone.
#[derive(Debug)]
pub(crate) struct Place {
    session: Session,
    path: NodePath,
    czxid: i64,
}

impl Place {
    /// Waits until the node is gone, by somebody's deletion or with the session.
    pub(crate) async fn gone(&self) -> Loss {
        tokio::select! {
            biased;
            _ = self.session.lost() => Loss::SessionLost,
            () = self.deleted() => if self.session.is_over().await {
                Loss::SessionLost
            } else {
                Loss::NodeDeleted
            },
        }
    }

    async fn deleted(&self) {
        let session = &self.session;
        let czxid = self.czxid;
        loop {
            // This looks first, so that what happened before it is not missed.
            match session.exists(&self.path).watched().await {
                Ok((Some(stat), mut watch)) if stat.czxid == czxid => match watch.changed().await {
                    WatchEvent::SessionLost => std::future::pending().await,
                    WatchEvent::Deleted => return,
                    // Somebody wrote to it.
                    _ => {}
                },
                Ok(_) => return,
                Err(error) if error.is_fatal() => std::future::pending().await,
                Err(error) => {
                    tracing::warn!(path = %self.path, %error, "a deletion of this node of ours would not be noticed now");
                    drop(timeout(session.session_timeout() / 3, session.lost()).await);
                }
            }
        }
    }
}

/// A text that no other call writes, of this session or another one.
pub(crate) fn writer(session: &Session) -> String {
    let call = CALLS.fetch_add(1, Ordering::Relaxed);
    format!("{}-{call}", session.id())
}

/// The child of a node whose name is one that paths may have.
pub(crate) fn below(path: &NodePath, name: &str) -> NodePath {
    path.join(name)
        .expect("a name of letters, digits and a hyphen")
}

static CALLS: AtomicU64 = AtomicU64::new(0);
