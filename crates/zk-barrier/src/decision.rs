//! What a member of a round does next, decided from what it has read.
//!
//! Pure: no I/O and no clock.

/// How a round was opened, as its state node shows it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Opening {
    /// The transaction that opened the round.
    pub(crate) zxid: i64,
    /// The name of the member that sent it.
    pub(crate) opener: String,
}

/// The round's node, read at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct RoundCount {
    /// The transaction that last added or removed a child.
    pub(crate) changed: i64,
    /// How many members are in the round.
    pub(crate) members: u32,
    /// How many members have withdrawn from it: the version of the node.
    pub(crate) withdrawals: i32,
}

/// What a member that wants to enter does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EnterStep {
    /// The round was opened with this member in it: pass.
    Pass,
    /// The round was opened before this member came: pass if the opener is in it.
    Validate,
    /// Enough members are in the round: open it, unless a member withdraws first.
    Open { withdrawals: i32 },
    /// Wait until the round is opened.
    Wait,
    /// The node was read before it showed this member: read it again.
    ReadAgain,
}

/// Decides what a member does whose node was created by transaction `own`.
pub(crate) fn enter_step(
    own: i64,
    opening: Option<&Opening>,
    count: RoundCount,
    threshold: u32,
) -> EnterStep {
    match opening {
        // It may even show an earlier round than the member's.
        _ if count.changed < own => EnterStep::ReadAgain,
        Some(opening) if opening.zxid > own => EnterStep::Pass,
        Some(_) => EnterStep::Validate,
        None if count.members >= threshold => EnterStep::Open {
            withdrawals: count.withdrawals,
        },
        None => EnterStep::Wait,
    }
}

/// What a member that leaves does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LeaveStep<'a> {
    /// No other member is left: close the round.
    Close,
    /// Stay, as the last one to leave, until this other member is gone.
    Stay { until_gone: &'a str },
    /// Go, and wait until this member is gone, which stays to the last or takes over.
    Go { until_gone: &'a str },
}

/// Decides what a member does that leaves, or has left: then `own` is `None`.
///
/// The opener stays to the last; if it is gone, the member with the lowest name that leaves next does. So all others wait
/// for one node, and that one member waits for one of the others at a time. Names are random, so the others have left in
/// random order as far as their names go: when the highest one is gone, half of the rest is, on average. The same holds
/// for the lowest one, for which those that have left wait without an opener.
pub(crate) fn leave_step<'a>(
    members: &'a [String],
    own: Option<&str>,
    opener: &'a str,
) -> LeaveStep<'a> {
    let others = || {
        members
            .iter()
            .map(String::as_str)
            .filter(|name| Some(*name) != own)
    };
    let Some(highest) = others().max() else {
        return LeaveStep::Close;
    };
    let names = || members.iter().map(String::as_str);
    let last = names()
        .find(|name| *name == opener)
        .or_else(|| names().min())
        .unwrap_or(highest);
    if Some(last) == own {
        LeaveStep::Stay {
            until_gone: highest,
        }
    } else {
        LeaveStep::Go { until_gone: last }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(zxid: i64) -> Opening {
        Opening {
            zxid,
            opener: "b".to_owned(),
        }
    }

    fn count(changed: i64, members: u32) -> RoundCount {
        RoundCount {
            changed,
            members,
            withdrawals: 3,
        }
    }

    #[test]
    fn only_members_of_the_beginning_pass_at_once() {
        let step =
            |own, opening: Option<Opening>, count| enter_step(own, opening.as_ref(), count, 2);
        assert_eq!(step(7, Some(opened(8)), count(7, 1)), EnterStep::Pass);
        assert_eq!(step(7, Some(opened(6)), count(7, 9)), EnterStep::Validate);
        assert_eq!(step(7, None, count(7, 1)), EnterStep::Wait);
        for opening in [None, Some(opened(5)), Some(opened(8))] {
            assert_eq!(step(7, opening, count(6, 2)), EnterStep::ReadAgain);
        }
        let open = EnterStep::Open { withdrawals: 3 };
        assert_eq!(step(7, None, count(7, 2)), open);
        assert_eq!(step(7, None, count(9, 5)), open);
    }

    #[test]
    fn one_member_stays_to_the_last_and_all_others_wait_for_it() {
        let all = ["a", "b", "c", "d"];
        // Every set of members, every opener, and every member that leaves or has left.
        for set in 0..1u32 << all.len() {
            let members: Vec<String> = (0..all.len())
                .filter(|at| set & (1 << at) != 0)
                .map(|at| all[at].to_owned())
                .collect();
            for opener in all {
                let last = members.iter().find(|name| *name == opener);
                let last = last.or_else(|| members.first());
                for own in [None, Some("a"), Some("b"), Some("c"), Some("d")] {
                    if own.is_some_and(|own| !members.iter().any(|name| name == own)) {
                        continue;
                    }
                    let others = members.iter().filter(|name| Some(name.as_str()) != own);
                    let step = leave_step(&members, own, opener);
                    match others.max() {
                        None => assert_eq!(step, LeaveStep::Close),
                        Some(highest) if last.map(String::as_str) == own => {
                            assert_eq!(
                                step,
                                LeaveStep::Stay {
                                    until_gone: highest
                                }
                            );
                        }
                        Some(_) => assert_eq!(
                            step,
                            LeaveStep::Go {
                                until_gone: last.expect("there is another member")
                            }
                        ),
                    }
                }
            }
        }
    }
}
