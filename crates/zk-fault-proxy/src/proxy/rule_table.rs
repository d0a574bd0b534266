//! The rules of a proxy; decides which one applies to a frame.
//!
//! Pure: no I/O and no clock.

use std::time::Duration;

use super::matching::{FrameInfo, Match};
use crate::sockets::Close;

/// Which of the matching frames the rule applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Occurrence {
    Every,
    Nth(u64),
}

/// What a rule does to a frame.
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
pub(super) struct RuleTable {
    rules: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    matching: Match,
    occurrence: Occurrence,
    action: Action,
    /// How many frames have matched.
    matched: u64,
    /// How often the action was carried out.
    applied: u64,
    live: bool,
}

impl RuleTable {
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
            matched: 0,
            applied: 0,
            live: true,
        });
        RuleId(self.rules.len() as u64 - 1)
    }

    /// Returns the first rule that applies to the frame, and counts the frame for each rule up to it that matches.
    pub(super) fn first_match(&mut self, seen: &FrameInfo<'_>) -> Option<(RuleId, Action)> {
        for (id, rule) in self.rules.iter_mut().enumerate() {
            if !rule.live || !rule.matching.fits(seen) {
                continue;
            }
            rule.matched += 1;
            let due = match rule.occurrence {
                Occurrence::Every => true,
                Occurrence::Nth(n) => rule.matched == n,
            };
            if due {
                rule.live = !matches!(rule.occurrence, Occurrence::Nth(_));
                return Some((RuleId(id as u64), rule.action));
            }
        }
        None
    }

    /// Counts that the action was carried out.
    pub(super) fn count_applied(&mut self, id: RuleId) {
        self.entry(id).applied += 1;
    }

    pub(super) fn end(&mut self, id: RuleId) {
        self.entry(id).live = false;
    }

    pub(super) fn end_all(&mut self) {
        for rule in &mut self.rules {
            rule.live = false;
        }
    }

    /// Returns how many frames have matched the rule, and how often its action was carried out.
    pub(super) fn counts(&self, id: RuleId) -> (u64, u64) {
        let rule = &self.rules[Self::index(id)];
        (rule.matched, rule.applied)
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
    use super::super::matching::{Direction, Frame};
    use super::*;
    use crate::wire::{Op, Request};

    const CREATE: i32 = 1;
    const DELETE: i32 = 2;

    /// Returns the index of the rule that applies to each of these requests for `/a`.
    fn taken_by(rules: &mut RuleTable, ops: &[i32]) -> Vec<Option<u64>> {
        let mut request = Request::decode(&[0; 8]).unwrap();
        request.paths = vec!["/a".to_owned()];
        ops.iter()
            .map(|&op| {
                request.op = Op::from_code(op);
                let seen = FrameInfo {
                    direction: Direction::Request,
                    frame: Frame::Request(&request),
                    session: None,
                    server: None,
                    code: None,
                };
                rules.first_match(&seen).map(|(id, _)| id.0)
            })
            .collect()
    }

    fn rules(list: &[(Match, Occurrence)]) -> RuleTable {
        let mut rules = RuleTable::default();
        for (matching, occurrence) in list {
            rules.add(matching.clone(), *occurrence, Action::Pass);
        }
        rules
    }

    #[test]
    fn a_rule_for_the_nth_frame_applies_once() {
        for n in 1..=4 {
            let mut rules = rules(&[(Match::create("/a"), Occurrence::Nth(n))]);
            let taken = taken_by(&mut rules, &[CREATE; 6]);
            let applied: Vec<_> = (1..=6).map(|at| (at == n).then_some(0)).collect();
            assert_eq!(taken, applied, "the {n}-th");
            assert_eq!(rules.counts(RuleId(0)).0, n, "it stops counting");
        }
    }

    #[test]
    fn a_rule_for_every_frame_applies_repeatedly() {
        let mut all = rules(&[(Match::create("/a"), Occurrence::Every)]);
        assert_eq!(taken_by(&mut all, &[CREATE; 3]), [Some(0); 3]);
    }

    #[test]
    fn the_first_rule_that_applies_takes_the_frame() {
        let mut rules = rules(&[
            (Match::create("/a"), Occurrence::Nth(2)),
            (Match::create("/b"), Occurrence::Every),
            (Match::writes(), Occurrence::Every),
            (Match::requests(), Occurrence::Every),
        ]);
        assert_eq!(
            taken_by(&mut rules, &[CREATE, DELETE, CREATE, CREATE]),
            [Some(2), Some(2), Some(0), Some(2)]
        );
        rules.end(RuleId(2));
        assert_eq!(taken_by(&mut rules, &[CREATE]), [Some(3)]);
        rules.end_all();
        assert_eq!(taken_by(&mut rules, &[CREATE]), [None]);
    }

    #[test]
    fn a_rule_does_not_count_frames_taken_by_earlier_rules() {
        let mut rules = rules(&[
            (Match::create("/a"), Occurrence::Nth(1)),
            (Match::create("/a"), Occurrence::Nth(1)),
        ]);
        assert_eq!(taken_by(&mut rules, &[CREATE; 3]), [Some(0), Some(1), None]);
    }

    #[test]
    fn a_rule_describes_itself() {
        let mut rules = RuleTable::default();
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
            (Match::sync("/a"), Occurrence::Nth(3), Action::Hold),
        ]
        .map(|(matching, occurrence, action)| rules.add(matching, occurrence, action));
        let texts = ids.map(|id| rules.describe(id));
        assert_eq!(
            texts,
            [
                "drop, then cut on create /a number 2",
                "cut on reply to create /a",
                "hold sync /a number 3"
            ]
        );
    }
}
