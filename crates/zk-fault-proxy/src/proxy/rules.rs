//! The list of rules, and which of them takes a frame.
//!
//! Pure: no I/O and no clock.

use std::time::Duration;

use super::matching::Match;
use super::matching::Seen;

/// How a connection is closed towards the client.
///
/// Towards the server it always ends with a FIN, so that the server reads whatever was forwarded before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Close {
    /// Orderly: the client reads what was sent before, then the end of the stream.
    #[default]
    Fin,
    /// By a reset, as when the peer's machine has lost its state: the client's next call fails, and replies it had
    /// not yet read may be lost.
    Rst,
}

/// Which of the frames that match are struck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Occurrence {
    Every,
    Nth(u64),
    From(u64),
}

/// What is done to a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Pass,
    Delay(Duration),
    Rate(u64),
    Hold,
    DropThenCut(Close),
    ForwardThenCut(Close),
    BlackHole,
}

/// The number of a rule, in order of creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct RuleId(pub(super) u64);

#[derive(Debug, Default)]
pub(super) struct Rules {
    rules: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    matching: Match,
    occurrence: Occurrence,
    action: Action,
    /// How many frames have matched.
    seen: u64,
    /// How many of them it was carried out on.
    struck: u64,
    live: bool,
}

impl Rules {
    pub(super) fn add(
        &mut self,
        matching: Match,
        occurrence: Occurrence,
        action: Action,
    ) -> RuleId {
        self.rules.push(Entry {
            matching,
            occurrence,
            action,
            seen: 0,
            struck: 0,
            live: true,
        });
        RuleId(self.rules.len() as u64 - 1)
    }

    /// The first rule that matches and whose turn it is.
    ///
    /// A rule counts the frames that match it and that no rule before it has taken.
    pub(super) fn judge(&mut self, seen: &Seen<'_>) -> Option<(RuleId, Action)> {
        for (id, rule) in self.rules.iter_mut().enumerate() {
            if !rule.live || !rule.matching.fits(seen) {
                continue;
            }
            rule.seen += 1;
            let due = match rule.occurrence {
                Occurrence::Every => true,
                Occurrence::Nth(n) => rule.seen == n,
                Occurrence::From(n) => rule.seen >= n,
            };
            if due {
                rule.live = !matches!(rule.occurrence, Occurrence::Nth(_));
                return Some((RuleId(id as u64), rule.action));
            }
        }
        None
    }

    /// Notes that the action was carried out.
    pub(super) fn struck(&mut self, id: RuleId) {
        self.entry(id).struck += 1;
    }

    pub(super) fn end(&mut self, id: RuleId) {
        self.entry(id).live = false;
    }

    pub(super) fn end_all(&mut self) {
        for rule in &mut self.rules {
            rule.live = false;
        }
    }

    /// How many frames have matched the rule, and on how many its action was carried out.
    pub(super) fn counts(&self, id: RuleId) -> (u64, u64) {
        let rule = &self.rules[Self::index(id)];
        (rule.seen, rule.struck)
    }

    pub(super) fn describe(&self, id: RuleId) -> String {
        let rule = &self.rules[Self::index(id)];
        let what = match rule.action {
            Action::Pass => "pass",
            Action::Delay(_) => "delay",
            Action::Rate(_) => "slow down",
            Action::Hold => "hold",
            Action::DropThenCut(_) if rule.matching.is_reply() => "cut on",
            Action::DropThenCut(_) => "drop, then cut on",
            Action::ForwardThenCut(_) => "forward, then cut on",
            Action::BlackHole => "black hole on",
        };
        let which = match rule.occurrence {
            Occurrence::Every => String::new(),
            Occurrence::Nth(n) => format!(" number {n}"),
            Occurrence::From(n) => format!(" from number {n}"),
        };
        format!("{what} {}{which}", rule.matching)
    }

    fn entry(&mut self, id: RuleId) -> &mut Entry {
        &mut self.rules[Self::index(id)]
    }

    fn index(id: RuleId) -> usize {
        usize::try_from(id.0).expect("an index into the list of rules")
    }
}

#[cfg(test)]
mod tests {
    use super::super::matching::Direction;
    use super::super::matching::Frame;
    use super::*;
    use crate::wire::Op;
    use crate::wire::Request;

    const CREATE: i32 = 1;
    const DELETE: i32 = 2;

    /// The indexes of the rules that take a create or delete of `/a`, one after another.
    fn judged(rules: &mut Rules, ops: &[i32]) -> Vec<Option<u64>> {
        let mut request = Request::decode(&[0; 8]).unwrap();
        request.paths = vec!["/a".to_owned()];
        ops.iter()
            .map(|&op| {
                request.op = Op::from(op);
                let seen = Seen {
                    direction: Direction::Request,
                    frame: Frame::Request(&request),
                    session: None,
                    server: None,
                    code: None,
                };
                rules.judge(&seen).map(|(id, _)| id.0)
            })
            .collect()
    }

    fn rules(list: &[(Match, Occurrence)]) -> Rules {
        let mut rules = Rules::default();
        for (matching, occurrence) in list {
            rules.add(matching.clone(), *occurrence, Action::Pass);
        }
        rules
    }

    #[test]
    fn the_nth_is_struck_once_and_the_rule_is_spent() {
        for n in 1..=4 {
            let mut rules = rules(&[(Match::create("/a"), Occurrence::Nth(n))]);
            let taken = judged(&mut rules, &[CREATE; 6]);
            let struck: Vec<_> = (1..=6).map(|at| (at == n).then_some(0)).collect();
            assert_eq!(taken, struck, "the {n}-th");
            assert_eq!(rules.counts(RuleId(0)).0, n, "a spent rule counts no more");
        }
    }

    #[test]
    fn every_and_from_the_nth_go_on() {
        let mut all = rules(&[(Match::create("/a"), Occurrence::Every)]);
        assert_eq!(judged(&mut all, &[CREATE; 3]), [Some(0); 3]);
        let mut later = rules(&[(Match::create("/a"), Occurrence::From(2))]);
        assert_eq!(judged(&mut later, &[CREATE; 3]), [None, Some(0), Some(0)]);
    }

    #[test]
    fn the_first_rule_whose_turn_it_is_wins() {
        let mut rules = rules(&[
            (Match::create("/a"), Occurrence::Nth(2)),
            (Match::create("/b"), Occurrence::Every),
            (Match::writes(), Occurrence::Every),
            (Match::requests(), Occurrence::Every),
        ]);
        assert_eq!(
            judged(&mut rules, &[CREATE, DELETE, CREATE, CREATE]),
            [Some(2), Some(2), Some(0), Some(2)]
        );
        rules.end(RuleId(2));
        assert_eq!(judged(&mut rules, &[CREATE]), [Some(3)]);
        rules.end_all();
        assert_eq!(judged(&mut rules, &[CREATE]), [None]);
    }

    #[test]
    fn a_rule_counts_only_what_no_rule_before_it_has_taken() {
        let mut rules = rules(&[
            (Match::create("/a"), Occurrence::Nth(1)),
            (Match::create("/a"), Occurrence::Nth(1)),
        ]);
        assert_eq!(judged(&mut rules, &[CREATE; 3]), [Some(0), Some(1), None]);
    }

    #[test]
    fn a_rule_says_what_it_does() {
        let mut rules = Rules::default();
        let ids = [
            (
                Match::create("/a"),
                Occurrence::Nth(2),
                Action::DropThenCut(Close::Fin),
            ),
            (
                Match::create("/a").reply(),
                Occurrence::Every,
                Action::DropThenCut(Close::Fin),
            ),
            (Match::sync("/a"), Occurrence::From(3), Action::Hold),
        ]
        .map(|(matching, occurrence, action)| rules.add(matching, occurrence, action));
        let texts = ids.map(|id| rules.describe(id));
        assert_eq!(
            texts,
            [
                "drop, then cut on create /a number 2",
                "cut on reply to create /a",
                "hold sync /a from number 3"
            ]
        );
    }
}
