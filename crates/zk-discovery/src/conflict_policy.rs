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
pub(crate) enum ConflictAction {
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
pub(crate) struct ConflictContext<'a> {
    pub(crate) session: SessionId,
    /// Earlier sessions of the same process, which are over for it.
    pub(crate) previous: &'a [SessionId],
    pub(crate) policy: WhenTaken,
    /// Whether this node would be gone if this session were removing it.
    pub(crate) has_settled: bool,
    pub(crate) waited: Duration,
}

impl ConflictContext<'_> {
    /// Decides about a node with this owner.
    pub(crate) fn decide(&self, owner: Option<SessionId>) -> ConflictAction {
        match (owner, self.policy) {
            (Some(owner), _) if owner == self.session => {
                if self.has_settled {
                    ConflictAction::Refuse
                } else {
                    ConflictAction::Settle
                }
            }
            (Some(owner), _) if self.previous.contains(&owner) => ConflictAction::Remove,
            (Some(_), WhenTaken::WaitFor(limit)) if self.waited < limit => {
                ConflictAction::Wait(limit.saturating_sub(self.waited))
            }
            // Without an owner it does not go by itself.
            (Some(_) | None, _) => ConflictAction::Refuse,
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
            (None, wait, false, 0, ConflictAction::Refuse),
            (None, WhenTaken::Refuse, true, 0, ConflictAction::Refuse),
            (Some(ours), wait, false, 0, ConflictAction::Settle),
            (
                Some(ours),
                WhenTaken::Refuse,
                false,
                0,
                ConflictAction::Settle,
            ),
            (Some(ours), wait, true, 0, ConflictAction::Refuse),
            (Some(earlier), wait, false, 0, ConflictAction::Remove),
            (
                Some(earlier),
                WhenTaken::Refuse,
                true,
                9,
                ConflictAction::Remove,
            ),
            (
                Some(other),
                WhenTaken::Refuse,
                false,
                0,
                ConflictAction::Refuse,
            ),
            (
                Some(other),
                wait,
                false,
                0,
                ConflictAction::Wait(3 * second),
            ),
            (Some(other), wait, true, 2, ConflictAction::Wait(second)),
            (Some(other), wait, true, 3, ConflictAction::Refuse),
        ] {
            let context = ConflictContext {
                session: ours,
                previous: &[earlier],
                policy,
                has_settled,
                waited: waited * second,
            };
            assert_eq!(context.decide(owner), expected, "{owner:?} {context:?}");
        }
    }
}
