//! Commits transactions exactly once, although their replies may be lost.
//!
//! The idea is that of idempotency keys: each request has a key of its own, and the server refuses a key
//! that was used before. Curator's protected creates do this for a single create; its key is a unique name.
//!
//! Here the key is an *idempotency token*: an ephemeral node with a unique name, below a node where the caller may
//! create nodes. A transaction has one part in front of its own, number 0, which uses up the token: the first
//! transaction with a token may create the node, each later one writes it under the version that it is known to have.
//! If the reply is lost, the same transaction is sent again. If an earlier attempt was committed, the leader refuses
//! part 0, because the node exists or has another version, and that refusal replaces the lost reply.
//! A lagging server cannot mislead, because the leader decides; and of all attempts the leader commits at most one, in
//! whichever order they arrive.
//!
//! Where no such node may be created, because other clients own the layout, [`outcome`](crate::outcome) judges by the
//! nodes that were written.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use tokio::time::Instant;
use zk_wire::{IntoNodePath, NodePath};

use crate::deadline::Deadline;
use crate::engine::cleanup::{CleanupOnDrop, Job};
use crate::engine::lock;
use crate::error::{Error, ErrorClass, ErrorKind, Operation};
use crate::operation::{OperationFuture, Transaction};
use crate::outcome::was_token_used;
use crate::owned_node::OwnedNode;
use crate::retry::RetryPolicy;
use crate::session::Session;
use crate::transport::{CreateMode, MultiOp, MultiResult, NewNode, NodeData, child_of};

/// Commits transactions exactly once, with a pool of idempotency tokens: one for each transaction in flight.
///
/// A token is an ephemeral node with a unique name, which each transaction writes first. If a reply is lost, the
/// transaction is sent again, and the token shows whether an earlier attempt was committed.
/// [`Transaction::commit_marked`] does the same for a single transaction.
///
/// Clones share the pool. Its tokens stay on the server for the next transactions, 128 at most.
///
/// ```no_run
/// # async fn demo(session: zk_core::Session) -> Result<(), Box<dyn std::error::Error>> {
/// use zk_core::Committed;
/// use zk_core::IdempotencyTokens;
///
/// let tokens = IdempotencyTokens::new(&session, "/orders-tokens/token".parse()?);
/// let order = session.transaction().delete("/inbox/7").create("/done/7", "");
/// match tokens.commit(order).await? {
///     Committed::Answered(results) => println!("{} changes", results.len()),
///     Committed::Applied => println!("applied, although the reply was lost"),
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Dropping
///
/// The tokens are removed in the background when the last clone is dropped; see [`OwnedNode`].
#[derive(Debug, Clone)]
pub struct IdempotencyTokens(Arc<Pool>);

#[derive(Debug)]
struct Pool {
    session: Session,
    /// The path of a token without its unique id.
    path: NodePath,
    creates_parents: bool,
    idle: Mutex<Vec<Token>>,
    fence: Mutex<Option<Arc<OwnedNode>>>,
    timestamp: Mutex<Option<LeaderTimestamp>>,
}

/// A node whose version counts the transactions that were committed with it.
#[derive(Debug)]
struct Token {
    node: Arc<OwnedNode>,
    version: i32,
}

/// A transaction that was committed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "callers decide differently for each of these"
)]
pub enum Committed {
    /// Each operation had this result.
    Answered(Vec<MultiResult>),
    /// The results of the operations were in a reply that was lost.
    Applied,
}

/// A transaction was not committed, or its outcome is unknown; returned by [`IdempotencyTokens::commit`].
#[derive(Debug, thiserror::Error)]
#[error("the transaction was not committed, or its outcome is unknown")]
#[non_exhaustive]
pub struct CommitError {
    /// Why there is no result.
    ///
    /// If [`Error::is_outcome_unknown`] returns true, the transaction may have been committed, or may still be.
    /// Otherwise nothing was changed, and [`Error::failed_part`] is the operation that was refused, if one was.
    #[source]
    pub error: Error,
    in_doubt: Option<Box<InDoubt>>,
}

/// A transaction whose outcome is unknown, and the token that shows it.
#[derive(Debug)]
struct InDoubt {
    tokens: IdempotencyTokens,
    token: Token,
    transaction: Transaction,
}

/// A time of the leader's clock, and when this process received it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeaderTimestamp {
    /// When the request was sent; the leader stamped it later.
    pub sent: Instant,
    /// When the reply was received; the leader stamped it earlier.
    pub received: Instant,
    /// The leader's time, in whole milliseconds.
    pub time: SystemTime,
}

impl IdempotencyTokens {
    /// Creates a pool without tokens. Sends no request.
    ///
    /// `path` is the path of a token without the unique id that comes before its name: tokens of `/a/b` are named
    /// `/a/_c_<uuid>-b`. Missing parents are created as containers.
    pub fn new(session: &Session, path: NodePath) -> Self {
        Self::with_parents(session, path, true)
    }

    /// As [`new`](Self::new), but a token is not created if its parent does not exist: [`commit`](Self::commit) returns
    /// [`NoNode`](ErrorKind::NoNode) that names no part.
    ///
    /// Use it for tokens below a node that has data. Created as a missing parent, it would have none, and the servers
    /// would delete it with its last token.
    pub fn below_existing(session: &Session, path: NodePath) -> Self {
        Self::with_parents(session, path, false)
    }

    fn with_parents(session: &Session, path: NodePath, creates_parents: bool) -> Self {
        Self(Arc::new(Pool {
            session: session.clone(),
            path,
            creates_parents,
            idle: Mutex::default(),
            fence: Mutex::default(),
            timestamp: Mutex::default(),
        }))
    }

    /// Commits a transaction exactly once. If the reply is lost, finds out whether it was committed.
    ///
    /// The time limit is that of the [transaction](Transaction::timeout). Within it, attempts are repeated whatever the
    /// retry policy of the session is; one without a reply is given up after the session's operation timeout.
    /// A transaction without operations is sent, too: it only writes a token.
    ///
    /// # Errors
    ///
    /// Those of [`Transaction::commit`], and those of creating a token; operations are counted without the token.
    /// The outcome is unknown only if no reply arrived in time, if the session was lost with a request in flight, or if
    /// another client deleted the token at that moment. [`CommitError::resolve`] continues later.
    ///
    /// # Cancel safety
    ///
    /// Not safe after the first poll, because a request in flight cannot be recalled: the operations may still be
    /// applied, all or none. The token is removed in the background.
    ///
    /// # Cost
    ///
    /// One round trip, and one to create a token if all are in use.
    pub async fn commit(&self, transaction: Transaction) -> Result<Committed, CommitError> {
        let deadline = transaction.deadline();
        let idle = lock(&self.0.idle).pop();
        let token = match idle {
            Some(token) => token,
            None => self.create_token(deadline).await?,
        };
        self.commit_with(token, transaction, deadline, None).await
    }

    /// Returns a node that fences the parent of the tokens: while it exists, the parent cannot be deleted and created
    /// again. It is the oldest token, which is created if there is none.
    ///
    /// A transaction that [checks](Transaction::check) the fence, and the version that the parent had while the fence
    /// existed, therefore means the same parent.
    ///
    /// # Errors
    ///
    /// Those of [`Create`](crate::Create).
    ///
    /// # Session loss
    ///
    /// A fatal error; the fence is deleted with the session.
    ///
    /// # Cost
    ///
    /// None, or one round trip to create a token.
    pub async fn fence(&self, timeout: Duration) -> Result<NodePath, Error> {
        if let Some(fence) = self.current_fence() {
            return Ok(fence);
        }
        let token = self.create_token(Deadline::after(timeout)).await?;
        let created = token.node.path().clone();
        self.release(token);
        Ok(self.current_fence().unwrap_or(created))
    }

    /// Returns the fence if there is one. Sends no request.
    pub fn current_fence(&self) -> Option<NodePath> {
        let fence = lock(&self.0.fence);
        fence.as_ref().map(|node| node.path().clone())
    }

    /// Returns whether the tokens are children of this node.
    pub(crate) fn are_below(&self, path: &NodePath) -> bool {
        self.0.path.parent().as_ref() == Some(path)
    }

    /// Makes the next new token the fence, because another client has deleted this one.
    pub fn forget_fence(&self, fence: &NodePath) {
        lock(&self.0.fence).take_if(|node| node.path() == fence);
    }

    /// Returns the newest time of the leader's clock in the replies to writes of tokens. Sends no request.
    pub fn timestamp(&self) -> Option<LeaderTimestamp> {
        *lock(&self.0.timestamp)
    }

    /// Sends a transaction until its outcome is known, or until the deadline.
    ///
    /// `doubt` is the error of an earlier attempt with this token, which may have been committed.
    async fn commit_with(
        &self,
        mut token: Token,
        transaction: Transaction,
        deadline: Deadline,
        doubt: Option<Error>,
    ) -> Result<Committed, CommitError> {
        loop {
            let path = token.node.path();
            let write = MultiOp::SetData {
                path: self.0.session.handle().defaults().wire(path),
                data: NodeData::default(),
                version: Some(token.version),
            };
            let sending = Box::pin(send(&transaction, path, write, doubt.clone(), deadline));
            let error = match transaction.in_span(sending).await {
                Ok((committed, timestamp)) => {
                    self.record(timestamp);
                    token.version = token.version.wrapping_add(1);
                    self.release(token);
                    return Ok(committed);
                }
                Err(error) => error,
            };
            if error.is_outcome_unknown() {
                let in_doubt = InDoubt {
                    tokens: self.clone(),
                    token,
                    transaction,
                };
                return Err(CommitError {
                    error,
                    in_doubt: Some(Box::new(in_doubt)),
                });
            }
            // No attempt is in doubt, so another client has written or deleted the token.
            if error.failed_part() == Some(0) && is_unusable(error.kind()) {
                self.forget_fence(path);
                token = self.create_token(deadline).await?;
                continue;
            }
            self.release(token);
            return Err(without_token(error).into());
        }
    }

    async fn create_token(&self, deadline: Deadline) -> Result<Token, Error> {
        let sent = Instant::now();
        let create = self.0.session.create(&self.0.path, "").ephemeral();
        let create = if self.0.creates_parents {
            create.container_parents()
        } else {
            create
        };
        let created = create.owned().timeout(deadline.remaining()).await;
        // If this outcome is unknown, that is no doubt about a transaction.
        let node = Arc::new(created.map_err(Error::of_no_part)?);
        self.record(Some(LeaderTimestamp::new(sent, node.stat().ctime)));
        lock(&self.0.fence).get_or_insert_with(|| Arc::clone(&node));
        Ok(Token { node, version: 0 })
    }

    fn release(&self, token: Token) {
        let mut idle = lock(&self.0.idle);
        // Servers treat version -1 as any version, so a token is given up long before its version wraps.
        if idle.len() < MAX_IDLE && (0..1 << 30).contains(&token.version) {
            idle.push(token);
        }
    }

    fn record(&self, timestamp: Option<LeaderTimestamp>) {
        let mut newest = lock(&self.0.timestamp);
        // A new leader may have another clock, so the newest reply counts.
        *newest = [*newest, timestamp]
            .into_iter()
            .flatten()
            .max_by_key(|timestamp| timestamp.received);
    }
}

impl Committed {
    /// Returns the results of the operations, in their order; none if they were lost.
    pub fn results(&self) -> &[MultiResult] {
        match self {
            Self::Answered(results) => results,
            Self::Applied => &[],
        }
    }
}

impl CommitError {
    /// Finds out whether a transaction in doubt was committed, and commits it if not.
    ///
    /// It continues as long as the session lives. For a transaction that is not in doubt, it returns the error at once.
    ///
    /// # Errors
    ///
    /// Those of [`IdempotencyTokens::commit`], which has the same cancel safety. The outcome stays unknown if the
    /// session is over, or if another client has deleted the token.
    pub async fn resolve(self) -> Result<Committed, Error> {
        let Some(in_doubt) = self.in_doubt else {
            return Err(self.error);
        };
        let InDoubt {
            tokens,
            token,
            transaction,
        } = *in_doubt;
        let never = Deadline::after(Duration::MAX);
        let resolved = tokens.commit_with(token, transaction, never, Some(self.error));
        resolved.await.map_err(Error::from)
    }
}

impl From<Error> for CommitError {
    fn from(error: Error) -> Self {
        Self {
            error,
            in_doubt: None,
        }
    }
}

impl From<CommitError> for Error {
    fn from(failure: CommitError) -> Self {
        failure.error
    }
}

impl LeaderTimestamp {
    fn new(sent: Instant, time: SystemTime) -> Self {
        Self {
            sent,
            received: Instant::now(),
            time,
        }
    }
}

impl Transaction {
    /// Applies all operations or none, and determines the outcome if the reply is lost.
    ///
    /// The transaction also creates a token below `under`: an ephemeral node with a unique name. If the reply is lost,
    /// the transaction is repeated until the deadline, and the token shows whether an earlier attempt was applied; then
    /// the result is [`Committed::Applied`]. The token is removed in the background.
    /// If another client deletes the token between two attempts, the transaction may be applied twice. With
    /// [`IdempotencyTokens`], which is also for many transactions, it never is.
    ///
    /// Without operations it returns at once.
    ///
    /// # Errors
    ///
    /// Those of [`commit`](Self::commit). Operations are counted without the token.
    /// An error that names no operation but a path below `under` concerns the token:
    /// [`NoNode`](ErrorKind::NoNode) if there is no node `under`.
    /// [`OutcomeUnknown`](ErrorKind::OutcomeUnknown) if no reply arrived by the deadline.
    ///
    /// # Cancel safety
    ///
    /// Not safe after the first poll, because a request in flight cannot be recalled: the operations may still be
    /// applied, all or none. The token is removed in the background.
    ///
    /// # Cost
    ///
    /// One round trip, and one in the background.
    pub fn commit_marked(self, under: impl IntoNodePath) -> OperationFuture<Committed> {
        let under = under.into_node_path();
        Box::pin(async move {
            let under =
                under.map_err(|source| Error::invalid_path(Operation::Transaction, source))?;
            if self.is_empty() {
                return Ok(Committed::Answered(Vec::new()));
            }
            self.in_span(commit_marked(&self, &under)).await
        })
    }
}

async fn commit_marked(transaction: &Transaction, under: &NodePath) -> Result<Committed, Error> {
    let session = transaction.session();
    let prefix = format!("_c_{}-", session.engine().new_id());
    let path = child_of(under, &format!("{prefix}marker"));
    let wire = session.defaults().wire(&path);
    let create = MultiOp::Create2(NewNode {
        path: wire.clone(),
        data: NodeData::default(),
        mode: CreateMode::Ephemeral,
        acl: session.defaults().acl.clone(),
    });
    let is_ephemeral = true;
    let abandoned = Job::Abandoned {
        parent: session.defaults().wire(under),
        prefix,
        is_ephemeral,
    };
    let mut cleanup = CleanupOnDrop::new(session.cleanup(), abandoned);
    let sent = send(transaction, &path, create, None, transaction.deadline()).await;
    match &sent {
        Ok(_) => {
            let path = wire;
            cleanup.job = Some(Job::Unique { path, is_ephemeral });
        }
        Err(error) if error.is_outcome_unknown() => {}
        // A definite refusal is one of all attempts: had one been applied, the token would be there.
        Err(_) => cleanup.job = None,
    }
    sent.map(|(committed, _)| committed).map_err(without_token)
}

/// Sends a transaction behind the part that uses up a token, until the outcome is known, or until the deadline.
///
/// `doubt` is the error of an earlier attempt, which may have been committed. In the error, the token is part 0. That
/// part is the failed one only if no attempt was committed.
async fn send(
    transaction: &Transaction,
    path: &NodePath,
    token: MultiOp,
    mut doubt: Option<Error>,
    deadline: Deadline,
) -> Result<(Committed, Option<LeaderTimestamp>), Error> {
    let engine = transaction.session().engine();
    let is_new = matches!(token, MultiOp::Create2(_));
    let attempt_timeout = transaction.session().defaults().operation_timeout;
    let mut attempts = 0;
    loop {
        let sent = Instant::now();
        // An attempt without a reply is given up after the time of one operation, and sent again.
        let timeout = deadline.remaining().min(attempt_timeout);
        let attempt = transaction.clone().behind(token.clone(), path.clone());
        let error = match attempt.timeout(timeout).attempt().await {
            Ok(mut results) => {
                let time = match results.remove(0) {
                    MultiResult::Set(stat) => Some(stat.mtime),
                    MultiResult::Created { stat, .. } => stat.map(|stat| stat.ctime),
                    MultiResult::Checked | MultiResult::Deleted => None,
                };
                let timestamp = time.map(|time| LeaderTimestamp::new(sent, time));
                return Ok((Committed::Answered(results), timestamp));
            }
            Err(error) => error,
        };
        attempts += error.attempts();
        let error = error.attempts_made(attempts);
        if error.is_fatal() {
            return Err(match doubt {
                Some(_) => error.maybe_applied(),
                None => error,
            });
        }
        match (error.failed_part(), doubt) {
            // An earlier attempt has used the token: it was committed.
            (Some(0), Some(_)) if was_token_used(is_new, error.kind()) => {
                tracing::debug!(token = %path, "the reply was lost; the token shows that the transaction was committed");
                return Ok((Committed::Applied, None));
            }
            // Another client has deleted the token, which shows nothing any more.
            (Some(0), Some(doubt)) => return Err(doubt),
            // The token was unused until now, so no earlier attempt was committed, and this one was refused.
            (Some(_), _) => return Err(error),
            // This attempt may have been committed.
            (None, _) if error.is_outcome_unknown() => doubt = Some(error.clone()),
            // This attempt was not sent; an earlier one stays in doubt.
            (None, before) => doubt = before,
        }
        // An attempt that did not reach the leader is repeated, too.
        let pause = RetryPolicy::default().pause(attempts, Duration::ZERO, || engine.chance());
        let pause = pause.unwrap_or_default();
        if error.class() != ErrorClass::Recoverable || !deadline.pause(pause).await {
            return Err(doubt.unwrap_or(error));
        }
        engine.counters.request_repeated();
        tracing::debug!(attempts, "repeating the transaction");
    }
}

/// Returns whether a token that was refused for this reason is replaced by another one.
fn is_unusable(refusal: ErrorKind) -> bool {
    matches!(refusal, ErrorKind::NoNode | ErrorKind::BadVersion)
}

/// Counts the failed part without the token.
fn without_token(error: Error) -> Error {
    match error.failed_part() {
        Some(0) => error.of_no_part(),
        Some(part) => error.failed_at(part - 1),
        None => error,
    }
}

const MAX_IDLE: usize = 128;
