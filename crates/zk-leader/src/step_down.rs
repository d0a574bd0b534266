//! Asks the leader of an election to step down.

use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use zk_core::{Error, ErrorClass, ErrorKind, NodePath};
use zk_lock::{Contender, FencingToken, Inspector, OwnerInfo, Revocation, RevokeError};

use crate::election::Election;

mod inbox;
mod request;

pub(crate) use inbox::Inbox;
pub use request::StepDownRequest;

/// How a leader answers requests to step down. Without a policy it receives none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StepDownPolicy {
    /// The application decides: [`LeaderLease::step_down_requested`](crate::LeaderLease::step_down_requested) receives the
    /// requests.
    Application,
    /// The leader accepts each request and resigns, as with
    /// [`ParticipantHandle::resign`](crate::ParticipantHandle::resign).
    Resign,
}

/// The result of a request to step down.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum StepDown {
    /// The leader that was asked no longer leads: it resigned, or its leadership ended for another reason.
    Resigned,
    /// The leader refused.
    Refused {
        /// The leader's reason.
        reason: String,
    },
    /// There was no participant.
    NoLeader,
    /// The leader agreed to resign, but had not by the deadline.
    Accepted,
    /// The leader did not answer by the deadline. It may have no [policy](crate::ElectionOptions::with_step_down), or be of
    /// Curator, or it decides later.
    Unanswered,
}

/// A leader could not be asked to step down.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum StepDownError {
    /// This client may not write the node on which the leader receives requests.
    #[error(
        "this client may not ask the leader: it needs READ and WRITE on {path}, see `ElectionOptions::with_acl`"
    )]
    NotPermitted {
        /// The node.
        path: NodePath,
        /// The server's refusal.
        source: Error,
    },
    /// The request was not made.
    #[error(transparent)]
    NotAsked(RevokeError),
    /// The election could not be read.
    #[error(transparent)]
    Failed(#[from] Error),
}

impl StepDownError {
    /// Returns the class of the error: what a caller can do about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::NotPermitted { source, .. } => source.class(),
            Self::NotAsked(error) => error.class(),
            Self::Failed(error) => error.class(),
        }
    }
}

/// A request to the leader to step down; created by
/// [`LeaderLatch::request_step_down`](crate::LeaderLatch::request_step_down) and
/// [`Selector::request_step_down`](crate::Selector::request_step_down).
///
/// It asks the participant that leads, or is about to, when it is awaited, and no later one.
/// The leader receives the name of the requester, the reason and the deadline, if it has a
/// [policy](crate::ElectionOptions::with_step_down), and answers. A request never takes the leadership away.
///
/// # Errors
///
/// [`StepDownError`], if the leader could not be asked.
///
/// # Cancel safety
///
/// Cancel safe. The request is withdrawn in the background, unless the leader has accepted it.
///
/// # Cost
///
/// Two round trips to find the leader, and two to find its node for requests; then a read and a write for the request, a
/// read for the answer, and two watches meanwhile.
///
/// # Examples
///
/// ```no_run
/// # async fn demo(session: zk_core::Session) -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use zk_leader::LeaderLatch;
/// use zk_leader::StepDown;
///
/// let election = LeaderLatch::new(&session, "/leaders/billing")?;
/// let asked = election
///     .request_step_down()
///     .reason("the host is going down")
///     .limit(Duration::from_secs(60));
/// if let StepDown::Refused { reason } = asked.await? {
///     println!("not now: {reason}");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use = "the request is sent when this is awaited"]
pub struct RequestStepDown {
    election: Election,
    by: OwnerInfo,
    reason: String,
    limit: Duration,
}

impl RequestStepDown {
    pub(crate) fn new(election: Election) -> Self {
        Self {
            election,
            by: OwnerInfo::this_process(),
            reason: String::new(),
            limit: DEFAULT_LIMIT,
        }
    }

    /// Sets the reason that the leader receives; the default is none.
    pub fn reason(mut self, reason: impl Into<String>) -> Self {
        self.reason = reason.into();
        self
    }

    /// Sets the requester that the leader receives; the default is this process.
    pub fn by(mut self, requester: OwnerInfo) -> Self {
        self.by = requester;
        self
    }

    /// Sets the deadline, from now; the default is 30 s. The leader receives it.
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    async fn run(self) -> Result<StepDown, StepDownError> {
        let deadline = Instant::now() + self.limit;
        let Some(leader) = self.election.first().await? else {
            return Ok(StepDown::NoLeader);
        };
        let path = self.election.child(leader.name());
        let left = self.election.session().wait_for_deletion(path);
        let mut left = left
            .created_by(leader.fencing_token().as_u64().cast_signed())
            .timeout(self.limit)
            .into_future();
        let asked = tokio::select! {
            biased;
            left = &mut left => return ended(left),
            asked = timeout_at(deadline, self.ask(leader.fencing_token(), deadline)) => asked,
        };
        match asked {
            // Its inbox is removed after its node, unless another client did it.
            Ok(Ok(Revocation::Released)) => ended(left.await),
            Ok(Ok(Revocation::Refused { reason })) => Ok(StepDown::Refused { reason }),
            Ok(Ok(Revocation::Accepted)) => Ok(StepDown::Accepted),
            Ok(Ok(_)) | Err(_) => Ok(StepDown::Unanswered),
            Ok(Err(error)) => Err(error),
        }
    }

    /// Finds the inbox of the leader, as soon as it is there, and asks there.
    async fn ask(
        &self,
        leader: FencingToken,
        deadline: Instant,
    ) -> Result<Revocation, StepDownError> {
        let inspector = self.election.inboxes();
        let inbox = self.inbox_of(leader, &inspector).await?;
        let path = inspector.path().join(inbox.name());
        let revoke = inspector
            .revoke(&inbox)
            .by(self.by.clone())
            .reason(self.reason.clone())
            .limit(deadline.saturating_duration_since(Instant::now()));
        revoke.await.map_err(|error| match (error, path) {
            (RevokeError::Failed(source), Ok(path)) if source.kind() == ErrorKind::NoAuth => {
                StepDownError::NotPermitted { path, source }
            }
            (error, _) => StepDownError::NotAsked(error),
        })
    }

    /// Waits until the leader has an inbox. Those of other leaders are ignored: a former one may still be alive, and a
    /// latch and a selector may have the same path.
    async fn inbox_of(
        &self,
        leader: FencingToken,
        inspector: &Inspector,
    ) -> Result<Contender, Error> {
        let session = self.election.session();
        loop {
            let mut watch = match session.list(inspector.path()).watched().await {
                Ok((_, _, watch)) => watch,
                Err(error) if error.is_no_node() => {
                    match session.exists(inspector.path()).watched().await? {
                        (None, watch) => watch,
                        (Some(_), _) => continue,
                    }
                }
                Err(error) => return Err(error),
            };
            let inboxes = inspector.contenders().await?;
            let found = inboxes
                .into_iter()
                .find(|inbox| inbox::leader_of(inbox) == Some(leader));
            if let Some(inbox) = found {
                return Ok(inbox);
            }
            // The next read shows what changed, or that the session is over.
            let _: zk_core::WatchEvent = watch.changed().await;
        }
    }
}

impl IntoFuture for RequestStepDown {
    type Output = Result<StepDown, StepDownError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

impl fmt::Display for StepDown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Resigned => f.write_str("the leader resigned"),
            Self::Refused { reason } => write!(f, "the leader refused: {reason}"),
            Self::NoLeader => f.write_str("there is no leader"),
            Self::Accepted => f.write_str("the leader agreed and has not resigned yet"),
            Self::Unanswered => f.write_str("the leader did not answer"),
        }
    }
}

/// Interprets the end of the wait for the deletion of the leader's node.
fn ended(left: Result<(), Error>) -> Result<StepDown, StepDownError> {
    match left {
        Ok(()) => Ok(StepDown::Resigned),
        Err(error) if error.class() == ErrorClass::Recoverable => Ok(StepDown::Unanswered),
        Err(error) => Err(error.into()),
    }
}

/// The default deadline of a request.
const DEFAULT_LIMIT: Duration = Duration::from_secs(30);
