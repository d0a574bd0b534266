//! Decides what to do about an existing node at the path of an instance that is being registered.
//!
//! Pure: no I/O and no clock.

use std::time::Duration;

use zk_core::SessionId;

/// What to do when the node of an instance belongs to another live session.
///
/// Usually this is the session of the same service before a restart, which has not expired yet.
/// The node is never taken over silently: its owner may be alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WhenTaken {
    /// Fail at once.
    Refuse,
    /// Wait until the node is gone, for at most this long.
    ///
    /// The time restarts when the connection breaks: an election gives all sessions their full timeout again, and a
    /// client without a connection does not see that a node is gone.
    WaitFor(Duration),
}

/// The next action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConflictAction {
    /// Fail: the node belongs to another owner and stays.
    Refuse,
    /// The node is ours and may be in removal: wait for that.
    Settle,
    /// The node belongs to an earlier session of this process: remove exactly this node.
    Remove,
    /// The node may go away: wait this long.
    Wait(Duration),
}

/// The state of the registration that found the node.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConflictContext<'a> {
    pub(crate) session: SessionId,
    /// Earlier sessions of this process, which it has given up.
    pub(crate) previous: &'a [SessionId],
    pub(crate) policy: WhenTaken,
    /// Whether this session has finished its removals, so that it is not removing this node.
    pub(crate) has_settled: bool,
    pub(crate) waited: Duration,
}

impl ConflictContext<'_> {
    /// Decides what to do about a node with this owner.
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
            // A node without an owner stays until it is deleted.
            (Some(_) | None, _) => ConflictAction::Refuse,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
