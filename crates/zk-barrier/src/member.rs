//! A member that has entered a double barrier.

use std::fmt;
use std::time::Duration;

use tokio::time::Instant;
use zk_core::{NodePath, OwnedNode, Session, Stat, Transaction};

use crate::error::{LeaveError, MemberLoss};
use crate::recipe::{self, RecipeNodes};
use crate::rounds;
use crate::rounds::nodes::RoundNodes;
use crate::wait::bounded;

/// A member of a round, from [`DoubleBarrier::enter`](crate::DoubleBarrier::enter).
///
/// The member is in the round until it leaves, is dropped, or its session ends. The others wait for it until then.
///
/// A member does not stop time. If its process is paused or cut off for longer than the session timeout, the ensemble
/// removes it, and the others may finish the round and begin the next one while its code is still running.
/// [`lost`](Self::lost) notifies of the loss, and [`txn`](Self::txn) makes a write to ZooKeeper fail then.
///
/// # Dropping
///
/// The member leaves without waiting for the others. The node is removed in the background, as
/// [`OwnedNode`] is; if the process dies, with the session.
#[must_use = "the member leaves when this is dropped"]
pub struct Member {
    round: MemberRound,
    session: Session,
    path: NodePath,
    stat: Stat,
    node: OwnedNode,
}

/// The round of a member, in either layout.
enum MemberRound {
    Rounds {
        nodes: RoundNodes,
        czxid: i64,
        opener: String,
    },
    Recipe {
        nodes: RecipeNodes,
        ready: Option<i64>,
    },
}

impl Member {
    pub(crate) fn of_round(
        session: &Session,
        nodes: RoundNodes,
        entered: rounds::enter::RoundEntered,
    ) -> Self {
        let round = MemberRound::Rounds {
            nodes,
            czxid: entered.round,
            opener: entered.opening.opener,
        };
        Self::new(session, round, entered.node)
    }

    pub(crate) fn of_recipe(
        session: &Session,
        nodes: RecipeNodes,
        entered: recipe::enter::RecipeEntered,
    ) -> Self {
        let ready = entered.ready;
        Self::new(session, MemberRound::Recipe { nodes, ready }, entered.node)
    }

    fn new(session: &Session, round: MemberRound, node: OwnedNode) -> Self {
        tracing::debug!(path = %node.path(), "entered");
        Self {
            round,
            session: session.clone(),
            path: node.path().clone(),
            stat: *node.stat(),
            node,
        }
    }

    /// Returns the path of the member's node.
    pub fn path(&self) -> &NodePath {
        &self.path
    }

    /// Returns a number that all members of the round see, and that is higher for every later round on the path.
    ///
    /// A resource that remembers the highest number it has seen and refuses lower ones is safe from late writes of members
    /// of earlier rounds.
    /// Returns `None` with [`Layout::Recipe`](crate::Layout::Recipe), whose rounds have no number.
    pub fn round(&self) -> Option<i64> {
        match self.round {
            MemberRound::Rounds { czxid, .. } => Some(czxid),
            MemberRound::Recipe { .. } => None,
        }
    }

    /// Waits until the member is not in the round any more although it has not left.
    ///
    /// # Session loss
    ///
    /// Returned as [`MemberLoss::SessionLost`].
    ///
    /// # Cost
    ///
    /// One watch and one read.
    pub async fn lost(&self) -> MemberLoss {
        loop {
            let gone = self.session.wait_for_deletion(&self.path);
            match gone.created_by(self.stat.czxid).await {
                Ok(()) if self.session.is_over().await => return MemberLoss::SessionLost,
                Ok(()) => return MemberLoss::NodeDeleted,
                Err(error) if error.is_fatal() => return MemberLoss::SessionLost,
                Err(error) => {
                    tracing::warn!(path = %self.path, %error, "a member is not watched: its deletion would not be noticed");
                    self.session.pause(self.session.session_timeout() / 3).await;
                }
            }
        }
    }

    /// Starts a transaction that fails unless the member is in the round when the ensemble executes it.
    ///
    /// Its first part checks the member's node. If the member is gone, the transaction changes nothing. Its error is
    /// [`NoNode`](zk_core::ErrorKind::NoNode) with a [`failed_part`](zk_core::Error::failed_part) of zero, or a fatal
    /// error.
    pub fn txn(&self) -> Transaction {
        self.session.transaction().check(&self.path)
    }

    /// Leaves, and waits until no member is in the round any more: each has left, or its session is over.
    ///
    /// The member stops being in the round at once, also if the call fails later; the one that opened the round stays in
    /// it, to others, until they have left or the call ends.
    /// It waits as long as the session lives, over connection losses.
    ///
    /// A call that ends with [`LeaveError::TimedOut`], or is dropped, does not end the round. If the same process then
    /// enters again while the one that opened the round is there, it joins the same round: compare
    /// [`round`](Self::round).
    ///
    /// # Errors
    ///
    /// [`LeaveError`]. The member has left in each case, or leaves in the background.
    ///
    /// # Cancel safety
    ///
    /// Safe: the member leaves in the background, and does not wait for the others. The next member that enters or leaves
    /// ends the round.
    ///
    /// # Cost
    ///
    /// One write and two reads; one watch and one notification. The member that opened the round stays in it to the last:
    /// it lists the members, and again about as often as the logarithm of their number. If that member dies, each member
    /// that waits lists the remaining ones and waits for the lowest of their names, and again when that one has left:
    /// also about a logarithm of times.
    pub async fn leave(self) -> Result<(), LeaveError> {
        self.leave_by(None).await
    }

    /// Leaves like [`leave`](Self::leave), and waits at most for `timeout`.
    ///
    /// # Errors
    ///
    /// [`LeaveError`]. With [`TimedOut`](LeaveError::TimedOut) this member has left, and others have not. Cancel safety
    /// and cost are those of [`leave`](Self::leave).
    pub async fn leave_timeout(self, timeout: Duration) -> Result<(), LeaveError> {
        self.leave_by(Instant::now().checked_add(timeout)).await
    }

    async fn leave_by(self, deadline: Option<Instant>) -> Result<(), LeaveError> {
        let begin = Instant::now();
        let Self {
            round,
            session,
            path,
            node,
            ..
        } = self;
        let session = session.with_operation_timeout(Duration::MAX);
        let left = bounded(deadline, async {
            match round {
                MemberRound::Rounds {
                    nodes,
                    czxid,
                    opener,
                } => Box::pin(rounds::leave::leave(&session, &nodes, czxid, node, &opener)).await,
                MemberRound::Recipe { nodes, ready } => {
                    Box::pin(recipe::leave::leave(&session, &nodes, node, ready)).await
                }
            }
        });
        match left.await {
            Some(left) => Ok(left?),
            None => Err(LeaveError::TimedOut {
                path: path.parent().unwrap_or(path),
                waited: begin.elapsed(),
            }),
        }
    }
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Member")
            .field("path", &self.path)
            .field("round", &self.round())
            .finish_non_exhaustive()
    }
}
