//! What the members of a double barrier did, in order, and the check of both sides of the barrier over it.
//!
//! Pure: no I/O and no clock.

use std::collections::{BTreeMap, BTreeSet};

/// Identifies one call of `enter`, and the member that it returned.
pub(crate) type MemberId = usize;

/// What happened to a member. A call is recorded before it begins, its result after it returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// It calls `enter`.
    Enters,
    /// `enter` returned a member of the round with this number.
    Entered(i64),
    /// `enter` timed out: no round counts it.
    Withdrew,
    /// `enter` failed or was dropped: a round may have counted it.
    Failed,
    /// It calls `leave`, or drops the member.
    Leaves,
    /// `leave` returned: no member of the round is left.
    Left,
    /// Its session was over at this time.
    SessionOver,
}

/// Events of members in the order in which they were recorded.
#[derive(Debug, Default)]
pub(crate) struct History {
    events: Vec<(MemberId, Event)>,
    members: usize,
}

#[derive(Debug, Default)]
struct Round {
    /// When the first member has entered it.
    first_entered: usize,
    /// The members that have entered it.
    entered: Vec<MemberId>,
    /// Those of them that have neither left nor lost their session.
    inside: BTreeSet<MemberId>,
    /// When a member last was inside for certain.
    last_inside: Option<usize>,
    /// Whether a member returned from leaving.
    is_over: bool,
}

/// A call of `enter` that a round may have counted although it returned no member.
#[derive(Debug, Clone, Copy)]
struct Uncertain {
    began: usize,
    /// When its node was gone for certain.
    gone: usize,
}

impl History {
    /// Records that a member calls `enter`.
    pub(crate) fn enters(&mut self) -> MemberId {
        let member = self.members;
        self.members += 1;
        self.record(member, Event::Enters);
        member
    }

    pub(crate) fn record(&mut self, member: MemberId, event: Event) {
        self.events.push((member, event));
    }

    /// Checks both sides of the barrier, and returns the number of rounds:
    ///
    /// - A round is entered only after at least `threshold` members that it may have counted have called `enter`.
    /// - No call of `leave` returns while a member is in its round, and none enters the round after that.
    /// - No member enters a round while a member is in an earlier one, or after a later one was entered.
    ///
    /// A member whose session is over is in no round, even if it does not know it yet.
    pub(crate) fn check(&self, threshold: usize) -> Result<usize, String> {
        let rounds = self.replayed()?;
        self.were_complete(&rounds, threshold)?;
        Ok(rounds.len())
    }

    /// Returns the rounds, unless a member left too early or entered at the wrong time.
    fn replayed(&self) -> Result<BTreeMap<i64, Round>, String> {
        let mut rounds = BTreeMap::<i64, Round>::new();
        let mut round_of = BTreeMap::new();
        let mut without_session = BTreeSet::new();
        for (at, &(member, event)) in self.events.iter().enumerate() {
            match event {
                Event::Enters | Event::Withdrew | Event::Failed => {}
                Event::Entered(number) => {
                    let lives = !without_session.contains(&member);
                    if lives && let Some(why) = why_not_enter(&rounds, number) {
                        return Err(format!("event {at}: member {member} {why}"));
                    }
                    round_of.insert(member, number);
                    let round = rounds.entry(number).or_insert_with(|| Round {
                        first_entered: at,
                        ..Round::default()
                    });
                    round.entered.push(member);
                    if lives {
                        round.inside.insert(member);
                    }
                }
                Event::Leaves | Event::Left | Event::SessionOver => {
                    if event == Event::SessionOver {
                        without_session.insert(member);
                    }
                    let number = round_of.get(&member).copied();
                    let Some((number, round)) =
                        number.and_then(|number| Some((number, rounds.get_mut(&number)?)))
                    else {
                        continue;
                    };
                    let was_inside = round.inside.remove(&member);
                    if was_inside && event == Event::Leaves {
                        round.last_inside = Some(at);
                    }
                    if event == Event::Left {
                        if let Some(other) = round.inside.first() {
                            return Err(format!(
                                "event {at}: member {member} has left round {number} while member {other} is in it"
                            ));
                        }
                        round.is_over = true;
                    }
                }
            }
        }
        Ok(rounds)
    }

    /// Checks that each round had enough members when it was first entered.
    ///
    /// Every call that ended uncertainly may have been counted by one round: one that began before the round was entered,
    /// and whose node was not gone before the members of earlier rounds had left. Rounds are assigned the calls whose
    /// nodes were gone first, which leaves the others as much as possible.
    fn were_complete(&self, rounds: &BTreeMap<i64, Round>, threshold: usize) -> Result<(), String> {
        let mut began = vec![0; self.members];
        let mut uncertain = BTreeMap::<MemberId, Uncertain>::new();
        let mut without_session = BTreeMap::new();
        for (at, &(member, event)) in self.events.iter().enumerate() {
            match event {
                Event::Enters => began[member] = at,
                Event::Failed => {
                    let gone = without_session.get(&member).copied();
                    uncertain.insert(
                        member,
                        Uncertain {
                            began: began[member],
                            gone: gone.unwrap_or(usize::MAX),
                        },
                    );
                }
                Event::SessionOver => {
                    without_session.insert(member, at);
                    if let Some(uncertain) = uncertain.get_mut(&member) {
                        uncertain.gone = at;
                    }
                }
                Event::Entered(_) | Event::Withdrew | Event::Leaves | Event::Left => {}
            }
        }
        let mut left: Vec<_> = uncertain.into_values().collect();
        left.sort_by_key(|uncertain| uncertain.gone);
        let mut opened_after = 0;
        for (number, round) in rounds {
            let entered = round.entered.iter();
            let in_time = entered.filter(|member| began[**member] < round.first_entered);
            let mut missing = threshold.saturating_sub(in_time.count());
            left.retain(|uncertain| {
                let may_count =
                    uncertain.began < round.first_entered && uncertain.gone > opened_after;
                let counts = missing > 0 && may_count;
                missing -= usize::from(counts);
                !counts
            });
            if missing > 0 {
                return Err(format!(
                    "round {number} was entered with {missing} members fewer than {threshold}"
                ));
            }
            opened_after = opened_after.max(round.last_inside.unwrap_or(0));
        }
        Ok(())
    }
}

/// Returns why a member must not enter a round now.
fn why_not_enter(rounds: &BTreeMap<i64, Round>, number: i64) -> Option<String> {
    if rounds.get(&number).is_some_and(|round| round.is_over) {
        return Some(format!("entered round {number} after its end"));
    }
    if let Some((later, _)) = rounds.range(number + 1..).next() {
        return Some(format!("entered round {number} after round {later}"));
    }
    let (earlier, round) = rounds.range(..number).next_back()?;
    let other = round.inside.first()?;
    Some(format!(
        "entered round {number} while member {other} is in round {earlier}"
    ))
}

mod tests {
    use super::Event::*;
    use super::*;

    fn checked(events: &[(MemberId, Event)]) -> Result<usize, String> {
        let history = History {
            members: 1 + events.iter().map(|(member, _)| *member).max().unwrap(),
            events: events.to_vec(),
        };
        history.check(2)
    }

    fn violates(what: &str, events: &[(MemberId, Event)]) {
        let error = checked(events).unwrap_err();
        assert!(error.contains(what), "{error}");
    }

    /// Two members have entered round 7.
    const BOTH_ENTERED: [(MemberId, Event); 4] =
        [(0, Enters), (1, Enters), (0, Entered(7)), (1, Entered(7))];

    fn after_both_entered(events: &[(MemberId, Event)]) -> Vec<(MemberId, Event)> {
        [&BOTH_ENTERED, events].concat()
    }

    #[test]
    fn rounds_one_after_the_other_are_fine() {
        let two = after_both_entered(&[
            (0, Leaves),
            (1, Leaves),
            (1, Left),
            (2, Enters),
            (0, Left),
            (3, Enters),
            (3, Entered(9)),
            (2, Entered(9)),
        ]);
        assert_eq!(checked(&two), Ok(2));
    }

    #[test]
    fn a_round_with_too_few_members_is_found() {
        violates("fewer", &[(0, Enters), (0, Entered(7))]);
        // It came after the first one had entered.
        violates(
            "fewer",
            &[(0, Enters), (0, Entered(7)), (1, Enters), (1, Entered(7))],
        );
        let withdrew = [(0, Enters), (1, Enters), (1, Withdrew), (0, Entered(7))];
        violates("fewer", &withdrew);
    }

    #[test]
    fn an_uncertain_call_is_counted_by_one_round_that_it_can_have_been_in() {
        let first = [(0, Enters), (1, Enters), (1, Failed), (0, Entered(7))];
        assert_eq!(checked(&first), Ok(1));
        let second = [(0, Leaves), (0, Left), (2, Enters), (2, Entered(9))];
        violates("fewer", &[&first[..], &second].concat());
        // Its session was over before the member of the last round has left.
        let gone = [(3, Enters), (3, Failed), (3, SessionOver)];
        let gone = after_both_entered(&[&gone[..], &[(1, Leaves)], &second].concat());
        violates("fewer", &gone);
        // It began after the round was entered.
        let late = [(0, Enters), (0, Entered(7)), (1, Enters), (1, Failed)];
        violates("fewer", &late);
    }

    #[test]
    fn leaving_before_another_member_is_found() {
        violates(
            "while member 1 is in it",
            &after_both_entered(&[(0, Leaves), (0, Left)]),
        );
        // A member whose session is over is not in the round.
        let lost = after_both_entered(&[(0, Leaves), (1, SessionOver), (0, Left)]);
        assert_eq!(checked(&lost), Ok(1));
    }

    #[test]
    fn entering_a_round_that_is_over_is_found() {
        let late = [
            (2, Enters),
            (0, Leaves),
            (1, Leaves),
            (0, Left),
            (2, Entered(7)),
        ];
        violates("after its end", &after_both_entered(&late));
        // One whose session was over before may still return.
        let mut late = late.to_vec();
        late.insert(3, (2, SessionOver));
        assert_eq!(checked(&after_both_entered(&late)), Ok(1));
    }

    #[test]
    fn entering_the_next_round_before_all_have_left_is_found() {
        let early = [
            (0, Leaves),
            (2, Enters),
            (3, Enters),
            (2, Entered(9)),
            (3, Entered(9)),
        ];
        violates("while member 1 is in round 7", &after_both_entered(&early));
        let back = [(0, Leaves), (1, Leaves), (2, Enters), (3, Enters)];
        let back = [&back[..], &[(2, Entered(9)), (3, Entered(7))]].concat();
        violates("after round 9", &after_both_entered(&back));
    }
}
