//! The latch: am I the leader?

use std::fmt;
use std::sync::Arc;

use tokio::task::AbortHandle;
use zk_core::Error;
use zk_core::NodePath;
use zk_core::ParsePathError;
use zk_core::Session;
use zk_lock::FencingToken;
use zk_lock::Layout;

use crate::election::Election;
use crate::error::End;
use crate::error::Loss;
use crate::error::ResignError;
use crate::lease::Lease;
use crate::lease::Tenure;
use crate::options::ElectionOptions;
use crate::participant::Participant;
use crate::state::Handle;
use crate::state::Mover;
use crate::state::Standing;
use crate::state::State;

/// An election at a path, for those who want to know whether they lead.
///
/// Making one costs nothing, and neither does a clone; each [`join`](Self::join) is a participant of its own.
///
/// # Examples
///
/// ```no_run
/// # async fn tick() {}
/// # async fn demo(session: zk_core::Session) -> Result<(), Box<dyn std::error::Error>> {
/// use zk_leader::LeaderLatch;
///
/// let candidacy = LeaderLatch::new(&session, "/leaders/billing")?.join();
/// loop {
///     let lease = candidacy.leading().await?;
///     while lease.is_trusted() {
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
    /// Makes a handle to the election at `path`, with default options.
    ///
    /// The node at the path is made when it is needed, as a container where servers know containers, and so are its
    /// parents.
    /// Use the path for nothing else.
    ///
    /// # Errors
    ///
    /// When `path` is none.
    pub fn new<P>(session: &Session, path: P) -> Result<Self, ParsePathError>
    where
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        Self::with_options(session, path, &ElectionOptions::default())
    }

    /// Makes a handle to the election at `path`.
    ///
    /// # Errors
    ///
    /// When `path` is none.
    pub fn with_options<P>(
        session: &Session,
        path: P,
        options: &ElectionOptions,
    ) -> Result<Self, ParsePathError>
    where
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        let election = Election::new(session, path, options, Layout::curator_latch())?;
        Ok(Self { election })
    }

    /// Returns the path of the election.
    pub fn path(&self) -> &NodePath {
        self.election.path()
    }

    /// Returns the session whose ensemble keeps the election.
    pub fn session(&self) -> &Session {
        self.election.session()
    }

    /// Joins the election, in the background: at once, or as soon as there is a connection.
    ///
    /// The task of the participant runs on the runtime of the session.
    ///
    /// # Cost
    ///
    /// One round trip to get in line, and two watches while it waits: on the one before it, and on its own node.
    pub fn join(&self) -> Candidacy {
        let standing = Standing::new();
        let mover = Mover::new(Arc::clone(&standing), End::Stopped);
        let running = self.session().spawn(run(self.election.clone(), mover));
        Candidacy {
            handle: Handle::new(self.session(), &standing),
            standing,
            running: running.abort_handle(),
        }
    }

    /// Lists who takes part, the leader first, the others in the order in which they will lead.
    ///
    /// It is a picture of the past: the list is read, then each node, from a server that may lag behind; participants
    /// that go meanwhile are left out.
    /// Children of the path that are no participants are ignored.
    ///
    /// # Errors
    ///
    /// When the path or one of the nodes cannot be read. An election that nobody ever joined has no participants, which
    /// is no error.
    ///
    /// # Cancel safety
    ///
    /// Safe, nothing happened.
    ///
    /// # Session loss
    ///
    /// A fatal error.
    ///
    /// # Cost
    ///
    /// One round trip for the list, and one for every 64 participants, which are read at the same time.
    pub async fn participants(&self) -> Result<Vec<Participant>, Error> {
        self.election.participants().await
    }

    /// Returns the first in line, who leads or is about to; `None` when nobody takes part.
    ///
    /// # Errors
    ///
    /// Those of [`participants`](Self::participants).
    ///
    /// # Cancel safety
    ///
    /// Safe, nothing happened.
    ///
    /// # Session loss
    ///
    /// A fatal error.
    ///
    /// # Cost
    ///
    /// Two round trips, whatever the number of participants; one more for each one that goes just then.
    pub async fn leader(&self) -> Result<Option<Participant>, Error> {
        self.election.leader().await
    }

    /// Waits for a leader after the one with the token `before`, or for any leader with `None`.
    ///
    /// Called with the token of its last answer, it follows who leads; called with one's own after
    /// [`resign`](Handle::resign), it waits for a successor.
    /// Leaders that are gone again before it has looked are left out.
    ///
    /// # Errors
    ///
    /// When it cannot look at the election. Call it again with the same token, and nothing is missed.
    ///
    /// # Cancel safety
    ///
    /// Safe, nothing happened.
    ///
    /// # Session loss
    ///
    /// A fatal error.
    ///
    /// # Cost
    ///
    /// That of [`leader`](Self::leader) and one round trip whenever a leader goes, and one watch on the leader meanwhile.
    pub async fn leader_after(&self, before: Option<FencingToken>) -> Result<Participant, Error> {
        self.election.leader_after(before).await
    }
}

/// A participant of an election, who stays in the race until it [leaves](Handle::leave), is dropped, or the session is
/// over.
///
/// A task moves it on; [`handle`](Self::handle) tells everything about it.
///
/// When it no longer leads it first says so, by [`is_leader`](Self::is_leader) and by its lease, and only then lets its
/// node go.
/// It cannot know what its user is doing, and does not wait for it: where the work of a leader must have stopped before
/// the next one begins, use a [`Selector`](crate::Selector).
///
/// # Dropping
///
/// At once it says that it does not lead, and that it [left](End::Left).
/// Its node is deleted in the background; [`Handle::leave`] waits for that.
/// If the process dies, the ensemble deletes the node when it expires the session.
#[must_use = "the participant leaves when this is dropped"]
pub struct Candidacy {
    handle: Handle,
    standing: Arc<Standing>,
    running: AbortHandle,
}

impl Candidacy {
    /// Returns a view of this participant for others.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Tells whether this participant certainly leads, see [`Handle::is_leader`].
    pub fn is_leader(&self) -> bool {
        self.handle.is_leader()
    }

    /// Waits until this participant leads, see [`Handle::leading`].
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
        self.handle.leading().await
    }

    /// Resigns and gets in line again, at the end, see [`Handle::resign`].
    ///
    /// End what is done as the leader before.
    ///
    /// # Errors
    ///
    /// Those of [`Handle::resign`].
    ///
    /// # Cancel safety
    ///
    /// It goes on by itself.
    ///
    /// # Session loss
    ///
    /// [`ResignError::Lost`].
    ///
    /// # Cost
    ///
    /// One round trip.
    pub async fn resign(&self) -> Result<(), ResignError> {
        self.handle.resign().await
    }

    /// Leaves the election, see [`Handle::leave`].
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
    /// One round trip.
    pub async fn leave(self) -> End {
        self.handle.leave().await
    }
}

impl Drop for Candidacy {
    fn drop(&mut self) {
        // The task may be running on another thread right now, and ends at its next await.
        let lease = self.handle.lease();
        self.standing.set(State::Ended(End::Left));
        if let Some(lease) = lease {
            lease.term().abandon(Loss::Resigned);
        }
        self.running.abort();
    }
}

impl fmt::Debug for Candidacy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Candidacy")
            .field(&self.handle.state())
            .finish()
    }
}

/// Moves a participant on until it is out of the race.
async fn run(election: Election, mover: Mover) {
    let standing = &*mover.standing;
    let end = loop {
        let won = tokio::select! {
            biased;
            () = standing.leaving() => Err(End::Left),
            won = election.win(standing) => won,
        };
        let tenure = match won {
            Ok(guard) => Tenure::begin(election.session(), guard),
            Err(end) => break end,
        };
        let lease = tenure.lease();
        standing.set(State::Leading(lease.clone()));
        let loss = tokio::select! {
            biased;
            loss = lease.lost() => loss,
            () = lease.term().unwanted() => Loss::Resigned,
            () = standing.leaving() => Loss::Resigned,
        };
        let loss = tenure.end(loss, standing).await;
        if let Some(end) = election.end_after(loss, standing) {
            break end;
        }
    };
    standing.set(State::Ended(end));
}
