//! The rules of a scripted failure: which requests they match, and their effect.
//!
//! Pure: no I/O and no clock.

use std::fmt;

use zk_core::SessionId;
use zk_core::transport::{Request, TransportError};

use crate::server_reply::ServerReply;

/// The effect of a rule on a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Act {
    /// The link breaks before the client has written the request, which it sends on the next one.
    Postpone,
    /// The link breaks before the request reaches its server.
    LoseRequest,
    /// The request is applied, and the link breaks instead of the reply.
    LoseReply,
    /// The link breaks, and the request is stuck between its server and the leader until it is released.
    Stall,
    /// The link breaks, the request is committed, and the session continues at a server that does not show it yet.
    StallThenMove { to: usize },
    /// The leader proposes the request and dies.
    KillLeader(Proposal),
    /// The reply and all later messages are delayed until the rule is released.
    Hold,
    /// The request is not applied, and this is the reply.
    Refuse(TransportError),
    /// The request is applied, and this is the reply.
    Misreport(Result<ServerReply, TransportError>),
}

/// The outcome of a write whose leader died between proposal and commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Proposal {
    /// The next leader does not have it.
    #[default]
    Vanishes,
    /// The next leader has it in its log, and commits it.
    Survives,
}

/// A scripted failure: the requests it applies to, and its effect.
pub(crate) struct Rule {
    pub(crate) matcher: Box<dyn Fn(&Request) -> bool + Send>,
    pub(crate) session: Option<SessionId>,
    pub(crate) turn: Turn,
    pub(crate) act: Act,
    /// The reason that a client sees when the link breaks.
    pub(crate) cause: String,
    pub(crate) matched: usize,
    /// How often it was applied.
    pub(crate) applied: usize,
    pub(crate) is_released: bool,
}

/// The matching requests that a rule applies to.
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
    /// Creates a rule for the first request that matches, which loses it unless another act is set.
    pub(crate) fn new(matcher: Box<dyn Fn(&Request) -> bool + Send>) -> Self {
        Self {
            matcher,
            session: None,
            turn: Turn::Nth(1),
            act: Act::LoseRequest,
            cause: "connection reset by peer".to_owned(),
            matched: 0,
            applied: 0,
            is_released: false,
        }
    }

    /// Counts a request, and returns whether the rule applies to it.
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

/// Returns the index of the rule for a request that is about to be sent: the oldest that applies.
///
/// Every matching rule counts it.
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
            turn,
            ..Rule::new(Box::new(crate::matching::syncs()))
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
    fn a_rule_applies_in_its_turn_and_the_oldest_goes_first() {
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
