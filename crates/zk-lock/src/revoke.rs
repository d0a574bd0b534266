//! Asking a holder to give up its lock.

use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::BoxFuture;
use zk_core::Error;
use zk_core::ErrorClass;
use zk_core::ErrorKind;
use zk_core::NodePath;
use zk_core::Session;
use zk_core::WatchEvent;

use crate::conditional_delete::Removal;
use crate::conditional_delete::delete_exactly;
use crate::contender::Contender;
use crate::owner::OwnerInfo;

mod request;
mod wire_format;
mod withdraw;

pub(crate) use request::Memory;
pub use request::RevocationRequest;

use wire_format::Answer;
use wire_format::Full;
use wire_format::Request;
use withdraw::Withdrawal;

/// A request to a contender to give up its lock, or its place in the queue; made by
/// [`Inspector::revoke`](crate::Inspector::revoke).
///
/// The request is a line in the data of the contender's node, below what the owner says of itself.
/// Whoever may WRITE that node may ask, see [`LockOptions::with_acl`](crate::LockOptions::with_acl).
/// A holder that waits for [`revocation_requested`](crate::Guard::revocation_requested) is told who asks, why, and for
/// how long, and answers; one that does not is not disturbed.
/// It is a request: the lock changes hands when the holder releases it, or when its node is deleted, for which
/// [`then_break`](Self::then_break) must be asked.
///
/// # Errors
///
/// [`RevokeError`]: the request could not be made.
///
/// # Cancel safety
///
/// Safe: the request is withdrawn in the background, and nothing is broken unless the time had been up.
///
/// # Session loss
///
/// [`RevokeError::Failed`] with a fatal error. The request stays on the node then; the holder knows how long it was
/// meant to stand.
///
/// # Cost
///
/// A read and a write to ask, a read for each change of the node until it is gone, one watch.
///
/// # Examples
///
/// ```no_run
/// # async fn demo(lock: zk_lock::FairLock) -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use zk_lock::Revocation;
///
/// let inspector = lock.inspector();
/// if let Some(holder) = inspector.look().await?.holders().next() {
///     let asked = inspector
///         .revoke(holder.contender())
///         .because("a rolling restart")
///         .within(Duration::from_secs(60));
///     if let Revocation::Refused { reason } = asked.await? {
///         println!("not now: {reason}");
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use = "nobody is asked until it is awaited"]
pub struct Revoke {
    session: Session,
    path: NodePath,
    czxid: i64,
    by: OwnerInfo,
    reason: String,
    within: Duration,
    breaks: bool,
    curator: bool,
}

/// How a request to give up a lock ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Revocation {
    /// The node is gone: the contender released the lock, or left the queue, or ended.
    Released,
    /// The holder said that it will not give up the lock now.
    Refused {
        /// Its words.
        reason: String,
    },
    /// The holder said that it would release the lock, and has not by the end of the time.
    Accepted,
    /// The holder said nothing until the end of the time.
    Unanswered,
    /// The time was up, and the node was deleted, as [`Revoke::then_break`] had it.
    ///
    /// The holder, if it is alive, is told [`Loss::NodeDeleted`](crate::Loss::NodeDeleted).
    Broken,
}

/// A contender could not be asked to give up its lock.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum RevokeError {
    /// The data of the node is not in the form that has requests, see [`OwnerInfo`].
    ///
    /// If it belongs to a client of Curator, or to one of ours with data of its own,
    /// [`Revoke::as_curator`] may reach it.
    #[error(
        "the data of {path} has no place for a request: its owner is not one of ours, or has data of its own; \
         ask as Curator does, which overwrites it, or break the lock"
    )]
    OtherForm {
        /// The contender's node.
        path: NodePath,
    },
    /// Several others have asked already, and had no answer yet.
    #[error("too many others have asked the owner of {path} already and wait for an answer")]
    TooMany {
        /// The contender's node.
        path: NodePath,
    },
    /// The time was up before the ensemble had taken the request; nothing was broken.
    #[error("the ensemble did not take the request to {path} within {limit:?}")]
    NotAsked {
        /// The contender's node.
        path: NodePath,
        /// The time there was.
        limit: Duration,
    },
    /// An operation failed.
    #[error(transparent)]
    Failed(#[from] Error),
}

impl RevokeError {
    /// Returns what can be done about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::OtherForm { .. } => ErrorClass::Outcome,
            Self::TooMany { .. } | Self::NotAsked { .. } => ErrorClass::Recoverable,
            Self::Failed(error) => error.class(),
        }
    }
}

impl Revoke {
    pub(crate) fn new(session: Session, path: NodePath, contender: &Contender) -> Self {
        Self {
            session,
            path,
            czxid: contender.token().as_u64().cast_signed(),
            by: OwnerInfo::this_process(),
            reason: String::new(),
            within: DEFAULT_LIMIT,
            breaks: false,
            curator: false,
        }
    }

    /// Tells the holder why.
    pub fn because(mut self, reason: impl Into<String>) -> Self {
        self.reason = reason.into();
        self
    }

    /// Tells the holder who asks; the default is this process.
    pub fn by(mut self, asker: OwnerInfo) -> Self {
        self.by = asker;
        self
    }

    /// Sets how long to wait for the lock to be given up; the default is 30 s.
    ///
    /// The holder is told.
    pub fn within(mut self, limit: Duration) -> Self {
        self.within = limit;
        self
    }

    /// Deletes the node when the time is up and the holder has neither released the lock nor refused to: exactly the
    /// node of this contender, and none that took its place.
    ///
    /// The lock is granted to the next one then, while the holder may be in the middle of something.
    /// Needs DELETE on the path of the lock.
    pub fn then_break(mut self) -> Self {
        self.breaks = true;
        self
    }

    /// Asks in the way of Apache Curator's `Revoker`: writes `__REVOKE__` in place of the node's data.
    ///
    /// Curator's locks that were made revocable understand it, and so do ours.
    /// What the owner said of itself is gone then (ours write it back when they refuse), nobody is told why, and there
    /// is no answer but the release.
    pub fn as_curator(mut self) -> Self {
        self.curator = true;
        self
    }

    async fn run(self) -> Result<Revocation, RevokeError> {
        let mut asking = Asking::Not;
        // Before anything is sent, so that it is taken back wherever this ends.
        let id = unique_id(&self.session);
        let mut withdrawal =
            Withdrawal::new(self.session.clone(), self.path.clone(), self.czxid, &id);
        let asked = tokio::time::timeout(self.within, self.ask(&id, &mut asking, &mut withdrawal));
        let ended = match asked.await {
            Ok(Ok(ended)) => Some(ended),
            Ok(Err(error)) => return Err(error),
            Err(_) => None,
        };
        match (ended, asking) {
            (Some(ended), _) => {
                if ended == Revocation::Released {
                    withdrawal.is_needless();
                }
                Ok(ended)
            }
            (None, Asking::Not) => Err(RevokeError::NotAsked {
                path: self.path,
                limit: self.within,
            }),
            (None, _) if self.breaks => {
                let removal = delete_exactly(&self.session, &self.path, self.czxid).await?;
                withdrawal.is_needless();
                Ok(match removal {
                    Removal::Deleted => Revocation::Broken,
                    Removal::Gone => Revocation::Released,
                })
            }
            (None, Asking::Accepted) => Ok(Revocation::Accepted),
            (None, Asking::Asked) => Ok(Revocation::Unanswered),
        }
    }

    /// Asks, and waits for an answer or for the node to go.
    async fn ask(
        &self,
        id: &str,
        asking: &mut Asking,
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
            match self.next(&data, id, asking)? {
                Next::Wait => {
                    if watch.changed().await == WatchEvent::SessionLost {
                        // The next read has the error.
                        self.session.lost().await;
                    }
                }
                Next::Refused { reason } => return Ok(Revocation::Refused { reason }),
                Next::Write(request) => {
                    withdrawal.is_needed(!self.curator);
                    let write = self.session.set(&self.path, request).version(stat.version);
                    match write.idempotent().await {
                        Ok(_) => *asking = Asking::Asked,
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

    /// What is to be done about a node with this data.
    fn next(&self, data: &[u8], id: &str, asking: &mut Asking) -> Result<Next, RevokeError> {
        if self.curator {
            let stands = data == CURATORS_MESSAGE;
            // Once: who writes over it has seen it.
            return Ok(match *asking {
                Asking::Not if !stands => Next::Write(CURATORS_MESSAGE.to_vec()),
                _ => {
                    *asking = Asking::Asked;
                    Next::Wait
                }
            });
        }
        match wire_format::answer_to(data, id) {
            Some(Answer::Accepted) => {
                *asking = Asking::Accepted;
                return Ok(Next::Wait);
            }
            Some(Answer::Refused { reason }) => return Ok(Next::Refused { reason }),
            None => {}
        }
        if wire_format::requests(data).iter().any(|one| one.id == id) {
            *asking = Asking::Asked;
            return Ok(Next::Wait);
        }
        if *asking == Asking::Accepted {
            // The answer made room for others.
            return Ok(Next::Wait);
        }
        // Not there yet, or not any more, since somebody wrote over it.
        let request = Request {
            id: id.to_owned(),
            within: self.within,
            by: self.by.to_string(),
            reason: self.reason.clone(),
        };
        match wire_format::asked(data, &request) {
            Ok(data) => Ok(Next::Write(data)),
            // A request of Curator's, which the owner may write over.
            Err(Full::OtherForm) if *asking == Asking::Asked => Ok(Next::Wait),
            Err(Full::OtherForm) => Err(RevokeError::OtherForm {
                path: self.path.clone(),
            }),
            Err(Full::TooMany) => Err(RevokeError::TooMany {
                path: self.path.clone(),
            }),
        }
    }

    /// Waits a little after an error that may pass, and answers any other.
    async fn pause_after(&self, error: Error) -> Result<(), RevokeError> {
        if error.class() != ErrorClass::Recoverable {
            return Err(error.into());
        }
        // A session that is over is for the next attempt to report.
        drop(tokio::time::timeout(PAUSE, self.session.lost()).await);
        Ok(())
    }
}

/// How far a request has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asking {
    Not,
    Asked,
    Accepted,
}

/// What is to be done next.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Next {
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

/// An id that no other request has: sessions have numbers of their own.
fn unique_id(session: &Session) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let count = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{:x}-{count}", session.id().as_i64())
}

/// What Curator's `Revoker` writes.
const CURATORS_MESSAGE: &[u8] = b"__REVOKE__";

/// How long a holder has by default.
const DEFAULT_LIMIT: Duration = Duration::from_secs(30);

/// Between two attempts while the ensemble is out of reach.
const PAUSE: Duration = Duration::from_millis(50);
