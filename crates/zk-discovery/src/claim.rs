//! What is to be done about a node that is where an instance is to be registered.
//!
//! Pure: no I/O and no clock.

use std::time::Duration;

use zk_core::SessionId;

/// What to do when the node of an instance belongs to another live session.
///
/// Mostly that is the session that the same service had before it was started anew, and which has not expired yet.
/// The node is never taken over silently: whoever it belongs to may be alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WhenTaken {
    /// Refuse at once.
    Refuse,
    /// Wait until it is gone, for so long at most.
    ///
    /// The time begins anew when the connection breaks meanwhile: an election gives all sessions their whole timeout again,
    /// and without a connection nobody sees a node go.
    WaitFor(Duration),
}

/// What is to be done next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// It is somebody else's, and stays so.
    Refuse,
    /// It is ours, and maybe being removed: wait for that.
    Settle,
    /// It is ours of an earlier session: remove exactly this node.
    Remove,
    /// It may go: wait for so long.
    Wait(Duration),
}

/// Who asks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Claimant<'a> {
    pub(crate) session: SessionId,
    /// Earlier sessions of the same process, which are over for it.
    pub(crate) previous: &'a [SessionId],
    pub(crate) policy: WhenTaken,
    /// Whether this node would be gone if this session were removing it.
    pub(crate) has_settled: bool,
    pub(crate) waited: Duration,
}

impl Claimant<'_> {
    /// Decides about a node with this owner.
    pub(crate) fn decide(&self, owner: Option<SessionId>) -> Step {
        match (owner, self.policy) {
            (Some(owner), _) if owner == self.session => {
                if self.has_settled {
                    Step::Refuse
                } else {
                    Step::Settle
                }
            }
            (Some(owner), _) if self.previous.contains(&owner) => Step::Remove,
            (Some(_), WhenTaken::WaitFor(limit)) if self.waited < limit => {
                Step::Wait(limit.saturating_sub(self.waited))
            }
            // Without an owner it does not go by itself.
            (Some(_) | None, _) => Step::Refuse,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Trap P2.
    // covers: D1
    #[test]
    fn only_a_node_of_an_earlier_session_of_ours_is_removed() {
        let [ours, earlier, other] = [1, 2, 3].map(SessionId::from_i64);
        let second = Duration::from_secs(1);
        let wait = WhenTaken::WaitFor(3 * second);
        for (owner, policy, has_settled, waited, expected) in [
            (None, wait, false, 0, Step::Refuse),
            (None, WhenTaken::Refuse, true, 0, Step::Refuse),
            (Some(ours), wait, false, 0, Step::Settle),
            (Some(ours), WhenTaken::Refuse, false, 0, Step::Settle),
            (Some(ours), wait, true, 0, Step::Refuse),
            (Some(earlier), wait, false, 0, Step::Remove),
            (Some(earlier), WhenTaken::Refuse, true, 9, Step::Remove),
            (Some(other), WhenTaken::Refuse, false, 0, Step::Refuse),
            (Some(other), wait, false, 0, Step::Wait(3 * second)),
            (Some(other), wait, true, 2, Step::Wait(second)),
            (Some(other), wait, true, 3, Step::Refuse),
        ] {
            let claimant = Claimant {
                session: ours,
                previous: &[earlier],
                policy,
                has_settled,
                waited: waited * second,
            };
            assert_eq!(claimant.decide(owner), expected, "{owner:?} {claimant:?}");
        }
    }
}
