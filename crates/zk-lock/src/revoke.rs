//! Asks a contender to release its lock.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use zk_core::{Error, ErrorClass, ErrorKind, NodePath, Session, WatchEvent};

use crate::conditional_delete::{Removal, delete_if_created_by};
use crate::contender::Contender;
use crate::owner::OwnerInfo;
use crate::retry::RETRY_PAUSE;

mod edit_data;
mod request;
pub(crate) mod seen_requests;
mod wire_format;
mod withdraw;

pub use request::RevocationRequest;

use wire_format::{AddRequestError, CURATOR_REVOKE_MESSAGE, RequestAnswer, RequestLine};
use withdraw::Withdrawal;

/// A request to a contender to release its lock, or to leave the queue; created by
/// [`Inspector::revoke`](crate::Inspector::revoke).
///
/// The request is a line in the data of the contender's node, below the lines that identify its owner.
/// It needs WRITE on that node, see [`LockOptions::with_acl`](crate::LockOptions::with_acl).
/// A holder that awaits [`revocation_requested`](crate::HeldLock::revocation_requested) receives the name of the
/// requester, the reason and the deadline, and answers. A holder that does not is not affected.
/// By itself the request does not take the lock: the holder has to release it. With [`then_break`](Self::then_break),
/// the holder's node is deleted at the deadline.
///
/// # Errors
///
/// [`RevokeError`] if the request could not be made. If the session ends, it is a [`RevokeError::Failed`], and the
/// request stays on the node; the holder knows its deadline.
///
/// # Cancel safety
///
/// Cancel safe. The request is withdrawn in the background, and the lock is not broken unless the deadline had passed.
///
/// # Cost
///
/// A read and a write for the request, a read for each change of the node until it is gone, and one watch.
///
/// # Examples
///
/// ```no_run
/// # async fn demo(lock: zk_lock::FairLock) -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use zk_lock::Revocation;
///
/// let inspector = lock.inspector();
/// if let Some(holder) = inspector.snapshot().await?.holders().next() {
///     let asked = inspector
///         .revoke(holder.contender())
///         .reason("a rolling restart")
///         .limit(Duration::from_secs(60));
///     if let Revocation::Refused { reason } = asked.await? {
///         println!("not now: {reason}");
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use = "the request is sent when this is awaited"]
pub struct Revoke {
    session: Session,
    path: NodePath,
    czxid: i64,
    by: OwnerInfo,
    reason: String,
    limit: Duration,
    breaks: bool,
    curator: bool,
}

/// The result of a request to release a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Revocation {
    /// The node is gone: the contender released the lock, left the queue or ended.
    Released,
    /// The holder refused to release the lock now.
    Refused {
        /// The holder's reason.
        reason: String,
    },
    /// The holder agreed to release the lock, but had not by the deadline.
    Accepted,
    /// The holder did not answer by the deadline.
    Unanswered,
    /// The node was deleted at the deadline, because of [`Revoke::then_break`].
    ///
    /// A live holder is notified with [`LockLoss::NodeDeleted`](crate::LockLoss::NodeDeleted).
    Broken,
}

/// A contender could not be asked to release its lock.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum RevokeError {
    /// The data of the node is not in the format that can hold requests, see [`OwnerInfo`].
    ///
    /// For a client of Curator, or one of ours with data of its own, use [`Revoke::as_curator`].
    #[error(
        "the data of {path} is not in the format that can hold requests; \
         ask with `as_curator`, which overwrites the data, or break the lock"
    )]
    ForeignData {
        /// The contender's node.
        path: NodePath,
    },
    /// Too many requests of others wait for an answer already.
    #[error("{path} has too many unanswered requests already; try again later")]
    TooManyRequests {
        /// The contender's node.
        path: NodePath,
    },
    /// The time limit elapsed before the ensemble confirmed the request. The lock was not broken.
    #[error("the ensemble did not confirm the request to {path} within {limit:?}; try again")]
    NotDelivered {
        /// The contender's node.
        path: NodePath,
        /// The time limit.
        limit: Duration,
    },
    /// An operation failed.
    #[error(transparent)]
    Failed(#[from] Error),
}

impl RevokeError {
    /// Returns the class of the error: what a caller can do about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::ForeignData { .. } => ErrorClass::Outcome,
            Self::TooManyRequests { .. } | Self::NotDelivered { .. } => ErrorClass::Recoverable,
            Self::Failed(error) => error.class(),
        }
    }
}

impl Revoke {
    pub(crate) fn new(session: Session, path: NodePath, contender: &Contender) -> Self {
        Self {
            session,
            path,
            czxid: contender.czxid(),
            by: OwnerInfo::this_process(),
            reason: String::new(),
            limit: DEFAULT_LIMIT,
            breaks: false,
            curator: false,
        }
    }

    /// Sets the reason that the holder receives.
    pub fn reason(mut self, reason: impl Into<String>) -> Self {
        self.reason = reason.into();
        self
    }

    /// Sets the requester that the holder receives; the default is this process.
    pub fn by(mut self, requester: OwnerInfo) -> Self {
        self.by = requester;
        self
    }

    /// Sets the deadline, from now; the default is 30 s. The holder receives it.
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Deletes the node at the deadline, if the holder has neither released the lock nor refused: exactly the node of
    /// this contender, and not one that replaced it.
    ///
    /// The lock is then granted to the next contender, possibly while the holder is still working under it.
    /// Needs DELETE on the path of the lock.
    pub fn then_break(mut self) -> Self {
        self.breaks = true;
        self
    }

    /// Asks as Apache Curator's `Revoker` does: replaces the node's data with `__REVOKE__`.
    ///
    /// Curator's locks that were made revocable understand it, and so do ours.
    /// It overwrites how the owner identifies itself (ours restores the data on a refusal), has no reason, and its only
    /// answer is the release.
    pub fn as_curator(mut self) -> Self {
        self.curator = true;
        self
    }

    async fn run(self) -> Result<Revocation, RevokeError> {
        let mut state = RequestState::NotSent;
        // Created before anything is sent, so that the request is withdrawn on every path.
        let id = unique_id(&self.session);
        let mut withdrawal =
            Withdrawal::new(self.session.clone(), self.path.clone(), self.czxid, &id);
        let asked = tokio::time::timeout(self.limit, self.ask(&id, &mut state, &mut withdrawal));
        let ended = match asked.await {
            Ok(Ok(ended)) => Some(ended),
            Ok(Err(error)) => return Err(error),
            Err(_) => None,
        };
        match (ended, state) {
            (Some(ended), _) => {
                if ended == Revocation::Released {
                    withdrawal.disarm();
                }
                Ok(ended)
            }
            (None, RequestState::NotSent) => Err(RevokeError::NotDelivered {
                path: self.path,
                limit: self.limit,
            }),
            (None, _) if self.breaks => {
                let removal = delete_if_created_by(&self.session, &self.path, self.czxid).await?;
                withdrawal.disarm();
                Ok(match removal {
                    Removal::Deleted => Revocation::Broken,
                    Removal::Gone => Revocation::Released,
                })
            }
            (None, RequestState::Accepted) => Ok(Revocation::Accepted),
            (None, RequestState::Pending) => Ok(Revocation::Unanswered),
        }
    }

    /// Makes the request, and waits for an answer or for the node to be deleted.
    async fn ask(
        &self,
        id: &str,
        state: &mut RequestState,
        withdrawal: &mut Withdrawal,
    ) -> Result<Revocation, RevokeError> {
        loop {
            let read = self.session.get(&self.path).watched().await;
            let (data, stat, mut watch) = match read {
                Ok(read) if read.1.czxid == self.czxid => read,
                Ok(_) => return Ok(Revocation::Released),
                Err(error) if error.is_no_node() => return Ok(Revocation::Released),
                Err(error) => {
                    self.pause_after(error).await?;
                    continue;
                }
            };
            match self.next(&data, id, state)? {
                RevokeStep::Wait => {
                    if watch.changed().await == WatchEvent::SessionLost {
                        // The next read returns the error.
                        self.session.lost().await;
                    }
                }
                RevokeStep::Refused { reason } => return Ok(Revocation::Refused { reason }),
                RevokeStep::Write(request) => {
                    if !self.curator {
                        withdrawal.arm();
                    }
                    let write = self.session.set(&self.path, request).version(stat.version);
                    match write.idempotent().await {
                        Ok(_) => *state = RequestState::Pending,
                        Err(error)
                            if matches!(
                                error.kind(),
                                ErrorKind::BadVersion | ErrorKind::NoNode
                            ) => {}
                        Err(error) => self.pause_after(error).await?,
                    }
                }
            }
        }
    }

    /// Decides what to do about a node with this data.
    fn next(
        &self,
        data: &[u8],
        id: &str,
        state: &mut RequestState,
    ) -> Result<RevokeStep, RevokeError> {
        if self.curator {
            let stands = data == CURATOR_REVOKE_MESSAGE;
            // Written once: an owner that overwrites it has seen it.
            return Ok(match *state {
                RequestState::NotSent if !stands => {
                    RevokeStep::Write(CURATOR_REVOKE_MESSAGE.to_vec())
                }
                _ => {
                    *state = RequestState::Pending;
                    RevokeStep::Wait
                }
            });
        }
        match wire_format::answer_to(data, id) {
            Some(RequestAnswer::Accepted) => {
                *state = RequestState::Accepted;
                return Ok(RevokeStep::Wait);
            }
            Some(RequestAnswer::Refused { reason }) => return Ok(RevokeStep::Refused { reason }),
            None => {}
        }
        if wire_format::requests(data).iter().any(|one| one.id == id) {
            *state = RequestState::Pending;
            return Ok(RevokeStep::Wait);
        }
        if *state == RequestState::Accepted {
            // The answer was removed to make room for other requests.
            return Ok(RevokeStep::Wait);
        }
        // The request is not there yet, or the owner's data was overwritten.
        let request = RequestLine {
            id: id.to_owned(),
            within: self.limit,
            by: self.by.to_string(),
            reason: self.reason.clone(),
        };
        match wire_format::add_request(data, &request) {
            Ok(data) => Ok(RevokeStep::Write(data)),
            // A request of Curator's is there, which the owner may overwrite.
            Err(AddRequestError::ForeignData) if *state == RequestState::Pending => {
                Ok(RevokeStep::Wait)
            }
            Err(AddRequestError::ForeignData) => Err(RevokeError::ForeignData {
                path: self.path.clone(),
            }),
            Err(AddRequestError::TooMany) => Err(RevokeError::TooManyRequests {
                path: self.path.clone(),
            }),
        }
    }

    /// Pauses after a recoverable error; returns any other error.
    async fn pause_after(&self, error: Error) -> Result<(), RevokeError> {
        if error.class() != ErrorClass::Recoverable {
            return Err(error.into());
        }
        // The next attempt reports a session that is over.
        self.session.pause(RETRY_PAUSE).await;
        Ok(())
    }
}

/// The state of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RequestState {
    NotSent,
    Pending,
    Accepted,
}

/// What to do next about a request.
#[derive(Debug, Clone, PartialEq, Eq)]
enum RevokeStep {
    Wait,
    Write(Vec<u8>),
    Refused { reason: String },
}

impl IntoFuture for Revoke {
    type Output = Result<Revocation, RevokeError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

impl fmt::Display for Revocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Released => f.write_str("the lock was released"),
            Self::Refused { reason } => write!(f, "the holder refused: {reason}"),
            Self::Accepted => f.write_str("the holder agreed and has not released the lock yet"),
            Self::Unanswered => f.write_str("the holder did not answer"),
            Self::Broken => f.write_str("the lock was broken"),
        }
    }
}

/// Returns an id that no other request has; sessions have unique ids.
fn unique_id(session: &Session) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let count = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{:x}-{count}", session.id().as_i64())
}

/// The default deadline of a request.
const DEFAULT_LIMIT: Duration = Duration::from_secs(30);
