//! Where a participant stands.

use std::fmt;
use std::sync::Arc;

use tokio::sync::watch;
use zk_core::Session;
use zk_lock::AcquireError;
use zk_lock::FencingToken;

use crate::error::End;
use crate::error::ResignError;
use crate::lease::Lease;

/// Where a participant stands. There is no other state, and it goes on by itself from each of these but the last.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum State {
    /// It has no place in line, and is getting one.
    Joining {
        /// What went wrong the last time, if it did; it tries again.
        error: Option<AcquireError>,
    },
    /// It is in line.
    Waiting {
        /// The fencing token it will lead with, which tells it from the other
        /// [participants](crate::LeaderLatch::participants).
        token: FencingToken,
    },
    /// It leads, as far as it knows; the lease tells more.
    Leading(Lease),
    /// It is out of the race, and nothing comes after this.
    Ended(End),
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Joining { error: None } => f.write_str("joining"),
            Self::Joining { error: Some(error) } => write!(f, "joining again after: {error}"),
            Self::Waiting { token } => write!(f, "waiting with token {token}"),
            Self::Leading(lease) => write!(f, "leading with token {}", lease.fencing_token()),
            Self::Ended(end) => write!(f, "ended: {end}"),
        }
    }
}

/// One participant, seen from anywhere: may be cloned and kept, and keeps nobody in the race.
///
/// It keeps the session open, as each clone of that does.
///
/// # Dropping
///
/// Nothing happens.
#[derive(Debug, Clone)]
pub struct Handle {
    session: Session,
    standing: Arc<Standing>,
}

impl Handle {
    pub(crate) fn new(session: &Session, standing: &Arc<Standing>) -> Self {
        Self {
            session: session.clone(),
            standing: Arc::clone(standing),
        }
    }

    /// Returns the state of now.
    pub fn state(&self) -> State {
        self.standing.state.borrow().clone()
    }

    /// Follows the state, beginning with the state of now.
    pub fn changes(&self) -> Changes {
        let mut state = self.standing.state.subscribe();
        state.mark_changed();
        Changes {
            state,
            _standing: Arc::clone(&self.standing),
            is_over: false,
        }
    }

    /// Tells whether this participant certainly leads, as far as it has proof. Asks nobody.
    ///
    /// No two participants answer `true` at the same moment, see [`Lease::is_trusted`].
    pub fn is_leader(&self) -> bool {
        self.lease().is_some()
    }

    /// Returns the lease of a participant that certainly leads.
    pub fn lease(&self) -> Option<Lease> {
        match &*self.standing.state.borrow() {
            State::Leading(lease) if lease.is_trusted() => Some(lease.clone()),
            _ => None,
        }
    }

    /// Waits until this participant leads.
    ///
    /// # Errors
    ///
    /// The reason why it never will.
    ///
    /// # Cancel safety
    ///
    /// Safe, nothing happened: the participant stays in line.
    ///
    /// # Session loss
    ///
    /// [`End::SessionLost`].
    pub async fn leading(&self) -> Result<Lease, End> {
        let mut changes = self.changes();
        loop {
            match changes.next().await {
                Some(State::Leading(lease)) if lease.is_trusted() => return Ok(lease),
                Some(State::Ended(end)) => return Err(end),
                // Nothing comes after an end, which is answered above.
                None => return Err(End::Stopped),
                Some(_) => {}
            }
        }
    }

    /// Waits until this participant is out of the race, and answers why.
    ///
    /// # Cancel safety
    ///
    /// Safe, nothing happened.
    ///
    /// # Session loss
    ///
    /// [`End::SessionLost`].
    pub async fn ended(&self) -> End {
        let mut state = self.standing.state.subscribe();
        let ended = state.wait_for(|state| matches!(state, State::Ended(_)));
        match ended.await.as_deref() {
            Ok(State::Ended(end)) => end.clone(),
            // The sender is a part of `self`.
            _ => End::Stopped,
        }
    }

    /// Asks the leader to resign, and waits until it has: until its task has ended, if it has one, and its node is gone.
    ///
    /// By then the next one in line leads, if there is one, or is about to.
    /// Afterwards this participant gets in line again, at the end, if it is one to [rejoin](crate::Rejoin) and its task
    /// says nothing else.
    ///
    /// # Errors
    ///
    /// [`ResignError::NotLeading`] when it does not lead, [`ResignError::Lost`] when that ended otherwise, and
    /// [`ResignError::Unfinished`] when the node could not be removed within the session's operation timeout.
    ///
    /// # Cancel safety
    ///
    /// The leader has been asked; it goes on by itself.
    ///
    /// # Session loss
    ///
    /// [`ResignError::Lost`].
    ///
    /// # Cost
    ///
    /// One round trip, once the task has ended.
    pub async fn resign(&self) -> Result<(), ResignError> {
        let lease = self.lease().ok_or(ResignError::NotLeading)?;
        lease.term().unwant();
        lease.term().removed().await
    }

    /// Takes this participant out of the race, and waits until it is; answers why it ended, which may be another reason
    /// that came first.
    ///
    /// One that waits leaves at once, and a [`Selector`](crate::Selector) that was not run yet as soon as it is.
    /// A leader hands over as with [`resign`](Self::resign).
    /// Its node is gone by then, unless that could not be done within the session's operation timeout; it goes in the
    /// background then.
    ///
    /// # Cancel safety
    ///
    /// The participant leaves by itself.
    ///
    /// # Session loss
    ///
    /// [`End::SessionLost`].
    ///
    /// # Cost
    ///
    /// One round trip, once the task has ended, and none for one who is not in line.
    pub async fn leave(&self) -> End {
        self.standing.is_leaving.send_replace(true);
        let end = self.ended().await;
        let limit = self.session.operation_timeout();
        // It also waits for what else the session has to remove, which does no harm.
        if tokio::time::timeout(limit, self.session.settled())
            .await
            .is_err()
        {
            tracing::debug!("the node of a participant that left goes later");
        }
        end
    }
}

/// The changes of a participant's state; made by [`Handle::changes`].
///
/// A consumer that is slow sees fewer changes, never a wrong order, and always the end.
///
/// # Dropping
///
/// Nothing happens.
#[derive(Debug, Clone)]
pub struct Changes {
    state: watch::Receiver<State>,
    /// Keeps the sender.
    _standing: Arc<Standing>,
    is_over: bool,
}

impl Changes {
    /// Waits for the next state; the first call answers that of now, and after [`State::Ended`] there is nothing more.
    ///
    /// # Cancel safety
    ///
    /// Safe, nothing is missed.
    ///
    /// # Session loss
    ///
    /// Answered as [`State::Ended`] with [`End::SessionLost`], then `None`.
    pub async fn next(&mut self) -> Option<State> {
        if self.is_over || self.state.changed().await.is_err() {
            return None;
        }
        let state = self.state.borrow_and_update().clone();
        self.is_over = matches!(state, State::Ended(_));
        Some(state)
    }
}

/// What a participant and those who look at it share.
#[derive(Debug)]
pub(crate) struct Standing {
    state: watch::Sender<State>,
    is_leaving: watch::Sender<bool>,
}

impl Standing {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            state: watch::Sender::new(State::Joining { error: None }),
            is_leaving: watch::Sender::new(false),
        })
    }

    /// Goes on to another state, unless it has ended, which stays.
    pub(crate) fn set(&self, next: State) {
        self.state.send_if_modified(|state| {
            let goes_on = !matches!(state, State::Ended(_));
            if goes_on {
                tracing::debug!(from = %state, to = %next, "a participant goes on");
                *state = next;
            }
            goes_on
        });
    }

    /// Waits until somebody wants it to leave.
    pub(crate) async fn leaving(&self) {
        // The sender is a part of `self`.
        drop(self.is_leaving.subscribe().wait_for(|it| *it).await);
    }

    pub(crate) fn is_leaving(&self) -> bool {
        *self.is_leaving.borrow()
    }
}

/// Whoever moves a participant on has this, so that it ends visibly in whichever way that stops.
#[derive(Debug)]
pub(crate) struct Mover {
    pub(crate) standing: Arc<Standing>,
    /// What is told if it stops without a word.
    if_dropped: End,
}

impl Mover {
    pub(crate) const fn new(standing: Arc<Standing>, if_dropped: End) -> Self {
        Self {
            standing,
            if_dropped,
        }
    }
}

impl Drop for Mover {
    fn drop(&mut self) {
        self.standing.set(State::Ended(self.if_dropped.clone()));
    }
}
