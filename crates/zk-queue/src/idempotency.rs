//! Transactions that are carried out once, whatever becomes of their answers.
//!
//! Each has for its first part a write to a node of its own session, under the version that the node has. When the
//! answer is lost, the same transaction is sent again: if the first one was carried out, the second one is refused for
//! the sake of that part, and that refusal is the lost answer. It is the leader that judges, so that no server that
//! lags can mislead; and of a transaction and its repetitions it carries out one at most, in whichever order they come.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;
use std::time::SystemTime;

use tokio::time::Instant;
use zk_core::Changed;
use zk_core::Error;
use zk_core::ErrorClass;
use zk_core::ErrorKind;
use zk_core::NodePath;
use zk_core::OwnedNode;
use zk_core::Session;
use zk_core::Transaction;

use crate::deadline::Deadline;
use crate::leader_clock::LeaderClock;
use crate::preconditions::Ground;

/// The receipts of one queue, for as many transactions at once as there are.
#[derive(Debug)]
pub(crate) struct Receipts {
    session: Session,
    /// The path of a receipt without its unique id.
    stem: NodePath,
    idle: Mutex<Vec<Receipt>>,
    /// The one that is there for the longest time, which keeps the desk from being made anew.
    anchor: Mutex<Option<Arc<OwnedNode>>>,
    began: Instant,
    clock: Mutex<LeaderClock>,
}

/// A node that tells how many transactions were carried out with it, by the version of its data.
#[derive(Debug)]
struct Receipt {
    node: Arc<OwnedNode>,
    version: i32,
}

/// What became of a transaction.
#[derive(Debug)]
pub(crate) enum Answer {
    /// It was carried out; what its parts did, unless that answer was lost.
    Done(Option<Vec<Changed>>),
    /// It was refused for the sake of one of its parts, and was not carried out.
    Refused { part: usize, error: Error },
}

/// What was found out about a transaction that was in doubt.
#[derive(Debug)]
pub(crate) enum Found {
    /// As [`Answer::Done`].
    Done(Option<Vec<Changed>>),
    /// It was not carried out, and will not be.
    Not,
    /// Nobody knows.
    Unknown,
}

/// How an attempt ended; without an answer if the ground has moved.
type Attempt = Result<Option<Answer>, Failure>;

/// There is no answer.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: Error,
    /// Whether it may have been carried out, or may still be.
    pub(crate) is_in_doubt: bool,
    /// What tells whether it was, for as long as the session lives.
    receipt: Option<Receipt>,
}

impl Failure {
    fn certain(error: Error) -> Self {
        Self {
            error,
            is_in_doubt: false,
            receipt: None,
        }
    }
}

impl Receipts {
    pub(crate) fn new(session: &Session, stem: NodePath) -> Self {
        Self {
            session: session.clone(),
            stem,
            idle: Mutex::default(),
            anchor: Mutex::default(),
            began: Instant::now(),
            clock: Mutex::default(),
        }
    }

    /// Carries out a transaction once, and finds out whether it was when the answer is lost.
    ///
    /// Dropped after it was sent, it may be carried out.
    pub(crate) async fn confirm(
        &self,
        deadline: Deadline,
        build: impl Fn(Transaction) -> Transaction,
    ) -> Result<Answer, Failure> {
        let receipt = self.take(deadline).await.map_err(Failure::certain)?;
        let answer = self.carry_out(receipt, None, None, deadline, build).await?;
        Ok(answer.expect("nothing moves where there is no ground"))
    }

    /// As [`confirm`](Self::confirm), but only if that is still the ground; `None` if it is not, and nothing was done.
    pub(crate) async fn confirm_on(
        &self,
        ground: &Ground,
        deadline: Deadline,
        build: impl Fn(Transaction) -> Transaction,
    ) -> Attempt {
        let receipt = self.take(deadline).await.map_err(Failure::certain)?;
        self.carry_out(receipt, None, Some(ground), deadline, build)
            .await
    }

    /// Finds out, for as long as the session lives, whether a transaction was carried out that is in doubt, and carries
    /// it out if not; `ground` and `build` have to be the same.
    pub(crate) async fn find_out(
        &self,
        failure: Failure,
        ground: &Ground,
        build: impl Fn(Transaction) -> Transaction,
    ) -> Found {
        let Some(receipt) = failure.receipt else {
            return Found::Unknown;
        };
        let never = Deadline::after(Duration::MAX);
        let found = self.carry_out(receipt, Some(failure.error), Some(ground), never, build);
        match found.await {
            Ok(Some(Answer::Done(changed))) => Found::Done(changed),
            Ok(Some(Answer::Refused { .. }) | None) => Found::Not,
            Err(_) => Found::Unknown,
        }
    }

    async fn carry_out(
        &self,
        mut receipt: Receipt,
        mut doubt: Option<Error>,
        ground: Option<&Ground>,
        deadline: Deadline,
        build: impl Fn(Transaction) -> Transaction,
    ) -> Attempt {
        let mut attempts = 0;
        loop {
            let path = receipt.node.path();
            let first = self.session.transaction();
            let first = first.set_version(path, "", receipt.version);
            let (first, checks) = match ground {
                Some(ground) => ground.under(first, Some(path)),
                None => (first, 0),
            };
            // One that is without an answer for longer than an operation may take is sent again.
            let patience = deadline.remaining().min(self.session.operation_timeout());
            let sent = self.began.elapsed();
            let commit = build(first).timeout(patience).commit();
            let error = match commit.await {
                Ok(mut changed) => {
                    if !changed.is_empty()
                        && let Changed::Set(stat) = changed.remove(0)
                    {
                        self.tell(sent, stat.mtime);
                        receipt.version = stat.version;
                        self.give_back(receipt);
                    }
                    changed.drain(..checks.min(changed.len()));
                    return Ok(Some(Answer::Done(Some(changed))));
                }
                Err(error) => error,
            };
            match (error.class(), error.failed_part()) {
                (ErrorClass::Fatal, _) => {
                    return Err(Failure {
                        is_in_doubt: doubt.is_some() || error.is_outcome_unknown(),
                        error,
                        receipt: None,
                    });
                }
                _ if error.is_outcome_unknown() => doubt = Some(error),
                (_, Some(0)) => match doubt {
                    Some(_) if error.kind() == ErrorKind::BadVersion => {
                        tracing::debug!(path = %receipt.node.path(), "the answer was lost, the receipt tells it");
                        receipt.version = receipt.version.wrapping_add(1);
                        self.give_back(receipt);
                        return Ok(Some(Answer::Done(None)));
                    }
                    // Somebody deleted the receipt.
                    Some(error) => {
                        return Err(Failure {
                            error,
                            is_in_doubt: true,
                            receipt: None,
                        });
                    }
                    None => {
                        self.forget_anchor(&receipt.node);
                        // If there is a ground, it is lost when this was its anchor.
                        drop(receipt);
                        receipt = self.make(deadline).await.map_err(Failure::certain)?;
                    }
                },
                (_, Some(part)) => {
                    let node = Arc::clone(&receipt.node);
                    self.give_back(receipt);
                    if part > checks {
                        let part = part - 1 - checks;
                        return Ok(Some(Answer::Refused { part, error }));
                    }
                    if error.is_no_node() || error.kind() == ErrorKind::BadVersion {
                        if let (Some(ground), 1) = (ground, part)
                            && !Arc::ptr_eq(&ground.anchor, &node)
                        {
                            self.forget_anchor(&ground.anchor);
                        }
                        return Ok(None);
                    }
                    return Err(Failure::certain(error));
                }
                // This attempt was not judged; the next one may be.
                (ErrorClass::Recoverable, None) if doubt.is_some() && !deadline.is_over() => {}
                (_, None) => {
                    if let Some(error) = doubt {
                        return Err(Failure {
                            error,
                            is_in_doubt: true,
                            receipt: Some(receipt),
                        });
                    }
                    self.give_back(receipt);
                    return Err(Failure::certain(error));
                }
            }
            attempts += 1;
            deadline.pause(attempts).await;
        }
    }

    /// The least that the leader's clock shows now, in milliseconds since 1970; asks for it if that was long ago.
    pub(crate) async fn leader_time(&self, deadline: Deadline) -> Result<u64, Error> {
        let known = self.known_if(|_| true);
        if let Some(known) = known {
            return Ok(known);
        }
        self.ask_for_time(deadline).await?;
        Ok(self.known_time().unwrap_or(0))
    }

    /// The most that the leader's clock shows now; asks for it if that was long ago, or took long.
    pub(crate) async fn latest_leader_time(&self, deadline: Deadline) -> Result<u64, Error> {
        if self
            .known_if(|clock| clock.uncertainty() < MOST_UNCERTAINTY)
            .is_none()
        {
            self.ask_for_time(deadline).await?;
        }
        let latest = lock(&self.clock).at_most(self.began.elapsed());
        Ok(latest.unwrap_or(0))
    }

    /// The least that the clock shows if that was told not long ago, and this is so.
    fn known_if(&self, is_so: impl FnOnce(&LeaderClock) -> bool) -> Option<u64> {
        let clock = lock(&self.clock);
        let now = self.began.elapsed();
        let is_new = clock.age(now).is_some_and(|age| age < OLDEST);
        clock.at_least(now).filter(|_| is_new && is_so(&clock))
    }

    async fn ask_for_time(&self, deadline: Deadline) -> Result<(), Error> {
        let touched = self.confirm(deadline, |nothing_else| nothing_else).await;
        touched.map(drop).map_err(|failure| failure.error)
    }

    /// What is known of the leader's clock without asking.
    pub(crate) fn known_time(&self) -> Option<u64> {
        lock(&self.clock).at_least(self.began.elapsed())
    }

    fn tell(&self, sent: Duration, stamped: SystemTime) {
        let millis = millis_of(stamped);
        lock(&self.clock).tell(sent, self.began.elapsed(), millis);
    }

    async fn take(&self, deadline: Deadline) -> Result<Receipt, Error> {
        let idle = lock(&self.idle).pop();
        match idle {
            Some(receipt) => Ok(receipt),
            None => self.make(deadline).await,
        }
    }

    /// A receipt that is there already, and makes one if there is none.
    pub(crate) async fn anchor(&self, deadline: Deadline) -> Result<Arc<OwnedNode>, Error> {
        if let Some(anchor) = self.anchored() {
            return Ok(anchor);
        }
        let receipt = self.make(deadline).await?;
        let node = Arc::clone(&receipt.node);
        self.give_back(receipt);
        Ok(self.anchored().unwrap_or(node))
    }

    /// A receipt that is there already, if there is one.
    pub(crate) fn anchored(&self) -> Option<Arc<OwnedNode>> {
        lock(&self.anchor).clone()
    }

    /// Has another one found or made the next time, because this one is gone.
    pub(crate) fn forget_anchor(&self, node: &Arc<OwnedNode>) {
        lock(&self.anchor).take_if(|anchor| Arc::ptr_eq(anchor, node));
    }

    async fn make(&self, deadline: Deadline) -> Result<Receipt, Error> {
        let sent = self.began.elapsed();
        let create = self.session.create(&self.stem, "").ephemeral();
        let node = create
            .container_parents()
            .owned()
            .timeout(deadline.remaining())
            .await?;
        self.tell(sent, node.stat().ctime);
        let node = Arc::new(node);
        lock(&self.anchor).get_or_insert_with(|| Arc::clone(&node));
        Ok(Receipt { node, version: 0 })
    }

    fn give_back(&self, receipt: Receipt) {
        let mut idle = lock(&self.idle);
        // Far from the version -1, which would stand for any.
        if idle.len() < MOST_IDLE && (0..1 << 30).contains(&receipt.version) {
            idle.push(receipt);
        }
    }
}

/// Milliseconds since 1970.
pub(crate) fn millis_of(time: SystemTime) -> u64 {
    let since = time
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

const MOST_IDLE: usize = 128;
/// How long the leader's clock is counted on without asking again.
const OLDEST: Duration = Duration::from_secs(10);
/// How exactly it has to be known for a delay, which gets longer by as much.
const MOST_UNCERTAINTY: Duration = Duration::from_millis(250);
