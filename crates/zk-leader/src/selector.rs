//! The selector: run this while I lead.

use std::fmt;
use std::ops::ControlFlow;

use zk_core::Error;
use zk_core::NodePath;
use zk_core::ParsePathError;
use zk_core::Session;
use zk_lock::FencingToken;
use zk_lock::Guard;
use zk_lock::Layout;

use crate::election::Election;
use crate::error::End;
use crate::error::Loss;
use crate::lease::Lease;
use crate::lease::Tenure;
use crate::options::ElectionOptions;
use crate::participant::Participant;
use crate::state::Handle;
use crate::state::Mover;
use crate::state::Standing;
use crate::state::State;

/// A participant of an election that runs a task while it leads.
///
/// It joins when it is run, and one that was run is used up; making another one costs nothing.
/// [`handle`](Self::handle) tells others about it, and lets them ask it to resign.
///
/// # Dropping
///
/// Nothing happens, but that its handles are told that it [left](End::Left).
///
/// # Examples
///
/// ```no_run
/// # async fn reconcile(_: &zk_leader::Lease) -> bool { true }
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
    mover: Mover,
    handle: Handle,
}

impl Selector {
    /// Makes a participant of the election at `path`, with default options.
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

    /// Makes a participant of the election at `path`.
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
        let standing = Standing::new();
        Ok(Self {
            election: Election::new(session, path, options, Layout::curator())?,
            handle: Handle::new(session, &standing),
            mover: Mover::new(standing, End::Left),
        })
    }

    /// Returns the path of the election.
    pub fn path(&self) -> &NodePath {
        self.election.path()
    }

    /// Returns the session whose ensemble keeps the election.
    pub fn session(&self) -> &Session {
        self.election.session()
    }

    /// Returns a view of this participant for others.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Runs `task` whenever this participant leads, until the task breaks.
    ///
    /// When the task ends, the participant has resigned: its node is removed, and with
    /// [`Continue`](ControlFlow::Continue) it gets in line again, at the end.
    /// As soon as the leadership is over, or no longer known to last, the task is dropped where it stands, which is at one
    /// of its awaits: code between two awaits is not interrupted, and neither is what it has spawned.
    /// Only then the node is given up, so that the next one does not lead before the task is gone, unless the process is
    /// stopped or the task does not come to an await for so long that the session expires; against that the
    /// [token](Lease::fencing_token) helps.
    ///
    /// # Errors
    ///
    /// The reason why it will not lead again.
    /// With [`Rejoin::Never`](crate::Rejoin::Never) a leadership that is lost is one, too.
    ///
    /// # Cancel safety
    ///
    /// Safe, the task is dropped and the participant leaves; its node is removed in the background.
    ///
    /// # Session loss
    ///
    /// [`End::SessionLost`], after the task was dropped.
    ///
    /// # Cost
    ///
    /// One round trip to get in line, two watches while it waits, and one round trip to resign.
    pub async fn run<B, F>(self, mut task: impl FnMut(Lease) -> F) -> Result<B, End>
    where
        F: Future<Output = ControlFlow<B>>,
    {
        self.ended_by(async |selector: &Self| {
            loop {
                let guard = selector.win().await?;
                let loss = match selector.lead(guard, &mut task).await {
                    // That is a decision and no result: it stands, however the leadership ended.
                    (Some(ControlFlow::Break(value)), _) => return Ok(value),
                    (_, loss) => loss,
                };
                if let Some(end) = selector.election.end_after(loss, &selector.mover.standing) {
                    return Err(end);
                }
            }
        })
        .await
    }

    /// Runs `task` once, when this participant leads, and resigns.
    ///
    /// The task is dropped as [`run`](Self::run) says.
    ///
    /// # Errors
    ///
    /// Those of [`run`](Self::run), and [`End::LeadershipLost`] when the task was dropped, or had just ended when the
    /// leadership turned out to be lost: its result is dropped then, since it may not have led all the time.
    ///
    /// # Cancel safety
    ///
    /// Safe, the task is dropped and the participant leaves; its node is removed in the background.
    ///
    /// # Session loss
    ///
    /// [`End::SessionLost`], after the task was dropped.
    ///
    /// # Cost
    ///
    /// That of [`run`](Self::run).
    pub async fn run_once<T, F>(self, task: impl FnOnce(Lease) -> F) -> Result<T, End>
    where
        F: Future<Output = T>,
    {
        self.ended_by(async |selector: &Self| {
            let guard = selector.win().await?;
            match selector.lead(guard, task).await {
                (Some(output), Loss::Resigned) => Ok(output),
                (_, Loss::SessionLost) => Err(End::SessionLost),
                _ if selector.mover.standing.is_leaving() => Err(End::Left),
                (_, loss) => Err(End::LeadershipLost(loss)),
            }
        })
        .await
    }

    /// Lists who takes part, the leader first, the others in the order in which they will lead.
    ///
    /// See [`LeaderLatch::participants`](crate::LeaderLatch::participants), also for errors and cost.
    ///
    /// # Errors
    ///
    /// When the path or one of the nodes cannot be read.
    ///
    /// # Cancel safety
    ///
    /// Safe, nothing happened.
    ///
    /// # Session loss
    ///
    /// A fatal error.
    pub async fn participants(&self) -> Result<Vec<Participant>, Error> {
        self.election.participants().await
    }

    /// Returns the first in line, who leads or is about to; `None` when nobody takes part.
    ///
    /// # Errors
    ///
    /// When the path or one of the nodes cannot be read.
    ///
    /// # Cancel safety
    ///
    /// Safe, nothing happened.
    ///
    /// # Session loss
    ///
    /// A fatal error.
    pub async fn leader(&self) -> Result<Option<Participant>, Error> {
        self.election.leader().await
    }

    /// Waits for a leader after the one with the token `before`, or for any leader with `None`.
    ///
    /// See [`LeaderLatch::leader_after`](crate::LeaderLatch::leader_after).
    ///
    /// # Errors
    ///
    /// When it cannot look at the election.
    ///
    /// # Cancel safety
    ///
    /// Safe, nothing happened.
    ///
    /// # Session loss
    ///
    /// A fatal error.
    pub async fn leader_after(&self, before: Option<FencingToken>) -> Result<Participant, Error> {
        self.election.leader_after(before).await
    }

    /// Tells the handles how it ended.
    async fn ended_by<T>(self, run: impl AsyncFnOnce(&Self) -> Result<T, End>) -> Result<T, End> {
        let result = run(&self).await;
        if let Err(end) = &result {
            self.mover.standing.set(State::Ended(end.clone()));
        }
        result
    }

    /// Waits for the leadership, or until somebody wants this participant to leave.
    async fn win(&self) -> Result<Guard, End> {
        let standing = &self.mover.standing;
        tokio::select! {
            biased;
            () = standing.leaving() => Err(End::Left),
            // Boxed, so that the future of a run stays small.
            won = Box::pin(self.election.win(standing)) => won,
        }
    }

    /// Runs the task under the leadership, and gives it up after that.
    async fn lead<T, F>(&self, guard: Guard, task: impl FnOnce(Lease) -> F) -> (Option<T>, Loss)
    where
        F: Future<Output = T>,
    {
        let standing = &self.mover.standing;
        let tenure = Tenure::begin(self.session(), guard);
        let lease = tenure.lease();
        standing.set(State::Leading(lease.clone()));
        let overdue = async {
            tokio::select! {
                biased;
                () = lease.term().unwanted() => {}
                () = standing.leaving() => lease.term().unwant(),
            }
            let grace = std::future::pending::<()>();
            drop(tokio::time::timeout(self.election.grace(), grace).await);
        };
        let led = tokio::select! {
            biased;
            // First, so that nothing of the task is run when it is over already.
            loss = lease.lost() => Err(loss),
            output = async { task(lease.clone()).await } => Ok(output),
            () = overdue => Err(Loss::Resigned),
        };
        // By now the task is dropped, if it has not ended: only then another one may lead.
        let (output, loss) = match led {
            Ok(output) => (Some(output), Loss::Resigned),
            Err(loss) => (None, loss),
        };
        (output, tenure.end(loss, standing).await)
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
