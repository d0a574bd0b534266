//! The task that finishes what callers could not wait for.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::Engine;
use crate::call::join_all;
use crate::deadline::Deadline;
use crate::error::ErrorKind;
use crate::path::NodePath;
use crate::retry::RetryPolicy;
use crate::stat::Stat;
use crate::transport::Bytes;
use crate::transport::Fault;
use crate::transport::Request;
use crate::transport::Response;

/// Something to remove in the background, until it is certainly gone or the session is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Job {
    /// Whatever a create under this name may have made or may still make.
    Abandoned {
        parent: NodePath,
        /// What the names of such nodes begin with; it has a unique id in it.
        prefix: String,
        is_ephemeral: bool,
    },
    /// A node under a name that others use, too, if one with this data was or will be made by this session.
    Claimed { path: NodePath, data: Bytes },
    /// A node whose name nobody else will ever use.
    Unique { path: NodePath, is_ephemeral: bool },
    /// A node that another one may take the place of.
    Exact {
        path: NodePath,
        czxid: i64,
        /// The version its data must have, if one was asked for.
        version: Option<i32>,
        is_ephemeral: bool,
    },
}

impl Job {
    /// Whether the end of the session does not do the same.
    fn outlives_the_session(&self) -> bool {
        match self {
            Self::Abandoned { is_ephemeral, .. } | Self::Unique { is_ephemeral, .. } => {
                !is_ephemeral
            }
            Self::Claimed { .. } => false,
            Self::Exact { is_ephemeral, .. } => !is_ephemeral,
        }
    }
}

/// How many jobs are not done yet.
#[derive(Debug, Default)]
pub(crate) struct Unsettled(watch::Sender<Count>);

#[derive(Debug, Clone, Copy, Default)]
struct Count {
    all: usize,
    outliving: usize,
}

impl Unsettled {
    pub(super) fn add(&self, job: &Job) {
        self.0.send_modify(|count| {
            count.all += 1;
            count.outliving += usize::from(job.outlives_the_session());
        });
    }

    pub(super) fn remove(&self, job: &Job) {
        self.0.send_modify(|count| {
            count.all -= 1;
            count.outliving -= usize::from(job.outlives_the_session());
        });
    }

    /// Counts one more for as long as the answer lives.
    pub(super) fn hold(self: &Arc<Self>) -> Hold {
        self.0.send_modify(|count| count.all += 1);
        Hold(Arc::clone(self))
    }

    pub(super) fn outlive_the_session(&self) -> bool {
        self.0.borrow().outliving > 0
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.borrow().all as u64
    }

    /// Waits until there is no job.
    pub(crate) async fn settled(&self) {
        let mut count = self.0.subscribe();
        // The sender lives as long as the session that is waited on.
        drop(count.wait_for(|count| count.all == 0).await);
    }
}

/// Work that is not done yet.
#[derive(Debug)]
pub(super) struct Hold(Arc<Unsettled>);

impl Drop for Hold {
    fn drop(&mut self) {
        self.0.0.send_modify(|count| count.all -= 1);
    }
}

pub(super) fn spawn(engine: &Arc<Engine>, mut queue: mpsc::UnboundedReceiver<Job>) {
    let engine = Arc::clone(engine);
    tokio::spawn(async move {
        let mut running = JoinSet::new();
        loop {
            tokio::select! {
                biased;
                Some(job) = queue.recv() => {
                    let engine = Arc::clone(&engine);
                    running.spawn(async move {
                        run(&engine, &job).await;
                        engine.unsettled.remove(&job);
                        engine.close_if_abandoned();
                    });
                }
                Some(_) = running.join_next() => {}
                _ = engine.ended() => break,
            }
        }
        // What was left is settled by the end of the session, or cannot be any more.
        running.join_all().await;
        queue.close();
        while let Some(job) = queue.recv().await {
            engine.unsettled.remove(&job);
        }
    });
}

/// Tries until there is a definite answer.
async fn run(engine: &Engine, job: &Job) {
    let policy = RetryPolicy::default();
    let never = Deadline::after(Duration::MAX);
    let mut attempts = 0;
    while engine.connected().await.is_ok() {
        attempts += 1;
        match attempt(engine, job).await {
            Ok(()) => return,
            Err(Fault::Ended(_)) => break,
            Err(Fault::Refused(kind, detail)) => {
                tracing::warn!(
                    ?job,
                    ?kind,
                    ?detail,
                    "what was left behind cannot be removed"
                );
                return;
            }
            Err(fault) => tracing::debug!(?job, ?fault, attempts, "removing it again"),
        }
        let pause = policy.pause(attempts, Duration::ZERO, fastrand::f64);
        never.pause(pause.unwrap_or_default()).await;
    }
    if job.outlives_the_session() {
        tracing::warn!(?job, "the session ended before this could be removed");
    }
}

async fn attempt(engine: &Engine, job: &Job) -> Result<(), Fault> {
    match job {
        Job::Unique { path, .. } => delete(engine, path, None).await,
        Job::Exact {
            path,
            czxid,
            version,
            ..
        } => delete_exactly(engine, path, *czxid, *version).await,
        Job::Claimed { path, data } => match find_claimed(engine, path, data).await? {
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

/// The children of `parent` whose names begin with `prefix`, read from a server that has caught up.
///
/// A server that lags would say that there are none, although one is about to appear (TRAPS X0).
/// Once the session has moved to another server and that one has caught up, a create that was still on its way
/// through the old server is refused by the leader: what is not found then will not appear later.
pub(crate) async fn find(
    engine: &Engine,
    parent: &NodePath,
    prefix: &str,
) -> Result<Vec<NodePath>, Fault> {
    let list = Request::List {
        path: parent.clone(),
        watch: false,
    };
    let listed = ask_fresh(engine, parent, list).await?;
    match listed {
        Ok(Response::Children { names, .. }) => Ok(names
            .iter()
            .filter(|name| name.starts_with(prefix))
            .map(|name| parent.child(name))
            .collect()),
        Ok(other) => Err(unexpected(&other)),
        Err(Fault::Refused(ErrorKind::NoNode, _)) => Ok(Vec::new()),
        Err(fault) => Err(fault),
    }
}

/// The node at `path`, if it belongs to this session and has this data, read from a server that has caught up.
///
/// As with [`find`], a node that is not found then will not appear later.
pub(crate) async fn find_claimed(
    engine: &Engine,
    path: &NodePath,
    data: &Bytes,
) -> Result<Option<Stat>, Fault> {
    let get = Request::Get {
        path: path.clone(),
        watch: false,
    };
    match ask_fresh(engine, path, get).await? {
        Ok(Response::Data {
            data: found, stat, ..
        }) => {
            let is_ours = stat.ephemeral_owner == Some(engine.transport().session_id());
            Ok((is_ours && found == data.as_slice()).then_some(stat))
        }
        Ok(other) => Err(unexpected(&other)),
        Err(Fault::Refused(ErrorKind::NoNode, _)) => Ok(None),
        Err(fault) => Err(fault),
    }
}

/// Makes a read once the server has caught up.
///
/// Both are sent at once. If the link breaks meanwhile there is no telling whether one server answered both.
async fn ask_fresh(
    engine: &Engine,
    path: &NodePath,
    read: Request,
) -> Result<Result<Response, Fault>, Fault> {
    let before = engine.link_now();
    let sync = Request::Sync { path: path.clone() };
    let mut answers = join_all([sync, read].map(|request| engine.send(request))).await;
    let answer = answers.pop();
    if let Some(Err(fault)) = answers.pop() {
        return Err(fault);
    }
    match answer {
        Some(answer) if engine.link_now().breaks == before.breaks => Ok(answer),
        _ => Err(Fault::Lost(
            "the connection moved while a server caught up".to_owned(),
        )),
    }
}

async fn delete_exactly(
    engine: &Engine,
    path: &NodePath,
    czxid: i64,
    version: Option<i32>,
) -> Result<(), Fault> {
    let look = Request::Exists {
        path: path.clone(),
        watch: false,
    };
    match ask_fresh(engine, path, look).await?? {
        Response::Stat {
            stat: Some(stat), ..
        } if stat.czxid == czxid && version.is_none_or(|version| version == stat.version) => {
            delete(engine, path, Some(stat.version)).await
        }
        // It is gone, has another version than was asked for, or another one has taken its place.
        _ => Ok(()),
    }
}

pub(crate) async fn delete(
    engine: &Engine,
    path: &NodePath,
    version: Option<i32>,
) -> Result<(), Fault> {
    let request = Request::Delete {
        path: path.clone(),
        version,
    };
    match engine.send(request).await {
        Ok(_) | Err(Fault::Refused(ErrorKind::NoNode, _)) => Ok(()),
        // It changed since it was looked at: look again.
        Err(Fault::Refused(ErrorKind::BadVersion, _)) => Err(Fault::Later(ErrorKind::BadVersion)),
        Err(fault) => Err(fault),
    }
}

pub(crate) fn unexpected(response: &Response) -> Fault {
    Fault::Lost(format!("an answer of another kind: {response:?}"))
}
