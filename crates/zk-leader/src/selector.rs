//! The selector: runs a task while its participant leads.

use std::fmt;
use std::ops::ControlFlow;

use zk_core::{Error, IntoNodePath, NodePath, ParsePathError, Session};
use zk_lock::{FencingToken, Guard, Layout};

use crate::election::Election;
use crate::error::{LeadershipLoss, ParticipantEnd};
use crate::leadership::Leadership;
use crate::lease::LeaderLease;
use crate::options::ElectionOptions;
use crate::participant::Participant;
use crate::state::{ParticipantHandle, ParticipantState, SharedState, StateOwner};
use crate::step_down::RequestStepDown;

/// A participant of an election that runs a task while it leads.
///
/// [`run`](Self::run) joins the election and consumes the selector. Creating another one sends no request.
/// [`handle`](Self::handle) reports its state to others, and lets them request it to resign.
///
/// # Dropping
///
/// Its handles report that it has [left](ParticipantEnd::Left).
///
/// # Examples
///
/// ```no_run
/// # async fn reconcile(_: &zk_leader::LeaderLease) -> bool { true }
/// # async fn demo(session: zk_core::Session) -> Result<(), Box<dyn std::error::Error>> {
/// use std::ops::ControlFlow;
/// use zk_leader::Selector;
///
/// let selector = Selector::new(&session, "/leaders/billing")?;
/// selector
///     .run(async |lease| {
///         if reconcile(&lease).await {
///             ControlFlow::Break(())
///         } else {
///             ControlFlow::Continue(())
///         }
///     })
///     .await?;
/// # Ok(())
/// # }
/// ```
pub struct Selector {
    election: Election,
    owner: StateOwner,
    handle: ParticipantHandle,
}

impl Selector {
    /// Creates a participant of the election at `path`, with default options.
    ///
    /// The node at the path, and its parents, are created on first use, as containers if the servers support them.
    /// Use the path for nothing else.
    ///
    /// # Errors
    ///
    /// If `path` is not a valid node path.
    pub fn new(session: &Session, path: impl IntoNodePath) -> Result<Self, ParsePathError> {
        Self::with_options(session, path, &ElectionOptions::default())
    }

    /// Creates a participant of the election at `path`.
    ///
    /// # Errors
    ///
    /// If `path` is not a valid node path.
    pub fn with_options(
        session: &Session,
        path: impl IntoNodePath,
        options: &ElectionOptions,
    ) -> Result<Self, ParsePathError> {
        let shared = SharedState::new();
        Ok(Self {
            election: Election::new(session, path, options, Layout::curator())?,
            handle: ParticipantHandle::new(session, &shared),
            owner: StateOwner::new(shared, ParticipantEnd::Left),
        })
    }

    /// Returns the path of the election.
    pub fn path(&self) -> &NodePath {
        self.election.path()
    }

    /// Returns the session of the participant.
    pub fn session(&self) -> &Session {
        self.election.session()
    }

    /// Returns a handle to this participant.
    pub fn handle(&self) -> &ParticipantHandle {
        &self.handle
    }

    /// Starts a request to the present leader to step down, see
    /// [`LeaderLatch::request_step_down`](crate::LeaderLatch::request_step_down).
    pub fn request_step_down(&self) -> RequestStepDown {
        RequestStepDown::new(self.election.clone())
    }

    /// Runs `task` whenever this participant leads, until the task breaks.
    ///
    /// When the task ends, the participant resigns: its node is deleted, and with
    /// [`Continue`](ControlFlow::Continue) it joins again, at the end of the queue.
    /// As soon as the leadership is over or no longer proven, the task is dropped at its current await. Code between
    /// two awaits is not interrupted, and neither are tasks that it spawned.
    /// The node is deleted only after that, so that the next participant does not lead before the task is dropped. The
    /// exceptions are a process that is paused, or a task that does not await, for so long that the session expires;
    /// the [fencing token](LeaderLease::fencing_token) protects against these.
    ///
    /// # Errors
    ///
    /// The reason why it will not lead again.
    /// With [`Rejoin::Never`](crate::Rejoin::Never), also the loss of the leadership.
    ///
    /// # Session loss
    ///
    /// [`ParticipantEnd::SessionLost`], after the task was dropped.
    ///
    /// # Cost
    ///
    /// One round trip to join, two watches while it waits, and one round trip to resign.
    pub async fn run<B, F>(
        self,
        mut task: impl FnMut(LeaderLease) -> F,
    ) -> Result<B, ParticipantEnd>
    where
        F: Future<Output = ControlFlow<B>>,
    {
        self.record_end(async |selector: &Self| {
            loop {
                let guard = selector.win().await?;
                let loss = match selector.lead(guard, &mut task).await {
                    // A break is a decision of the task and counts, however the leadership ended.
                    (Some(ControlFlow::Break(value)), _) => return Ok(value),
                    (_, loss) => loss,
                };
                if let Some(end) = selector.election.end_after(loss, &selector.owner.shared) {
                    return Err(end);
                }
            }
        })
        .await
    }

    /// Runs `task` once, when this participant leads, and resigns.
    ///
    /// The task is dropped as described at [`run`](Self::run).
    ///
    /// # Errors
    ///
    /// Those of [`run`](Self::run), which has the same cost. [`ParticipantEnd::LeadershipLost`] if the task was
    /// dropped, or if the leadership turned out to be lost when the task had ended: the result is discarded then, since
    /// another participant may have led meanwhile.
    pub async fn run_once<T, F>(
        self,
        task: impl FnOnce(LeaderLease) -> F,
    ) -> Result<T, ParticipantEnd>
    where
        F: Future<Output = T>,
    {
        self.record_end(async |selector: &Self| {
            let guard = selector.win().await?;
            match selector.lead(guard, task).await {
                (Some(output), LeadershipLoss::Resigned) => Ok(output),
                (_, LeadershipLoss::SessionLost) => Err(ParticipantEnd::SessionLost),
                _ if selector.owner.shared.is_leaving() => Err(ParticipantEnd::Left),
                (_, loss) => Err(ParticipantEnd::LeadershipLost(loss)),
            }
        })
        .await
    }

    /// Lists the participants: the leader first, then the waiters in the order in which they will lead.
    ///
    /// See [`LeaderLatch::participants`](crate::LeaderLatch::participants), also for errors and cost.
    ///
    /// # Errors
    ///
    /// If the path or one of the nodes cannot be read.
    pub async fn participants(&self) -> Result<Vec<Participant>, Error> {
        self.election.participants().await
    }

    /// Returns the first participant, which leads or is about to, or `None` if there are no participants.
    ///
    /// # Errors
    ///
    /// If the path or one of the nodes cannot be read.
    pub async fn leader(&self) -> Result<Option<Participant>, Error> {
        self.election.leader().await
    }

    /// Waits for a leader after the one with the token `before`, or for any leader with `None`.
    ///
    /// See [`LeaderLatch::leader_after`](crate::LeaderLatch::leader_after).
    ///
    /// # Errors
    ///
    /// If the election cannot be read.
    pub async fn leader_after(&self, before: Option<FencingToken>) -> Result<Participant, Error> {
        self.election.leader_after(before).await
    }

    /// Runs the participant and records its end for the handles.
    async fn record_end<T>(
        self,
        run: impl AsyncFnOnce(&Self) -> Result<T, ParticipantEnd>,
    ) -> Result<T, ParticipantEnd> {
        let result = run(&self).await;
        if let Err(end) = &result {
            self.owner.shared.set(ParticipantState::Ended(end.clone()));
        }
        result
    }

    /// Waits for the leadership, or for a request to leave.
    async fn win(&self) -> Result<Guard, ParticipantEnd> {
        let shared = &self.owner.shared;
        tokio::select! {
            biased;
            () = shared.leaving() => Err(ParticipantEnd::Left),
            // Boxed to keep the future of `run` small.
            won = Box::pin(self.election.win(shared)) => won,
        }
    }

    /// Runs the task under the leadership, then ends the leadership.
    async fn lead<T, F>(
        &self,
        guard: Guard,
        task: impl FnOnce(LeaderLease) -> F,
    ) -> (Option<T>, LeadershipLoss)
    where
        F: Future<Output = T>,
    {
        let shared = &self.owner.shared;
        let leadership = Leadership::begin(self.session(), self.election.acl(), guard);
        let lease = leadership.lease();
        shared.set(ParticipantState::Leading(lease.clone()));
        let grace_expired = async {
            tokio::select! {
                biased;
                () = lease.state().resign_requested() => {}
                () = shared.leaving() => lease.state().request_resign(),
            }
            let grace = std::future::pending::<()>();
            drop(tokio::time::timeout(self.election.grace(), grace).await);
        };
        // Boxed to keep the future of `run` small.
        let inbox = Box::pin(self.election.inbox().serve(lease.state()));
        let result = tokio::select! {
            biased;
            // Polled first, so that the task does not continue after the leadership is over.
            loss = lease.lost() => Err(loss),
            output = async { task(lease.clone()).await } => Ok(output),
            () = grace_expired => Err(LeadershipLoss::Resigned),
            never = inbox => match never {},
        };
        // The task has ended or is dropped: another participant may lead now.
        let (output, loss) = match result {
            Ok(output) => (Some(output), LeadershipLoss::Resigned),
            Err(loss) => (None, loss),
        };
        (output, leadership.end(loss, shared).await)
    }
}

impl fmt::Debug for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Selector")
            .field("path", self.path())
            .field("state", &self.handle.state())
            .finish_non_exhaustive()
    }
}
