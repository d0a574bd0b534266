//! The state of a participant, and the handles that read it.

use std::fmt;
use std::sync::Arc;

use tokio::sync::watch;
use zk_core::Session;
use zk_lock::{AcquireError, FencingToken};

use crate::error::{ParticipantEnd, ResignError};
use crate::lease::LeaderLease;

/// The state of a participant. It leaves each state by itself, except the last.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ParticipantState {
    /// It has no node in the queue yet.
    Joining {
        /// The error of the last attempt, if one failed. The participant tries again.
        error: Option<AcquireError>,
    },
    /// It waits in the queue.
    Waiting {
        /// The fencing token of its future leadership, which identifies it among the
        /// [participants](crate::LeaderLatch::participants).
        token: FencingToken,
    },
    /// It leads. The lease reports whether the leadership is still proven.
    Leading(LeaderLease),
    /// It has left the election for good.
    Ended(ParticipantEnd),
}

impl fmt::Display for ParticipantState {
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

/// A handle that observes and controls one participant. It can be cloned and outlives the participant.
///
/// It does not keep the participant in the election. It keeps the session open, as each clone of the session does.
///
/// # Dropping
///
/// Nothing happens.
#[derive(Debug, Clone)]
pub struct ParticipantHandle {
    session: Session,
    shared: Arc<SharedState>,
}

impl ParticipantHandle {
    pub(crate) fn new(session: &Session, shared: &Arc<SharedState>) -> Self {
        Self {
            session: session.clone(),
            shared: Arc::clone(shared),
        }
    }

    /// Returns the current state.
    pub fn state(&self) -> ParticipantState {
        self.shared.state.borrow().clone()
    }

    /// Returns the changes of the state, beginning with the current state.
    pub fn changes(&self) -> StateChanges {
        let mut state = self.shared.state.subscribe();
        state.mark_changed();
        StateChanges {
            state,
            _shared: Arc::clone(&self.shared),
            is_over: false,
        }
    }

    /// Returns whether this participant certainly leads. Sends no request.
    ///
    /// At most one participant returns `true` at a time, see [`LeaderLease::is_valid`].
    pub fn is_leader(&self) -> bool {
        self.lease().is_some()
    }

    /// Returns the lease if this participant certainly leads.
    pub fn lease(&self) -> Option<LeaderLease> {
        match &*self.shared.state.borrow() {
            ParticipantState::Leading(lease) if lease.is_valid() => Some(lease.clone()),
            _ => None,
        }
    }

    /// Waits until this participant leads.
    ///
    /// # Errors
    ///
    /// The reason why the participant ended.
    pub async fn leading(&self) -> Result<LeaderLease, ParticipantEnd> {
        let mut changes = self.changes();
        loop {
            match changes.next().await {
                Some(ParticipantState::Leading(lease)) if lease.is_valid() => return Ok(lease),
                Some(ParticipantState::Ended(end)) => return Err(end),
                // Not reached: the end is returned above, and no state follows it.
                None => return Err(ParticipantEnd::Stopped),
                Some(_) => {}
            }
        }
    }

    /// Waits until this participant has left the election for good, and returns why.
    pub async fn ended(&self) -> ParticipantEnd {
        let mut state = self.shared.state.subscribe();
        let ended = state.wait_for(|state| matches!(state, ParticipantState::Ended(_)));
        match ended.await.as_deref() {
            Ok(ParticipantState::Ended(end)) => end.clone(),
            // Not reached: `self` owns the sender.
            _ => ParticipantEnd::Stopped,
        }
    }

    /// Requests the leader to resign, and waits until its task, if any, has ended and its node is deleted.
    ///
    /// The next participant, if there is one, then leads or is about to.
    /// This participant joins again, at the end of the queue, unless [`Rejoin::Never`](crate::Rejoin::Never) is set or
    /// its task breaks.
    ///
    /// # Errors
    ///
    /// [`ResignError::NotLeading`] if it does not lead, [`ResignError::Lost`] if the leadership ended for another
    /// reason, and [`ResignError::Pending`] if the node was not deleted within the session's operation timeout.
    ///
    /// # Cost
    ///
    /// One round trip, once the task has ended.
    pub async fn resign(&self) -> Result<(), ResignError> {
        let lease = self.lease().ok_or(ResignError::NotLeading)?;
        lease.state().request_resign();
        lease.state().removed().await
    }

    /// Makes this participant leave the election, and waits until it has left. Returns why it ended, which may be an
    /// earlier reason.
    ///
    /// A waiter leaves at once, and a [`Selector`](crate::Selector) that is not running yet leaves when it is run.
    /// A leader resigns first, as with [`resign`](Self::resign).
    /// The node is deleted when this returns. If that takes longer than the session's operation timeout, the deletion
    /// continues in the background.
    ///
    /// # Cost
    ///
    /// One round trip, once the task has ended. None if the participant has no node.
    pub async fn leave(&self) -> ParticipantEnd {
        self.shared.is_leaving.send_replace(true);
        let end = self.ended().await;
        let limit = self.session.operation_timeout();
        // This also waits for other deletions of the session, which is harmless.
        if tokio::time::timeout(limit, self.session.settled())
            .await
            .is_err()
        {
            tracing::debug!(
                "a participant left; the deletion of its node continues in the background"
            );
        }
        end
    }
}

/// The changes of a participant's state, from [`ParticipantHandle::changes`].
///
/// A slow consumer sees fewer changes, but always in order, and always the end.
///
/// # Dropping
///
/// Nothing happens.
#[derive(Debug, Clone)]
pub struct StateChanges {
    state: watch::Receiver<ParticipantState>,
    /// Owns the sender.
    _shared: Arc<SharedState>,
    is_over: bool,
}

impl StateChanges {
    /// Waits for the next state. The first call returns the current state. Returns `None` after
    /// [`ParticipantState::Ended`].
    ///
    /// # Session loss
    ///
    /// [`ParticipantState::Ended`] with [`ParticipantEnd::SessionLost`], then `None`.
    pub async fn next(&mut self) -> Option<ParticipantState> {
        if self.is_over || self.state.changed().await.is_err() {
            return None;
        }
        let state = self.state.borrow_and_update().clone();
        self.is_over = matches!(state, ParticipantState::Ended(_));
        Some(state)
    }
}

/// The state that a participant and its handles share.
#[derive(Debug)]
pub(crate) struct SharedState {
    state: watch::Sender<ParticipantState>,
    is_leaving: watch::Sender<bool>,
}

impl SharedState {
    pub(crate) fn new() -> Arc<Self> {
        let state = ParticipantState::Joining { error: None };
        #[cfg(feature = "metrics")]
        crate::metrics::state_changed(None, Some(&state));
        Arc::new(Self {
            state: watch::Sender::new(state),
            is_leaving: watch::Sender::new(false),
        })
    }

    /// Sets the state, unless the participant has ended.
    pub(crate) fn set(&self, next: ParticipantState) {
        self.state.send_if_modified(|state| {
            let is_live = !matches!(state, ParticipantState::Ended(_));
            if is_live {
                tracing::debug!(from = %state, to = %next, "participant changed state");
                #[cfg(feature = "metrics")]
                crate::metrics::state_changed(Some(state), Some(&next));
                *state = next;
            }
            is_live
        });
    }

    /// Waits for a request to leave.
    pub(crate) async fn leaving(&self) {
        // Never an error: `self` owns the sender.
        drop(self.is_leaving.subscribe().wait_for(|it| *it).await);
    }

    pub(crate) fn is_leaving(&self) -> bool {
        *self.is_leaving.borrow()
    }
}

#[cfg(feature = "metrics")]
impl Drop for SharedState {
    fn drop(&mut self) {
        crate::metrics::state_changed(Some(&*self.state.borrow()), None);
    }
}

/// Owned by the code that runs a participant. Dropping it sets the final state, however that code stops.
#[derive(Debug)]
pub(crate) struct StateOwner {
    pub(crate) shared: Arc<SharedState>,
    /// The end that is reported if no other was set before.
    end_if_dropped: ParticipantEnd,
}

impl StateOwner {
    pub(crate) const fn new(shared: Arc<SharedState>, end_if_dropped: ParticipantEnd) -> Self {
        Self {
            shared,
            end_if_dropped,
        }
    }
}

impl Drop for StateOwner {
    fn drop(&mut self) {
        self.shared
            .set(ParticipantState::Ended(self.end_if_dropped.clone()));
    }
}
