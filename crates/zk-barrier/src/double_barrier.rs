//! A double barrier: members wait for each other when they enter and when they leave.

use std::num::NonZeroU32;
use std::time::Duration;

use tokio::time::Instant;
use zk_core::{IntoNodePath, NodePath, ParsePathError, Session};

use crate::error::EnterError;
use crate::layout::Layout;
use crate::member::Member;
use crate::recipe::{self, RecipeNodes};
use crate::rounds;
use crate::rounds::nodes::RoundNodes;
use crate::wait::bounded;

/// A double barrier: members start together, and finish together.
///
/// [`enter`](Self::enter) returns once enough members are there. [`Member::leave`] returns once all of them have left or
/// died. Then the next round begins on the same path, with any members.
///
/// The number of members is a threshold and not a limit: members that come while the round goes on join it.
/// All handles should have the same threshold; the smallest one opens the round.
///
/// Clones are the same barrier, and each call of `enter` is a member of its own, also within one process.
///
/// ```no_run
/// # async fn demo(session: zk_core::Session) -> Result<(), Box<dyn std::error::Error>> {
/// use std::num::NonZeroU32;
/// use zk_barrier::DoubleBarrier;
///
/// const WORKERS: NonZeroU32 = NonZeroU32::new(8).unwrap();
///
/// let barrier = DoubleBarrier::new(&session, "/jobs/step", WORKERS)?;
/// for step in 0..10 {
///     let member = barrier.enter().await?;
///     println!("step {step} begins in all workers: {}", member.path());
///     member.leave().await?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct DoubleBarrier {
    session: Session,
    path: NodePath,
    layout: Layout,
    threshold: NonZeroU32,
    description: Vec<u8>,
}

impl DoubleBarrier {
    /// Creates a handle to the double barrier at `path`, whose rounds begin with `threshold` members. Sends no request.
    ///
    /// # Errors
    ///
    /// If `path` is not a valid node path.
    pub fn new(
        session: &Session,
        path: impl IntoNodePath,
        threshold: NonZeroU32,
    ) -> Result<Self, ParsePathError> {
        Ok(Self {
            session: session.clone(),
            path: path.into_node_path()?,
            layout: Layout::default(),
            threshold,
            description: Vec::new(),
        })
    }

    /// Sets the layout of the nodes, to share the path with members of Curator or kazoo. Default: [`Layout::Rounds`].
    #[must_use]
    pub const fn with_layout(mut self, layout: Layout) -> Self {
        self.layout = layout;
        self
    }

    /// Sets the data of the nodes of members, for people who read them. Default: empty.
    #[must_use]
    pub fn with_description(mut self, description: impl Into<Vec<u8>>) -> Self {
        self.description = description.into();
        self
    }

    /// Returns the path of the barrier.
    pub fn path(&self) -> &NodePath {
        &self.path
    }

    /// Returns how many members a round begins with.
    pub fn threshold(&self) -> u32 {
        self.threshold.get()
    }

    /// Joins the round, and waits until enough members are in it.
    ///
    /// It returns `Ok` only if the round was opened with this member in it, or if the member that opened it was still in
    /// it when this one joined. If the opener has left, this member waits for the next round.
    /// See the [guarantees](crate#guarantees).
    /// It waits as long as the session lives, over connection losses.
    ///
    /// # Errors
    ///
    /// [`EnterError`]. In each case the member's node is removed.
    ///
    /// # Cancel safety
    ///
    /// Safe: the member's node is removed in the background. To others this looks like a member that died; a round may be
    /// opened that counted it a moment earlier.
    ///
    /// # Cost
    ///
    /// One write and two reads in one round trip, and two reads when the round is opened. The member that completes the
    /// round writes once more. One watch; one notification. No list, except by a member that comes after the opener is
    /// gone, and waits like one that leaves.
    pub async fn enter(&self) -> Result<Member, EnterError> {
        self.enter_by(None).await
    }

    /// Enters like [`enter`](Self::enter), and withdraws if the round is not open after `timeout`.
    ///
    /// A member that withdraws is not counted: [`EnterError::TimedOut`] is returned only if no round was or will be
    /// opened that counts it. If the round is opened at the last moment, the member is returned.
    /// [`Layout::Recipe`] cannot guarantee this.
    /// Without a connection the call may last longer, by the session's operation timeout.
    /// A timeout of zero enters only if the member completes the round, or joins one that is open.
    ///
    /// # Errors
    ///
    /// [`EnterError`]. [`OutcomeUnknown`](EnterError::OutcomeUnknown) if the withdrawal is not confirmed within the
    /// session's operation timeout. Cancel safety is that of [`enter`](Self::enter).
    ///
    /// # Cost
    ///
    /// That of [`enter`](Self::enter), and one write to withdraw, which wakes no other member.
    pub async fn enter_timeout(&self, timeout: Duration) -> Result<Member, EnterError> {
        self.enter_by(Instant::now().checked_add(timeout)).await
    }

    async fn enter_by(&self, deadline: Option<Instant>) -> Result<Member, EnterError> {
        // Requests are repeated as long as the session lives. With a deadline, the whole call has a limit.
        let session = &self.session.with_operation_timeout(Duration::MAX);
        let limit =
            deadline.and_then(|deadline| deadline.checked_add(self.session.operation_timeout()));
        let threshold = self.threshold.get();
        let outcome_unknown = || EnterError::OutcomeUnknown {
            path: self.path.clone(),
        };
        let description = self.description.as_slice();
        Ok(match self.layout {
            Layout::Rounds => {
                let nodes = RoundNodes::below(&self.path);
                let entering = rounds::enter::RoundEntering {
                    session,
                    nodes: &nodes,
                    threshold,
                    description,
                    deadline,
                };
                let entered = bounded(limit, Box::pin(entering.enter())).await;
                let entered = entered.unwrap_or_else(|| Err(outcome_unknown()))?;
                Member::of_round(&self.session, nodes, entered)
            }
            Layout::Recipe => {
                let nodes = RecipeNodes::below(&self.path);
                let entering = recipe::enter::RecipeEntering {
                    session,
                    nodes: &nodes,
                    threshold,
                    description,
                    deadline,
                };
                let entered = bounded(limit, Box::pin(entering.enter())).await;
                let entered = entered.unwrap_or_else(|| Err(outcome_unknown()))?;
                Member::of_recipe(&self.session, nodes, entered)
            }
        })
    }
}
