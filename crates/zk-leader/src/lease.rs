//! A leadership, from its beginning to its end.

use std::fmt;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::time::Instant;

use tokio::sync::watch;
use zk_core::NodePath;
use zk_core::Session;
use zk_core::Transaction;
use zk_lock::FencingToken;
use zk_lock::Guard;
use zk_lock::ReleaseError;

use crate::error::Loss;
use crate::error::ResignError;
use crate::state::Standing;
use crate::state::State;

/// A leadership, as its task sees it: a handle that may be cloned and kept, and that holds nothing.
///
/// It tells whether the leadership lasts; it does not make it last.
/// Once it has said that it is over, it never says anything else: who leads again has a new lease, with a higher token.
///
/// A lease does not stop time.
/// When its process is paused or cut off for longer than the session timeout, the ensemble lets the next one lead, while
/// code of this one may be in the middle of something.
/// [`fencing_token`](Self::fencing_token) and [`txn`](Self::txn) are safe whatever happens in between, and
/// [what a lock guarantees](zk_lock#guarantees) has the reasons.
///
/// # Dropping
///
/// Nothing happens.
#[derive(Clone)]
pub struct Lease {
    term: Arc<Term>,
}

/// What is known of a leadership that is or was.
pub(crate) struct Term {
    session: Session,
    path: NodePath,
    token: FencingToken,
    /// `None` once it is over and whoever looked after it has noticed.
    guard: Mutex<Option<Guard>>,
    /// Why it is over. The first reason stays.
    end: watch::Sender<Option<Loss>>,
    /// Whether the leader is asked to resign.
    is_unwanted: watch::Sender<bool>,
    /// What became of its node.
    node: watch::Sender<Option<Result<(), ResignError>>>,
}

impl Lease {
    /// Returns a number that is higher for every later leader.
    ///
    /// Pass it along with whatever is done as the leader, and let the resource remember the highest one it has seen and
    /// refuse lower ones: then nothing that a former leader does too late gets through.
    pub fn fencing_token(&self) -> FencingToken {
        self.term.token
    }

    /// Returns the path of the leader's node.
    pub fn path(&self) -> &NodePath {
        &self.term.path
    }

    /// Tells whether this is certainly the leadership of now, as far as this client has proof. Asks nobody.
    ///
    /// See [`Guard::is_trusted`] for what it rests on.
    /// After the first `false` it stays so, and whoever leads steps down: a proof that comes late does not bring it back.
    pub fn is_trusted(&self) -> bool {
        self.term.is_trusted()
    }

    /// Returns the instant until which the leadership certainly lasts, if nobody deletes its node.
    ///
    /// While the session is connected it moves on by itself.
    /// `None` when it is over.
    pub fn trusted_until(&self) -> Option<Instant> {
        self.term.trusted_until()
    }

    /// Returns a future that resolves when the leadership is over, or no longer known to last, which ends it.
    ///
    /// It owns what it needs, and may be moved to another task.
    /// Each poll of it looks at the clock: polled first, as by a `select!` that is `biased`, it answers before other code
    /// goes on after a stop of the process.
    /// Dropping the future is safe.
    pub fn lost(&self) -> impl Future<Output = Loss> + Send + use<> {
        let term = Arc::clone(&self.term);
        async move { term.lost().await }
    }

    /// Returns a future that resolves when the leader is asked to hand over: time to finish what was begun.
    ///
    /// The task of a [`Selector`](crate::Selector) is then given the
    /// [grace](crate::ElectionOptions::with_grace) before it is dropped, and remains the leader until it ends.
    /// It resolves as well when the leadership is over.
    /// Dropping the future is safe.
    pub fn asked_to_resign(&self) -> impl Future<Output = ()> + Send + use<> {
        let term = Arc::clone(&self.term);
        async move {
            tokio::select! {
                biased;
                () = term.unwanted() => {}
                _ = term.lost() => {}
            }
        }
    }

    /// Starts a transaction that is refused unless this leadership lasts at the moment the ensemble carries it out.
    ///
    /// Its first part checks the leader's node; add what is to be done.
    /// A transaction of a leadership that is over changes nothing: it ends as
    /// [`NoNode`](zk_core::ErrorKind::NoNode) with [`failed_part`](zk_core::Error::failed_part) zero, or with a
    /// fatal error.
    pub fn txn(&self) -> Transaction {
        self.term.session.transaction().check(&self.term.path)
    }

    pub(crate) const fn term(&self) -> &Arc<Term> {
        &self.term
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("path", &self.term.path)
            .field("fencing_token", &self.term.token)
            .field("is_trusted", &self.is_trusted())
            .finish_non_exhaustive()
    }
}

impl Term {
    /// Notes that it is over, and answers why, which may be an earlier reason.
    pub(crate) fn end(&self, loss: Loss) -> Loss {
        let mut reason = loss;
        self.end.send_if_modified(|end| {
            let is_news = end.is_none();
            reason = *end.get_or_insert(loss);
            is_news
        });
        reason
    }

    /// Asks the leader to resign.
    pub(crate) fn unwant(&self) {
        self.is_unwanted.send_replace(true);
    }

    /// Waits until the leader is asked to resign.
    pub(crate) async fn unwanted(&self) {
        // The sender is a part of `self`.
        drop(self.is_unwanted.subscribe().wait_for(|it| *it).await);
    }

    /// Waits until the leadership is over and it is known what became of its node.
    pub(crate) async fn removed(&self) -> Result<(), ResignError> {
        let mut node = self.node.subscribe();
        let known = node.wait_for(Option::is_some).await;
        // The sender is a part of `self`.
        known.ok().and_then(|it| it.clone()).unwrap_or(Ok(()))
    }

    /// Ends it, and leaves the removal of its node to the background.
    pub(crate) fn abandon(&self, loss: Loss) {
        let reason = self.end(loss);
        drop(self.guard().take());
        let path = self.path.clone();
        self.tell_of_node(Err(match reason {
            Loss::Resigned => ResignError::Unfinished { path, source: None },
            loss => ResignError::Lost(loss),
        }));
    }

    fn tell_of_node(&self, known: Result<(), ResignError>) {
        self.node.send_if_modified(|node| {
            let is_news = node.is_none();
            node.get_or_insert(known);
            is_news
        });
    }

    pub(crate) async fn lost(&self) -> Loss {
        let mut end = self.end.subscribe();
        // What it answers is not held on to: that would lock the reason.
        let ended = async move { drop(end.wait_for(Option::is_some).await) };
        let lost = self.guard().as_ref().map(Guard::lost);
        let lost = async {
            match lost {
                Some(lost) => Loss::of(lost.await),
                // It is over, as is said elsewhere.
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = ended => self.end(Loss::Resigned),
            loss = lost => self.end(loss),
        }
    }

    pub(crate) fn is_trusted(&self) -> bool {
        if self.end.borrow().is_some() {
            return false;
        }
        let (is_trusted, is_over) = match self.guard().as_ref() {
            Some(guard) if guard.is_trusted() => (true, false),
            // What ended for good is reported with its reason, by the guard.
            Some(guard) => (false, guard.trusted_until().is_none()),
            None => (false, true),
        };
        if !is_trusted && !is_over {
            self.end(Loss::TrustLapsed);
        }
        is_trusted
    }

    fn trusted_until(&self) -> Option<Instant> {
        if self.end.borrow().is_some() {
            return None;
        }
        self.guard().as_ref().and_then(Guard::trusted_until)
    }

    fn guard(&self) -> MutexGuard<'_, Option<Guard>> {
        // Nothing panics while it is locked.
        self.guard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The one who looks after a leadership. Dropping it ends the leadership, and its node goes in the background.
pub(crate) struct Tenure {
    term: Arc<Term>,
}

impl Tenure {
    pub(crate) fn begin(session: &Session, guard: Guard) -> Self {
        let term = Arc::new(Term {
            session: session.clone(),
            path: guard.path().clone(),
            token: guard.fencing_token(),
            guard: Mutex::new(Some(guard)),
            end: watch::Sender::new(None),
            is_unwanted: watch::Sender::new(false),
            node: watch::Sender::new(None),
        });
        tracing::info!(path = %term.path, token = %term.token, "leading");
        Self { term }
    }

    pub(crate) fn lease(&self) -> Lease {
        Lease {
            term: Arc::clone(&self.term),
        }
    }

    /// Ends it for this reason, if it has not ended, and then removes its node: at once if it is known to be ours, in the
    /// background otherwise.
    ///
    /// Answers why it ended, which is [`Loss::Resigned`] only if it lasted until now.
    pub(crate) async fn end(self, loss: Loss, standing: &Standing) -> Loss {
        // The process may have been stopped in the last steps of the leader, which is noticed here.
        self.term.is_trusted();
        let loss = self.term.end(loss);
        tracing::info!(path = %self.term.path, token = %self.term.token, %loss, "no longer leading");
        // Said before the node goes, and with it the last obstacle for the next one.
        standing.set(State::Joining { error: None });
        if loss != Loss::Resigned {
            // Whoever may have been cut off does not wait for an answer.
            return loss;
        }
        let Some(guard) = self.term.guard().take() else {
            return loss;
        };
        let path = guard.path().clone();
        let (known, loss) = match guard.release().await {
            Ok(()) => (Ok(()), loss),
            Err(ReleaseError::Lost { loss, .. }) => {
                let loss = Loss::of(loss);
                (Err(ResignError::Lost(loss)), loss)
            }
            Err(source) => {
                let source = Some(source);
                (Err(ResignError::Unfinished { path, source }), loss)
            }
        };
        self.term.tell_of_node(known);
        loss
    }
}

impl Drop for Tenure {
    fn drop(&mut self) {
        self.term.abandon(Loss::Resigned);
    }
}
