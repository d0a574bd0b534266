//! A lock that is held by one task of a cohort.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::watch;
use zk_core::NodePath;
use zk_core::Transaction;

use super::local_waiters::Members;
use crate::error::Loss;
use crate::error::ReleaseError;
use crate::guard::FencingToken;
use crate::guard::Guard;

/// A [`CohortLock`](crate::CohortLock) that is held by one task.
///
/// All of what is said of a [`Guard`] is true of it, too.
/// The node in the queue belongs to the whole cohort: a task that gets the lock from another one of the same process
/// takes over its node, and with it its [`place_token`](Self::place_token). [`token`](Self::token) is new for each
/// holder, and is what fences.
///
/// # Dropping
///
/// As [`release`](Self::release), without its answer: the lock goes to the next task that waits in this process, or back
/// to the ensemble in the background, also when a panic drops it.
/// At once, [`lost`](Self::lost) resolves for whoever holds such a future.
#[must_use = "the lock is released when the guard is dropped"]
pub struct CohortGuard {
    /// `None` once it is handed over.
    guard: Option<Guard>,
    turn: u64,
    members: Arc<Members>,
    /// True once it is let go.
    ended: watch::Sender<bool>,
}

impl CohortGuard {
    pub(super) fn new(guard: Guard, turn: u64, members: Arc<Members>) -> Self {
        Self {
            guard: Some(guard),
            turn,
            members,
            ended: watch::Sender::new(false),
        }
    }

    fn guard(&self) -> &Guard {
        let guard = self.guard.as_ref();
        guard.expect("it is taken only by those who take the whole")
    }

    /// Returns a number that is higher for every later place in the queue: that of the node, see
    /// [`Guard::fencing_token`].
    ///
    /// It is no fencing token: all tasks that get the lock by one place in the queue have the same one, one after the
    /// other. It keeps other processes apart; [`token`](Self::token) tells all holders apart.
    pub fn place_token(&self) -> FencingToken {
        self.guard().fencing_token()
    }

    /// Returns the fencing token: a pair that is higher for every later holder of the lock, in this process and in
    /// others.
    pub fn token(&self) -> CohortToken {
        CohortToken {
            token: self.place_token(),
            turn: self.turn,
        }
    }

    /// Returns the path of the lock's node.
    pub fn path(&self) -> &NodePath {
        self.guard().path()
    }

    /// Returns a future that resolves when the lock is lost, no longer known to be held, or let go; see
    /// [`Guard::lost`].
    pub fn lost(&self) -> impl Future<Output = Loss> + Send + use<> {
        let mut ended = self.ended.subscribe();
        let lost = self.guard().lost();
        async move {
            let lost = pin!(lost);
            tokio::select! {
                biased;
                // The sender goes with the guard.
                _ = ended.wait_for(|ended| *ended) => Loss::Released,
                loss = lost => loss,
            }
        }
    }

    /// Tells whether the lock is certainly held, as far as this client has proof; see [`Guard::is_trusted`].
    pub fn is_trusted(&self) -> bool {
        self.guard().is_trusted()
    }

    /// Returns the instant until which the lock is certainly held; see [`Guard::trusted_until`].
    pub fn trusted_until(&self) -> Option<Instant> {
        self.guard().trusted_until()
    }

    /// Starts a transaction that is refused unless the cohort holds the lock at the moment the ensemble carries it out;
    /// see [`Guard::txn`].
    ///
    /// The ensemble does not know which task of the cohort holds the lock: commit it before you release.
    pub fn txn(&self) -> Transaction {
        self.guard().txn()
    }

    /// Releases the lock: to the next task that waits in this process, at once, or to the ensemble, waiting until that
    /// has carried it out.
    ///
    /// # Errors
    ///
    /// Those of [`Guard::release`].
    ///
    /// # Cancel safety
    ///
    /// Safe, the release continues in the background.
    ///
    /// # Session loss
    ///
    /// [`ReleaseError::Lost`], since the lock went with the session.
    ///
    /// # Cost
    ///
    /// Nothing, or one round trip.
    pub async fn release(mut self) -> Result<(), ReleaseError> {
        match self.let_go() {
            Some(guard) => guard.release().await,
            None => Ok(()),
        }
    }

    /// Hands it over; the answer is a lock that is to go back to the ensemble.
    fn let_go(&mut self) -> Option<Guard> {
        let guard = self.guard.take()?;
        self.ended.send_replace(true);
        self.members.pass_on(guard)
    }
}

impl Drop for CohortGuard {
    fn drop(&mut self) {
        // Dropping a lock that goes back to the ensemble deletes its node.
        drop(self.let_go());
    }
}

impl fmt::Debug for CohortGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CohortGuard")
            .field("guard", &self.guard)
            .field("turn", &self.turn)
            .finish_non_exhaustive()
    }
}

/// A pair that grows with each grant of a [`CohortLock`](crate::CohortLock), also from one task to another of the same
/// process.
///
/// The token of the place in the queue comes first, so that these pairs are in one order with those of other processes.
/// A resource that keeps one number only, and is used by a cohort, needs both in it, or has to be sure that nothing of a
/// task is still on its way when it lets go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CohortToken {
    token: FencingToken,
    turn: u64,
}

impl CohortToken {
    /// Makes one of its parts, such as a resource has stored.
    pub const fn new(token: FencingToken, turn: u64) -> Self {
        Self { token, turn }
    }

    /// Returns the part that all tasks have in common that got the lock by one place in the queue.
    pub const fn place_token(&self) -> FencingToken {
        self.token
    }

    /// Returns how many tasks got the lock by this place before.
    pub const fn turn(&self) -> u64 {
        self.turn
    }
}

impl fmt::Display for CohortToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.token, self.turn)
    }
}
