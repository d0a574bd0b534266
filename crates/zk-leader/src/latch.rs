//! The latch: reports whether a participant leads.

use std::ops::Deref;
use std::sync::Arc;

use tokio::task::AbortHandle;
use zk_core::{Error, IntoNodePath, NodePath, ParsePathError, Session, SessionBound};
use zk_lock::{FencingToken, Layout};

use crate::election::Election;
use crate::error::{LeadershipLoss, ParticipantEnd};
use crate::leadership::Leadership;
use crate::options::ElectionOptions;
use crate::participant::Participant;
use crate::state::{ParticipantHandle, ParticipantState, SharedState, StateOwner};
use crate::step_down::RequestStepDown;

/// An election at a path whose participants report whether they lead.
///
/// Creating and cloning one sends no request. Each [`join`](Self::join) creates a participant.
///
/// # Examples
///
/// ```no_run
/// # async fn tick() {}
/// # async fn demo(session: zk_core::Session) -> Result<(), Box<dyn std::error::Error>> {
/// use zk_leader::LeaderLatch;
///
/// let participant = LeaderLatch::new(&session, "/leaders/billing")?.join();
/// loop {
///     let lease = participant.leading().await?;
///     while lease.is_valid() {
///         tick().await;
///     }
/// }
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct LeaderLatch {
    election: Election,
}

impl LeaderLatch {
    /// Creates a handle to the election at `path`, with default options.
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

    /// Creates a handle to the election at `path`.
    ///
    /// # Errors
    ///
    /// If `path` is not a valid node path.
    pub fn with_options(
        session: &Session,
        path: impl IntoNodePath,
        options: &ElectionOptions,
    ) -> Result<Self, ParsePathError> {
        let election = Election::new(session, path, options, Layout::curator_latch())?;
        Ok(Self { election })
    }

    /// Returns the path of the election.
    pub fn path(&self) -> &NodePath {
        self.election.path()
    }

    /// Returns the session of the participants.
    pub fn session(&self) -> &Session {
        self.election.session()
    }

    /// Joins the election in the background: at once, or as soon as there is a connection.
    ///
    /// The task of the participant runs on the runtime of the session.
    ///
    /// # Cost
    ///
    /// One round trip to join, and two watches while it waits: on its predecessor and on its own node.
    pub fn join(&self) -> LatchParticipant {
        let shared = SharedState::new();
        let owner = StateOwner::new(Arc::clone(&shared), ParticipantEnd::Stopped);
        let running = self.session().spawn(run(self.election.clone(), owner));
        LatchParticipant {
            handle: ParticipantHandle::new(self.session(), &shared),
            shared,
            running: running.abort_handle(),
        }
    }

    /// Starts a request to the present leader to step down. Any process that knows the path may ask, also without a
    /// participant.
    ///
    /// Leaders receive requests if their [options](ElectionOptions::with_step_down) say so.
    pub fn request_step_down(&self) -> RequestStepDown {
        RequestStepDown::new(self.election.clone())
    }

    /// Lists the participants: the leader first, then the waiters in the order in which they will lead.
    ///
    /// The result may be outdated: the list is read first and each node afterwards, from a server that may lag.
    /// Participants that leave meanwhile are omitted.
    /// Foreign children of the path are ignored.
    ///
    /// # Errors
    ///
    /// If the path or one of the nodes cannot be read. A missing path is not an error: the election has no
    /// participants.
    ///
    /// # Cost
    ///
    /// One round trip for the list, and one for every 64 participants, which are read concurrently.
    pub async fn participants(&self) -> Result<Vec<Participant>, Error> {
        self.election.participants().await
    }

    /// Returns the first participant, which leads or is about to, or `None` if there are no participants.
    ///
    /// # Errors
    ///
    /// Those of [`participants`](Self::participants).
    ///
    /// # Cost
    ///
    /// Two round trips for any number of participants, and one more for each that leaves at that moment.
    pub async fn leader(&self) -> Result<Option<Participant>, Error> {
        self.election.leader().await
    }

    /// Waits for a leader after the one with the token `before`, or for any leader with `None`.
    ///
    /// Call it with the token of its last result to follow the leaders. Call it with the own token after
    /// [`resign`](ParticipantHandle::resign) to wait for the successor.
    /// Leaders that resign before they are read are skipped.
    ///
    /// # Errors
    ///
    /// If the election cannot be read. Call it again with the same token to continue.
    ///
    /// # Cost
    ///
    /// That of [`leader`](Self::leader) and one round trip whenever a leader leaves, and a watch on the leader
    /// meanwhile.
    pub async fn leader_after(&self, before: Option<FencingToken>) -> Result<Participant, Error> {
        self.election.leader_after(before).await
    }
}

/// A participant of a latch's election, until it [leaves](ParticipantHandle::leave), is dropped, or its session ends.
///
/// A task runs it. It dereferences to its [handle](ParticipantHandle), which reports its state and lets it resign.
///
/// When it no longer leads, [`is_leader`](ParticipantHandle::is_leader) and the lease report that first. Its node is
/// deleted afterwards. It does not wait for the work of its user. If a leader's work must have stopped before the next
/// leader begins, use a [`Selector`](crate::Selector).
///
/// # Dropping
///
/// It reports at once that it does not lead and has [left](ParticipantEnd::Left).
/// Its node is deleted in the background; [`ParticipantHandle::leave`] waits for that.
/// If the process dies, the ensemble deletes the node when it expires the session.
#[derive(Debug)]
#[must_use = "the participant leaves when this is dropped"]
pub struct LatchParticipant {
    handle: ParticipantHandle,
    shared: Arc<SharedState>,
    running: AbortHandle,
}

impl LatchParticipant {
    /// Returns the handle of this participant, to be cloned.
    pub fn handle(&self) -> &ParticipantHandle {
        &self.handle
    }

    /// Leaves the election, see [`ParticipantHandle::leave`].
    ///
    /// # Cost
    ///
    /// One round trip.
    pub async fn leave(self) -> ParticipantEnd {
        self.handle.leave().await
    }
}

/// Lets [`Sessions::keep`](zk_core::Sessions::keep) join the election again with each session. A leadership does not go
/// on: each lease belongs to one session, and its holder ends the work before it leads again.
///
/// ```no_run
/// # async fn tick() {}
/// # async fn demo(sessions: zk_core::Sessions) -> Result<(), zk_core::SessionsEnd> {
/// use zk_leader::LeaderLatch;
///
/// let participants = sessions.keep(async |session| {
///     Ok::<_, zk_core::ParsePathError>(LeaderLatch::new(&session, "/leaders/billing")?.join())
/// });
/// loop {
///     let participant = participants.ready().await?;
///     // Ends with the session; the next one has a participant of its own.
///     while let Ok(lease) = participant.leading().await {
///         while lease.is_valid() {
///             tick().await;
///         }
///     }
/// }
/// # }
/// ```
impl SessionBound for LatchParticipant {
    type Loss = ParticipantEnd;

    async fn lost(&self) -> ParticipantEnd {
        self.ended().await
    }
}

impl Deref for LatchParticipant {
    type Target = ParticipantHandle;

    fn deref(&self) -> &ParticipantHandle {
        &self.handle
    }
}

impl Drop for LatchParticipant {
    fn drop(&mut self) {
        // The task may be running on another thread at this moment, and ends at its next await.
        let lease = self.handle.lease();
        self.shared
            .set(ParticipantState::Ended(ParticipantEnd::Left));
        if let Some(lease) = lease {
            lease.state().abandon(LeadershipLoss::Resigned);
        }
        self.running.abort();
    }
}

/// Runs a participant until it ends.
async fn run(election: Election, owner: StateOwner) {
    let shared = &*owner.shared;
    let end = loop {
        let won = tokio::select! {
            biased;
            () = shared.leaving() => Err(ParticipantEnd::Left),
            won = election.win(shared) => won,
        };
        let leadership = match won {
            Ok(guard) => Leadership::begin(election.session(), election.acl(), guard),
            Err(end) => break end,
        };
        let lease = leadership.lease();
        shared.set(ParticipantState::Leading(lease.clone()));
        let loss = tokio::select! {
            biased;
            loss = lease.lost() => loss,
            () = lease.state().resign_requested() => LeadershipLoss::Resigned,
            () = shared.leaving() => LeadershipLoss::Resigned,
            never = election.inbox().serve(lease.state()) => match never {},
        };
        let loss = leadership.end(loss, shared).await;
        if let Some(end) = election.end_after(loss, shared) {
            break end;
        }
    };
    shared.set(ParticipantState::Ended(end));
}
