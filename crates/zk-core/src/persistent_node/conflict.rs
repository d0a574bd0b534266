//! Decides what to do about a node that exists at the path of a persistent node and was not created just now.
//!
//! Pure: no I/O and no clock.

use zk_wire::SessionId;

/// What to do about the existing node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Conflict {
    /// It is what the handle keeps: use it.
    Adopt,
    /// It is an ephemeral node of an earlier session of the handle, which is lost to the client but not yet expired by the
    /// servers: delete it.
    RemoveLeftover,
    /// It belongs to another owner: wait until it is gone.
    Wait,
}

/// Decides by the owner of the existing node.
///
/// An ephemeral node of another session is never taken over, even if its data is equal: it goes with that session, and
/// that session may be alive. A node without an owner is shared by all handles that keep a persistent node at its path.
pub(super) fn judge(
    wants_ephemeral: bool,
    owner: Option<SessionId>,
    previous: &[SessionId],
) -> Conflict {
    match (wants_ephemeral, owner) {
        (false, None) => Conflict::Adopt,
        (true, Some(owner)) if previous.contains(&owner) => Conflict::RemoveLeftover,
        (true, _) | (false, Some(_)) => Conflict::Wait,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_node_of_an_earlier_session_is_removed() {
        let [earlier, other] = [1, 2].map(SessionId::from_i64);
        for (wants_ephemeral, owner, expected) in [
            (true, None, Conflict::Wait),
            (true, Some(earlier), Conflict::RemoveLeftover),
            (true, Some(other), Conflict::Wait),
            (false, None, Conflict::Adopt),
            (false, Some(earlier), Conflict::Wait),
            (false, Some(other), Conflict::Wait),
        ] {
            let conflict = judge(wants_ephemeral, owner, &[earlier]);
            assert_eq!(conflict, expected, "{wants_ephemeral} {owner:?}");
        }
    }
}
