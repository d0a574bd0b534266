//! What a test has in store for requests: which one is applied, and by what.
//!
//! Pure: no I/O and no clock.

use std::fmt;

use zk_core::SessionId;
use zk_core::transport::Fault;
use zk_core::transport::Request;

/// What is done to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Act {
    /// The link breaks before the request reaches its server.
    LoseRequest,
    /// The request is carried out, and the link breaks in place of the answer.
    LoseReply,
    /// The link breaks, the request stays between its server and the leader until it is released.
    Stall,
    /// The link breaks, the request is committed, and the session goes on at a server that does not show it yet.
    StallThenMove { to: usize },
    /// The leader proposes the request and dies.
    KillLeader(Proposal),
    /// The answer, and all that comes after it, stays on its way until it is released.
    Hold,
    /// The request is answered so and not carried out.
    Refuse(Fault),
    /// The request is carried out and answered so.
    Misreport(Fault),
}

/// What becomes of a write whose leader died after it proposed it and before it was committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Proposal {
    /// The next leader has not heard of it.
    #[default]
    Vanishes,
    /// The next leader has it in its log, and commits it.
    Survives,
}

/// Which requests are applied, and by what.
pub(crate) struct Rule {
    pub(crate) matcher: Box<dyn Fn(&Request) -> bool + Send>,
    pub(crate) session: Option<SessionId>,
    pub(crate) turn: Turn,
    pub(crate) act: Act,
    /// What a client sees as the reason when the link breaks.
    pub(crate) cause: String,
    pub(crate) matched: usize,
    /// How often it had its effect.
    pub(crate) applied: usize,
    pub(crate) is_released: bool,
}

/// Which of the requests that match are applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// The one with this number, from one.
    Nth(usize),
    /// All from the one with this number on.
    From(usize),
    /// None: the rule is withdrawn.
    Never,
}

impl Rule {
    /// Counts a request, and tells whether its turn has come.
    fn counts(&mut self, session: SessionId, request: &Request) -> bool {
        if self.turn == Turn::Never
            || self.session.is_some_and(|wanted| wanted != session)
            || !(self.matcher)(request)
        {
            return false;
        }
        self.matched += 1;
        match self.turn {
            Turn::Nth(nth) => self.matched == nth,
            Turn::From(first) => self.matched >= first,
            Turn::Never => false,
        }
    }
}

/// Looks which rule strikes a request that is about to be sent: the oldest whose turn has come.
///
/// Every rule that matches counts it.
pub(crate) fn matching_rule(
    rules: &mut [Rule],
    session: SessionId,
    request: &Request,
) -> Option<usize> {
    let mut applied = None;
    for (at, rule) in rules.iter_mut().enumerate() {
        if rule.counts(session, request) && applied.is_none() {
            applied = Some(at);
        }
    }
    applied
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rule")
            .field("turn", &self.turn)
            .field("act", &self.act)
            .field("matched", &self.matched)
            .field("applied", &self.applied)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zk_core::NodePath;

    fn rule(turn: Turn) -> Rule {
        Rule {
            matcher: Box::new(crate::matching::syncs()),
            session: None,
            turn,
            act: Act::Hold,
            cause: String::new(),
            matched: 0,
            applied: 0,
            is_released: false,
        }
    }

    fn applied(rules: &mut [Rule], count: usize) -> Vec<Option<usize>> {
        let sync = Request::Sync {
            path: NodePath::root(),
        };
        let session = SessionId::from_i64(1);
        (0..count)
            .map(|_| matching_rule(rules, session, &sync))
            .collect()
    }

    #[test]
    fn a_rule_strikes_in_its_turn_and_the_oldest_goes_first() {
        let mut rules = [rule(Turn::Nth(2)), rule(Turn::From(2))];
        assert_eq!(
            applied(&mut rules, 4),
            [None, Some(0), Some(1), Some(1)],
            "{rules:?}"
        );
        assert_eq!((rules[0].matched, rules[1].matched), (4, 4));
    }

    #[test]
    fn a_rule_for_one_session_does_not_count_those_of_others() {
        let mut rules = [Rule {
            session: Some(SessionId::from_i64(2)),
            ..rule(Turn::Nth(1))
        }];
        assert_eq!(applied(&mut rules, 1), [None]);
        assert_eq!(rules[0].matched, 0);
    }
}
