//! Removes nodes in the background when their callers could not wait for the removal.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinSet;
use zk_wire::NodePath;

use super::catch_up::CatchUp;
use super::fresh_read::{find, find_claimed, read_fresh};
use super::{Engine, lock};
use crate::deadline::Deadline;
use crate::error::{ErrorClass, ErrorKind};
use crate::retry::RetryPolicy;
use crate::transport::{NodeData, Request, Response, TransportError};

/// The background work of one session. Its task ends with the session.
#[derive(Debug)]
pub(crate) struct Cleanup {
    engine: Arc<Engine>,
    jobs: mpsc::UnboundedSender<Begun>,
    unsettled: Unsettled,
    /// Whether the session has no handle any more.
    is_abandoned: watch::Sender<bool>,
}

/// A node to remove in the background, until it is certainly gone or the session is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Job {
    /// Any node that a create under this name may have created or may still create.
    Abandoned {
        parent: NodePath,
        /// The prefix of the names of such nodes. It contains a unique id.
        prefix: String,
        is_ephemeral: bool,
    },
    /// A node under a name that other clients use too, if this session created or will create it with this data.
    Claimed {
        path: NodePath,
        data: NodeData,
        /// The newest transaction that the session had seen before the create.
        seen: i64,
    },
    /// A node with a unique name.
    Unique { path: NodePath, is_ephemeral: bool },
    /// A node that another one may replace.
    Exact {
        path: NodePath,
        czxid: i64,
        /// The version its data must have, if one was required.
        version: Option<i32>,
        is_ephemeral: bool,
    },
}

impl Job {
    /// Returns whether the node outlives the session.
    fn outlives_the_session(&self) -> bool {
        match self {
            Self::Abandoned { is_ephemeral, .. } | Self::Unique { is_ephemeral, .. } => {
                !is_ephemeral
            }
            Self::Claimed { .. } => false,
            Self::Exact { is_ephemeral, .. } => !is_ephemeral,
        }
    }

    /// Returns the parent of the removed node and, if its path is known, the node itself.
    fn places(&self) -> impl Iterator<Item = NodePath> + use<> {
        let (parent, path) = match self {
            Self::Abandoned { parent, .. } => (Some(parent.clone()), None),
            Self::Claimed { path, .. } | Self::Unique { path, .. } | Self::Exact { path, .. } => {
                (path.parent(), Some(path.clone()))
            }
        };
        parent.into_iter().chain(path)
    }
}

/// A job whose first attempt has started already, if there was a connection.
struct Begun {
    job: Job,
    /// Its number among all jobs of the session.
    number: u64,
    first: Option<Attempt>,
}

type Attempt = Pin<Box<dyn Future<Output = Result<(), TransportError>> + Send>>;

/// Removes what a call may have left behind when it is dropped, unless its job was taken.
#[derive(Debug)]
pub(crate) struct CleanupOnDrop {
    cleanup: Arc<Cleanup>,
    pub(crate) job: Option<Job>,
}

impl CleanupOnDrop {
    pub(crate) fn new(cleanup: &Arc<Cleanup>, job: Job) -> Self {
        Self {
            cleanup: Arc::clone(cleanup),
            job: Some(job),
        }
    }
}

impl Drop for CleanupOnDrop {
    fn drop(&mut self) {
        if let Some(job) = self.job.take() {
            self.cleanup.add(job);
        }
    }
}

impl fmt::Debug for Begun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Begun").field(&self.job).finish()
    }
}

impl Cleanup {
    /// Starts the cleanup task on the current runtime.
    pub(crate) fn start(engine: &Arc<Engine>) -> Arc<Self> {
        let (jobs, queue) = mpsc::unbounded_channel();
        let cleanup = Arc::new(Self {
            engine: Arc::clone(engine),
            jobs,
            unsettled: Unsettled::default(),
            is_abandoned: watch::Sender::new(false),
        });
        tokio::spawn(run_jobs(Arc::clone(&cleanup), queue));
        cleanup
    }

    pub(crate) fn unsettled(&self) -> &Unsettled {
        &self.unsettled
    }

    /// Begins a job and passes it to the cleanup task. Never blocks, and needs no runtime.
    ///
    /// If there is a connection, the job's first request has been sent when this returns, so the ensemble executes
    /// later requests of this session after it.
    pub(crate) fn add(&self, job: Job) {
        let number = self.unsettled.add(&job);
        let first = begin(&self.engine, &job);
        if let Err(refused) = self.jobs.send(Begun { job, number, first }) {
            // The runtime has ended, and the session ends with it.
            self.unsettled.remove(&refused.0);
        }
    }

    /// Continues work that its caller no longer awaits, at most until the session is over. Never blocks.
    pub(crate) fn finish(self: &Arc<Self>, work: impl Future<Output = ()> + Send + 'static) {
        let hold = self.hold();
        let engine = Arc::clone(&self.engine);
        // On a runtime that is shut down the task is dropped, and the session ends with the runtime.
        self.engine.spawn(async move {
            let _hold = hold;
            tokio::select! {
                biased;
                () = work => {}
                _ = engine.ended() => {}
            }
        });
    }

    /// Closes the session as soon as no node that outlives it remains to be removed, at the latest after
    /// [`LONGEST_CLEANUP`]. Called when its last handle is dropped.
    pub(crate) fn abandon(&self) {
        self.is_abandoned.send_replace(true);
        self.close_if_abandoned();
    }

    fn close_if_abandoned(&self) {
        if *self.is_abandoned.borrow() && !self.unsettled.outlive_the_session() {
            self.engine.close();
        }
    }

    /// Waits until the session has had no handle for [`LONGEST_CLEANUP`].
    async fn abandoned_for_long(&self) {
        let mut abandoned = self.is_abandoned.subscribe();
        // The sender lives as long as this.
        drop(abandoned.wait_for(|is_abandoned| *is_abandoned).await);
        Deadline::after(Duration::MAX).pause(LONGEST_CLEANUP).await;
    }

    /// Counts one more job for as long as the returned value lives.
    fn hold(self: &Arc<Self>) -> Hold {
        self.unsettled.change(|count| count.all += 1);
        Hold(Arc::clone(self))
    }
}

/// The jobs that are not done yet.
///
/// Calls that wait are woken in the order in which they began to wait; with a [`watch`] channel that order is random.
#[derive(Debug, Default)]
pub(crate) struct Unsettled {
    count: Mutex<Count>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Count {
    all: usize,
    outliving: usize,
    /// The number of the next job.
    next: u64,
    /// The jobs about each of these [places](Job::places), by their numbers.
    at: HashMap<NodePath, BTreeSet<u64>>,
}

impl Unsettled {
    /// Adds a job and returns its number.
    fn add(&self, job: &Job) -> u64 {
        self.change(|count| {
            let number = count.next;
            count.next += 1;
            count.all += 1;
            count.outliving += usize::from(job.outlives_the_session());
            for place in job.places() {
                count.at.entry(place).or_default().insert(number);
            }
            number
        })
    }

    fn remove(&self, Begun { job, number, .. }: &Begun) {
        self.change(|count| {
            count.all -= 1;
            count.outliving -= usize::from(job.outlives_the_session());
            for place in job.places() {
                if let Entry::Occupied(mut jobs) = count.at.entry(place) {
                    jobs.get_mut().remove(number);
                    if jobs.get().is_empty() {
                        jobs.remove();
                    }
                }
            }
        });
    }

    fn outlive_the_session(&self) -> bool {
        lock(&self.count).outliving > 0
    }

    pub(crate) fn count(&self) -> u64 {
        lock(&self.count).all as u64
    }

    /// Waits until there is no job.
    pub(crate) async fn settled(&self) {
        self.wait_until(|count| count.all == 0).await;
    }

    pub(crate) fn is_settled_at(&self, place: &NodePath) -> bool {
        !lock(&self.count).at.contains_key(place)
    }

    /// Waits until no job is left of those that are about this node or a child of it now.
    pub(crate) async fn settled_at(&self, place: &NodePath) {
        let next = lock(&self.count).next;
        self.wait_until(|count| {
            let oldest = count.at.get(place).and_then(BTreeSet::first);
            oldest.is_none_or(|oldest| *oldest >= next)
        })
        .await;
    }

    fn change<T>(&self, change: impl FnOnce(&mut Count) -> T) -> T {
        let changed = change(&mut lock(&self.count));
        self.changed.notify_waiters();
        changed
    }

    async fn wait_until(&self, is_reached: impl Fn(&Count) -> bool) {
        loop {
            // Created before the count is read, so it misses no change.
            let changed = self.changed.notified();
            if is_reached(&lock(&self.count)) {
                return;
            }
            changed.await;
        }
    }
}

/// Work that is not done yet.
#[derive(Debug)]
struct Hold(Arc<Cleanup>);

impl Drop for Hold {
    fn drop(&mut self) {
        self.0.unsettled.change(|count| count.all -= 1);
    }
}

/// Starts the first attempt of a job if there is a connection.
fn begin(engine: &Arc<Engine>, job: &Job) -> Option<Attempt> {
    (engine.is_connected() && !engine.is_closing()).then(|| {
        let (engine, job) = (Arc::clone(engine), job.clone());
        let mut first: Attempt = Box::pin(async move { attempt(&engine, &job).await });
        // The first poll sends the request. The cleanup task polls again, with its own waker.
        match first.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answer) => Box::pin(std::future::ready(answer)),
            Poll::Pending => first,
        }
    })
}

async fn run_jobs(cleanup: Arc<Cleanup>, mut queue: mpsc::UnboundedReceiver<Begun>) {
    let engine = &cleanup.engine;
    let mut running = JoinSet::new();
    let mut is_given_up = false;
    let mut abandoned = std::pin::pin!(cleanup.abandoned_for_long());
    loop {
        tokio::select! {
            biased;
            Some(mut begun) = queue.recv() => {
                let cleanup = Arc::clone(&cleanup);
                running.spawn(async move {
                    let first = begun.first.take();
                    run(&cleanup.engine, &begun.job, first).await;
                    cleanup.unsettled.remove(&begun);
                    cleanup.close_if_abandoned();
                });
            }
            Some(_) = running.join_next() => {}
            () = &mut abandoned, if !is_given_up => {
                is_given_up = true;
                tracing::warn!(
                    session = %engine.transport().session_id(),
                    unsettled = cleanup.unsettled.count(),
                    "closing a session without handles although a node could not be removed",
                );
                engine.close();
            }
            _ = engine.ended() => break,
        }
    }
    // The end of the session has settled the remaining jobs, or they cannot be settled any more.
    running.join_all().await;
    queue.close();
    while let Some(begun) = queue.recv().await {
        cleanup.unsettled.remove(&begun);
    }
}

/// Repeats a job until there is a definite reply.
async fn run(engine: &Engine, job: &Job, mut first: Option<Attempt>) {
    let policy = RetryPolicy::default();
    let never = Deadline::after(Duration::MAX);
    let mut attempts = 0;
    loop {
        let answer = match first.take() {
            Some(first) => first.await,
            None if engine.connected().await.is_ok() => attempt(engine, job).await,
            None => break,
        };
        attempts += 1;
        match answer {
            Ok(()) => return,
            Err(TransportError::Ended(_) | TransportError::NotSent(_)) => break,
            Err(TransportError::Refused(kind, detail)) if kind.class() == ErrorClass::Outcome => {
                tracing::warn!(
                    ?job,
                    ?kind,
                    ?detail,
                    "a node that was left behind cannot be removed"
                );
                return;
            }
            Err(fault) => tracing::debug!(?job, ?fault, attempts, "removing it again"),
        }
        let pause = policy.pause(attempts, Duration::ZERO, || engine.chance());
        never.pause(pause.unwrap_or_default()).await;
    }
    if job.outlives_the_session() {
        tracing::warn!(?job, "the session ended before this could be removed");
    }
}

async fn attempt(engine: &Engine, job: &Job) -> Result<(), TransportError> {
    match job {
        Job::Unique { path, .. } => delete(engine, path, None).await,
        Job::Exact {
            path,
            czxid,
            version,
            ..
        } => delete_exactly(engine, path, *czxid, *version).await,
        Job::Claimed { path, data, seen } => match find_claimed(engine, path, data, *seen).await? {
            Some(stat) => delete(engine, path, Some(stat.version)).await,
            None => Ok(()),
        },
        Job::Abandoned { parent, prefix, .. } => {
            for path in find(engine, parent, prefix).await? {
                delete(engine, &path, None).await?;
            }
            Ok(())
        }
    }
}

async fn delete_exactly(
    engine: &Engine,
    path: &NodePath,
    czxid: i64,
    version: Option<i32>,
) -> Result<(), TransportError> {
    let exists = Request::Exists {
        path: path.clone(),
        watch: false,
    };
    match read_fresh(engine, path, CatchUp::Committed, exists).await?? {
        Response::Stat {
            stat: Some(stat), ..
        } if stat.czxid == czxid && version.is_none_or(|version| version == stat.version) => {
            delete(engine, path, Some(stat.version)).await
        }
        // It is gone, has another version than was required, or was replaced.
        _ => Ok(()),
    }
}

pub(crate) async fn delete(
    engine: &Engine,
    path: &NodePath,
    version: Option<i32>,
) -> Result<(), TransportError> {
    let request = Request::Delete {
        path: path.clone(),
        version,
    };
    match engine.send(request).await {
        Ok(_) | Err(TransportError::Refused(ErrorKind::NoNode, _)) => Ok(()),
        // It changed since it was read: read again.
        Err(TransportError::Refused(ErrorKind::BadVersion, _)) => {
            Err(TransportError::Later(ErrorKind::BadVersion))
        }
        Err(fault) => Err(fault),
    }
}

/// How long a session without handles continues to remove nodes that outlive it.
pub(crate) const LONGEST_CLEANUP: Duration = Duration::from_secs(120);
