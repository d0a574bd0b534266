//! `Breadcrumb`: the record of the process that last acted as the leader, which the next leader fences first.
//!
//! Every write checks the node of the leader in the same transaction, so a former leader writes nothing. The leaders
//! before this one have therefore made all their writes when this one reads.

use std::fmt;

use zk_core::{CreateMode, Error, ErrorClass, ErrorKind, MultiResult, NodePath, ParsePathError};

use crate::error::LeadershipLoss;
use crate::lease::LeaderLease;

mod decision;

use decision::{Found, Step, next_step};

/// The record that this process acts as the leader: it tells the next leader whom to fence before it acts itself, as in
/// Hadoop's `ActiveStandbyElector`.
///
/// A leadership ends by the clock of the ensemble. Its process may be paused at that moment, or be slow to notice, and
/// act once more. If the resource on which it acts can compare numbers, the
/// [fencing token](LeaderLease::fencing_token) protects it. If it cannot, the next leader has to *fence* the former one
/// first: stop its process, cut its power, or revoke its access to the storage. The breadcrumb says whom to fence, and
/// whether that is needed.
///
/// Each leader calls [`take_over`](Self::take_over) before it acts, and [`remove`](Self::remove) once it has stopped
/// acting, before it resigns.
///
/// # Guarantees
///
/// 1. When [`take_over`](Self::take_over) has returned a breadcrumb, every other process that had one before has removed
///    it since or was fenced since, or this process was fenced itself meanwhile, whatever servers, networks, clocks and
///    processes do.
/// 2. A former leader does not write or remove the breadcrumb, even if its requests arrive late.
/// 3. A process that removed its breadcrumb is not fenced by later leaders.
///
/// They hold if the function that fences does, see [`take_over`](Self::take_over); if all participants use it, with
/// data that differ; and if no other client writes the node.
///
/// Not guaranteed: that only a process that acts is fenced. A leader that stops, or loses a reply, between the write
/// of its breadcrumb and its first action is fenced as well.
///
/// # Layout
///
/// ```text
/// /leaders/name-node                                               container
/// ├── ActiveBreadCrumb                                             persistent, the data of the process that acts
/// └── _c_0d8e3dcc-2f4a-4f0e-9c3f-3f0c7a1b9f11-lock-0000000007      ephemeral, leads
/// ```
///
/// The name is Hadoop's. Its election has another node, so its participants and these do not share a path.
/// There is one breadcrumb for each path: do not run a latch and a selector on one path, which are two elections.
/// Curator's participants ignore the node when they elect, and list it as the last participant and, while there is no
/// other, as the leader.
///
/// # Failure behaviour
///
/// | event | effect |
/// |---|---|
/// | a reply is lost | the breadcrumb is read again, which shows whether it was written; the old process is not fenced twice |
/// | the session or the leadership is lost | `take_over` fails and drops the future that fences; the breadcrumb is the old one or this process's own |
/// | the future is dropped | the same; the next leader fences the process whose breadcrumb it finds |
/// | the server lags behind | it catches up with the quorum before the breadcrumb is read |
/// | the process dies | its breadcrumb stays, and the next leader fences it |
///
/// # Dropping
///
/// Nothing happens: the breadcrumb stays, and the next leader fences this process.
///
/// # Examples
///
/// ```no_run
/// # async fn power_off(_: Vec<u8>) -> Result<(), std::io::Error> { Ok(()) }
/// # async fn serve(_: &zk_leader::LeaderLease) {}
/// # async fn demo(session: zk_core::Session) -> Result<(), Box<dyn std::error::Error>> {
/// use std::ops::ControlFlow;
/// use zk_leader::{Breadcrumb, Selector};
///
/// // Another run of this process has other data.
/// let name = format!("host-7 {}", std::process::id());
/// let selector = Selector::new(&session, "/leaders/name-node")?;
/// let served: Result<(), zk_core::Error> = selector
///     .run(async |lease| {
///         let breadcrumb = match Breadcrumb::take_over(&lease, name.as_str(), power_off).await {
///             Ok(breadcrumb) => breadcrumb,
///             Err(error) => {
///                 eprintln!("another one may do better: {error}");
///                 tokio::time::sleep(std::time::Duration::from_secs(1)).await;
///                 return ControlFlow::Continue(());
///             }
///         };
///         serve(&lease).await;
///         ControlFlow::Break(breadcrumb.remove().await)
///     })
///     .await?;
/// served?;
/// # Ok(())
/// # }
/// ```
#[must_use = "the next leader fences this process unless the breadcrumb is removed"]
pub struct Breadcrumb {
    lease: LeaderLease,
    path: NodePath,
    version: i32,
}

/// A leader did not take over, and must not act.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum TakeOverError<E> {
    /// The leadership is over, or no longer proven.
    #[error("the leadership ended before the leader took over: {0}")]
    Lost(LeadershipLoss),
    /// The old process was not fenced; its breadcrumb stays.
    #[error("the process that acted as the leader before was not fenced")]
    Fence(#[source] E),
    /// The path of the breadcrumb is too long.
    #[error(transparent)]
    Path(#[from] ParsePathError),
    /// An operation failed.
    #[error(transparent)]
    Core(#[from] Error),
}

impl<E> TakeOverError<E> {
    /// Returns what a caller can do about it. A failure to fence is an [outcome](ErrorClass::Outcome).
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Lost(loss) => loss.class(),
            Self::Core(error) => error.class(),
            Self::Fence(_) | Self::Path(_) => ErrorClass::Outcome,
        }
    }
}

impl Breadcrumb {
    /// Fences the process that acted as the leader before, if its breadcrumb is still there, and then writes that of
    /// this process. Call it once leading, before acting.
    ///
    /// `data` names this process to the next leader, whose `fence` receives it. A breadcrumb with the same data is this
    /// process's own, from an earlier leadership, and no process is fenced. So no two processes may have the same data.
    /// If an earlier run of this process may still act, its data must differ as well.
    ///
    /// `fence` receives the data of the old process, and returns once that process does not act any more and cannot
    /// begin to. The old process may be about to act, so that it does not act now is no success. It must be idempotent:
    /// a leader that fails afterwards leaves the old breadcrumb, and the next leader fences again. It is dropped at an
    /// await if the leadership is lost; an action that it started may then end after the next leader has fenced the same
    /// process. There is no time limit but its own.
    ///
    /// # Errors
    ///
    /// [`TakeOverError`]. Do not act. Call it again, or resign, so that another participant tries.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe once it was polled: the old process may be fenced, and the breadcrumb may be this process's.
    /// The guarantees hold: the next leader fences the process whose breadcrumb it finds.
    ///
    /// # Session loss
    ///
    /// [`TakeOverError::Lost`], or a fatal error.
    ///
    /// # Cost
    ///
    /// Two round trips to read the breadcrumb, one of them a transaction that changes nothing, and one to write it. Two
    /// more if the old process is fenced. No watches.
    pub async fn take_over<E, F>(
        lease: &LeaderLease,
        data: impl Into<Vec<u8>>,
        fence: impl FnMut(Vec<u8>) -> F,
    ) -> Result<Self, TakeOverError<E>>
    where
        F: Future<Output = Result<(), E>>,
    {
        let path = path_for(lease)?;
        let data = data.into();
        let version = tokio::select! {
            biased;
            // Polled first, so that a leader whose leadership is over does not go on.
            loss = lease.lost() => return Err(TakeOverError::Lost(loss)),
            version = write(lease, &path, &data, fence) => version?,
        };
        Ok(Self {
            lease: lease.clone(),
            path,
            version,
        })
    }

    /// Removes the breadcrumb, so that this process is not fenced. Call it once this process has stopped acting, before
    /// it resigns.
    ///
    /// # Errors
    ///
    /// The breadcrumb stays, and the next leader fences this process:
    ///
    /// - [`NoNode`](ErrorKind::NoNode) with a [`failed_part`](Error::failed_part) of zero if the leadership is over;
    /// - [`BadVersion`](ErrorKind::BadVersion) if another client has written the node;
    /// - others if there is no connection, or the session is over.
    ///
    /// If it [is unknown](Error::is_outcome_unknown), the breadcrumb may be removed.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe once it was polled: the breadcrumb may be removed.
    ///
    /// # Cost
    ///
    /// One round trip.
    pub async fn remove(self) -> Result<(), Error> {
        loop {
            let removal = self.lease.txn().delete_version(&self.path, self.version);
            match removal.commit().await {
                // The version decides, also if a former attempt arrives late.
                Err(error) if error.is_outcome_unknown() && self.lease.is_valid() => {}
                // A former attempt has removed it.
                Err(error) if is_of_breadcrumb(&error) && error.is_no_node() => return Ok(()),
                removed => return removed.map(drop),
            }
        }
    }
}

impl fmt::Debug for Breadcrumb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Breadcrumb")
            .field("path", &self.path)
            .field("lease", &self.lease)
            .finish_non_exhaustive()
    }
}

/// Returns the path of the breadcrumb: beside the node of the leader.
fn path_for(lease: &LeaderLease) -> Result<NodePath, ParsePathError> {
    let election = lease.path().parent();
    election.expect("no leader's node is the root").join(NAME)
}

/// Takes the steps until the breadcrumb has this data, and returns its version.
async fn write<E, F>(
    lease: &LeaderLease,
    path: &NodePath,
    data: &[u8],
    mut fence: impl FnMut(Vec<u8>) -> F,
) -> Result<i32, TakeOverError<E>>
where
    F: Future<Output = Result<(), E>>,
{
    let session = lease.state().session();
    let mut fenced = None;
    loop {
        // The server may have reported the end of the former leader, and the session moved to one that does not show
        // its last write yet.
        session.sync(path).with_quorum().await?;
        let current = match session.get(path).await {
            Ok(found) => Some(found),
            Err(error) if error.is_no_node() => None,
            Err(error) => return Err(error.into()),
        };
        let found = current.as_ref().map(|(data, stat)| Found {
            data,
            version: stat.version,
            mzxid: stat.mzxid,
        });
        let write = match next_step(found, data, fenced) {
            Step::Done { version } => return Ok(version),
            Step::Fence { old, mzxid } => {
                tracing::info!(%path, "fencing the process that acted as the leader before");
                fence(old.to_vec()).await.map_err(TakeOverError::Fence)?;
                fenced = Some(mzxid);
                continue;
            }
            Step::Replace { version } => lease.txn().set_version(path, data, version),
            Step::Create => {
                let mode = CreateMode::Persistent;
                let acl = lease.state().acl().cloned();
                lease.txn().create_as(path, data, mode, acl)
            }
        };
        match write.commit().await {
            Ok(results) => {
                return Ok(match results.last() {
                    Some(MultiResult::Set(stat)) => stat.version,
                    _ => 0,
                });
            }
            // The next read shows whether it was applied. If it is applied later, the version refuses the next write.
            Err(error) if error.is_outcome_unknown() => {}
            // An earlier attempt was applied after the read, or another client has written the node.
            Err(error) if is_of_breadcrumb(&error) && is_changed(error.kind()) => {}
            Err(error) if error.failed_part() == Some(0) && error.is_no_node() => {
                return Err(TakeOverError::Lost(LeadershipLoss::NodeDeleted));
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Returns whether the operation that was refused is that of the breadcrumb; the first one checks the leader's node.
fn is_of_breadcrumb(error: &Error) -> bool {
    error.failed_part() == Some(1)
}

const fn is_changed(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::BadVersion | ErrorKind::NoNode | ErrorKind::NodeExists
    )
}

/// The name of the node, as in Hadoop.
const NAME: &str = "ActiveBreadCrumb";
