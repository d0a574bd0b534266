//! Commits each transaction exactly once, also if its reply is lost.
//!
//! Each transaction begins with a write to an *idempotency token*: an ephemeral node of this session, written under the
//! version that it is known to have. If the reply is lost, the same transaction is sent again. If the first attempt was
//! committed, the leader refuses the second one because of the token's version, and that refusal replaces the lost
//! reply. A lagging server cannot mislead, because the leader decides; and of all attempts the leader commits at most
//! one, in whichever order they arrive.
//!
//! The parts of a transaction are numbered: 0 is the token, then come the checks of the preconditions, then the
//! caller's parts. The number of a refused part says which of the three was refused.

use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use zk_core::Error;
use zk_core::ErrorClass;
use zk_core::ErrorKind;
use zk_core::NodePath;
use zk_core::OpResult;
use zk_core::OwnedNode;
use zk_core::Session;
use zk_core::Transaction;

use crate::deadline::Deadline;
use crate::leader_time::LeaderTime;
use crate::mutex::lock;
use crate::preconditions::Preconditions;

/// The pool of a queue's tokens: one for each transaction in flight.
#[derive(Debug)]
pub(crate) struct IdempotencyTokens {
    session: Session,
    /// The path of a token without its unique id.
    path_prefix: NodePath,
    idle: Mutex<Vec<Token>>,
    /// The oldest token. While it exists, the control node above it cannot be deleted and created again.
    fence: Mutex<Option<Arc<OwnedNode>>>,
    /// Replies to writes of tokens have timestamps of the leader.
    leader_time: Arc<LeaderTime>,
}

/// A node whose version counts the transactions that were committed with it.
#[derive(Debug)]
struct Token {
    node: Arc<OwnedNode>,
    version: i32,
}

/// The reply to a transaction.
#[derive(Debug)]
pub(crate) enum CommitOutcome {
    /// It was committed; with the results of its parts, unless that reply was lost.
    Committed(Option<Vec<OpResult>>),
    /// It was refused because of one of its parts, and nothing was changed.
    Refused { part: usize, error: Error },
}

/// The reply to a transaction with preconditions.
#[derive(Debug)]
pub(crate) enum ConditionalOutcome {
    /// As [`CommitOutcome::Committed`].
    Committed(Option<Vec<OpResult>>),
    /// As [`CommitOutcome::Refused`].
    Refused { part: usize, error: Error },
    /// The preconditions no longer hold, and nothing was changed.
    PreconditionsFailed,
}

/// The outcome of a transaction that was in doubt.
#[derive(Debug)]
pub(crate) enum Resolution {
    /// As [`CommitOutcome::Committed`].
    Committed(Option<Vec<OpResult>>),
    /// It was not committed, and never will be.
    NotCommitted,
    /// The outcome cannot be determined.
    Unknown,
}

/// There is no reply.
#[derive(Debug)]
pub(crate) struct CommitFailure {
    pub(crate) error: Error,
    /// Whether the transaction may have been committed, or may still be.
    pub(crate) is_in_doubt: bool,
    /// The token that shows whether it was, for as long as the session lives.
    token: Option<Token>,
}

impl CommitFailure {
    fn certain(error: Error) -> Self {
        Self {
            error,
            is_in_doubt: false,
            token: None,
        }
    }
}

impl IdempotencyTokens {
    pub(crate) fn new(
        session: &Session,
        path_prefix: NodePath,
        leader_time: Arc<LeaderTime>,
    ) -> Self {
        Self {
            session: session.clone(),
            path_prefix,
            idle: Mutex::default(),
            fence: Mutex::default(),
            leader_time,
        }
    }

    /// Commits a transaction once; if the reply is lost, finds out whether it was committed.
    ///
    /// If this is dropped after the transaction was sent, it may be committed.
    pub(crate) async fn commit_once(
        &self,
        deadline: Deadline,
        build: impl Fn(Transaction) -> Transaction,
    ) -> Result<CommitOutcome, CommitFailure> {
        let token = self.acquire(deadline).await?;
        match self.commit_with(token, None, None, deadline, build).await? {
            ConditionalOutcome::Committed(changed) => Ok(CommitOutcome::Committed(changed)),
            ConditionalOutcome::Refused { part, error } => {
                Ok(CommitOutcome::Refused { part, error })
            }
            ConditionalOutcome::PreconditionsFailed => unreachable!("there are no preconditions"),
        }
    }

    /// As [`commit_once`](Self::commit_once), but changes nothing if the preconditions no longer hold.
    pub(crate) async fn commit_once_if(
        &self,
        preconditions: &Preconditions,
        deadline: Deadline,
        build: impl Fn(Transaction) -> Transaction,
    ) -> Result<ConditionalOutcome, CommitFailure> {
        let token = self.acquire(deadline).await?;
        self.commit_with(token, None, Some(preconditions), deadline, build)
            .await
    }

    /// Finds out whether a transaction in doubt was committed, and commits it if not, for as long as the session lives.
    ///
    /// `preconditions` and `build` have to be those of the transaction.
    pub(crate) async fn resolve(
        &self,
        failure: CommitFailure,
        preconditions: &Preconditions,
        build: impl Fn(Transaction) -> Transaction,
    ) -> Resolution {
        let Some(token) = failure.token else {
            return Resolution::Unknown;
        };
        let never = Deadline::never();
        let found = self.commit_with(
            token,
            Some(failure.error),
            Some(preconditions),
            never,
            build,
        );
        match found.await {
            Ok(ConditionalOutcome::Committed(changed)) => Resolution::Committed(changed),
            Ok(ConditionalOutcome::Refused { .. } | ConditionalOutcome::PreconditionsFailed) => {
                Resolution::NotCommitted
            }
            Err(_) => Resolution::Unknown,
        }
    }

    /// Sends a transaction until its outcome is known, or until the deadline.
    ///
    /// `doubt` is the error of an earlier attempt with this token, which may have been committed.
    async fn commit_with(
        &self,
        mut token: Token,
        mut doubt: Option<Error>,
        preconditions: Option<&Preconditions>,
        deadline: Deadline,
        build: impl Fn(Transaction) -> Transaction,
    ) -> Result<ConditionalOutcome, CommitFailure> {
        let mut attempts = 0;
        loop {
            let (begun, checks) = self.begin(&token, preconditions);
            // An attempt without a reply is given up after the time of one operation, and sent again.
            let attempt_timeout = deadline.remaining().min(self.session.operation_timeout());
            let sent = self.leader_time.moment();
            let commit = build(begun).timeout(attempt_timeout).commit();
            let error = match commit.await {
                Ok(changed) => return Ok(self.committed(token, checks, sent, changed)),
                Err(error) => error,
            };
            match error.failed_part() {
                _ if error.is_fatal() => {
                    return Err(CommitFailure {
                        is_in_doubt: doubt.is_some() || error.is_outcome_unknown(),
                        error,
                        token: None,
                    });
                }
                _ if error.is_outcome_unknown() => doubt = Some(error),
                Some(0) => match doubt {
                    Some(doubt) => return self.judge_by_token(token, doubt, &error),
                    None => token = self.replace(token, deadline).await?,
                },
                Some(part) => return self.refused(token, preconditions, checks, part, error),
                // This attempt did not reach the leader; the next one may.
                None if doubt.is_some()
                    && error.class() == ErrorClass::Recoverable
                    && !deadline.is_over() => {}
                None => return Err(self.give_up(token, doubt, error)),
            }
            attempts += 1;
            deadline.pause(attempts).await;
        }
    }

    /// Starts a transaction with the token and the preconditions; returns how many parts check the preconditions.
    fn begin(&self, token: &Token, preconditions: Option<&Preconditions>) -> (Transaction, usize) {
        let path = token.node.path();
        let begun = self.session.transaction();
        let begun = begun.set_version(path, "", token.version);
        match preconditions {
            Some(preconditions) => preconditions.check(begun, Some(path)),
            None => (begun, 0),
        }
    }

    /// Releases the token after a reply, and returns the results of the caller's parts.
    fn committed(
        &self,
        mut token: Token,
        checks: usize,
        sent: Duration,
        mut changed: Vec<OpResult>,
    ) -> ConditionalOutcome {
        if !changed.is_empty()
            && let OpResult::Set(stat) = changed.remove(0)
        {
            self.leader_time.record(sent, stat.mtime);
            token.version = stat.version;
            self.release(token);
        }
        changed.drain(..checks.min(changed.len()));
        ConditionalOutcome::Committed(Some(changed))
    }

    /// Returns the outcome of a transaction in doubt whose next attempt was refused because of the token.
    fn judge_by_token(
        &self,
        mut token: Token,
        doubt: Error,
        refusal: &Error,
    ) -> Result<ConditionalOutcome, CommitFailure> {
        if refusal.kind() == ErrorKind::BadVersion {
            tracing::debug!(token = %token.node.path(), "the reply was lost; the token shows that the transaction was committed");
            token.version = token.version.wrapping_add(1);
            self.release(token);
            return Ok(ConditionalOutcome::Committed(None));
        }
        // Another session deleted the token.
        Err(CommitFailure {
            error: doubt,
            is_in_doubt: true,
            token: None,
        })
    }

    /// Replaces a token that another session deleted.
    async fn replace(&self, token: Token, deadline: Deadline) -> Result<Token, CommitFailure> {
        // If this was the fence of the preconditions, the next attempt is refused.
        self.forget_fence(&token.node);
        drop(token);
        self.create(deadline).await.map_err(CommitFailure::certain)
    }

    /// Releases the token, and returns which part after it was refused: a precondition, or one of the caller's parts.
    fn refused(
        &self,
        token: Token,
        preconditions: Option<&Preconditions>,
        checks: usize,
        part: usize,
        error: Error,
    ) -> Result<ConditionalOutcome, CommitFailure> {
        let node = Arc::clone(&token.node);
        self.release(token);
        if part > checks {
            let part = part - 1 - checks;
            return Ok(ConditionalOutcome::Refused { part, error });
        }
        if !error.is_no_node() && error.kind() != ErrorKind::BadVersion {
            return Err(CommitFailure::certain(error));
        }
        // The fence is checked first, unless it is the token.
        if let (Some(preconditions), 1) = (preconditions, part)
            && !Arc::ptr_eq(&preconditions.fence, &node)
        {
            self.forget_fence(&preconditions.fence);
        }
        Ok(ConditionalOutcome::PreconditionsFailed)
    }

    /// Returns why there is no outcome, with the token if it can still show the outcome.
    fn give_up(&self, token: Token, doubt: Option<Error>, error: Error) -> CommitFailure {
        if let Some(error) = doubt {
            return CommitFailure {
                error,
                is_in_doubt: true,
                token: Some(token),
            };
        }
        self.release(token);
        CommitFailure::certain(error)
    }

    async fn acquire(&self, deadline: Deadline) -> Result<Token, CommitFailure> {
        let idle = lock(&self.idle).pop();
        match idle {
            Some(token) => Ok(token),
            None => self.create(deadline).await.map_err(CommitFailure::certain),
        }
    }

    /// Returns the fence, and creates a token for it if there is none.
    pub(crate) async fn fence(&self, deadline: Deadline) -> Result<Arc<OwnedNode>, Error> {
        if let Some(fence) = self.current_fence() {
            return Ok(fence);
        }
        let token = self.create(deadline).await?;
        let node = Arc::clone(&token.node);
        self.release(token);
        Ok(self.current_fence().unwrap_or(node))
    }

    /// Returns the fence if there is one.
    pub(crate) fn current_fence(&self) -> Option<Arc<OwnedNode>> {
        lock(&self.fence).clone()
    }

    /// Makes the next token the fence, because this one was deleted.
    pub(crate) fn forget_fence(&self, node: &Arc<OwnedNode>) {
        lock(&self.fence).take_if(|fence| Arc::ptr_eq(fence, node));
    }

    async fn create(&self, deadline: Deadline) -> Result<Token, Error> {
        let sent = self.leader_time.moment();
        let create = self.session.create(&self.path_prefix, "").ephemeral();
        let node = create
            .container_parents()
            .owned()
            .timeout(deadline.remaining())
            .await?;
        self.leader_time.record(sent, node.stat().ctime);
        let node = Arc::new(node);
        lock(&self.fence).get_or_insert_with(|| Arc::clone(&node));
        Ok(Token { node, version: 0 })
    }

    fn release(&self, token: Token) {
        let mut idle = lock(&self.idle);
        // Far from version -1, which matches every version.
        if idle.len() < MAX_IDLE && (0..1 << 30).contains(&token.version) {
            idle.push(token);
        }
    }
}

const MAX_IDLE: usize = 128;
