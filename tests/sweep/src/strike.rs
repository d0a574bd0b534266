//! What strikes a request.

use std::time::Duration;

use zk_fault_proxy::{Close, Rule, RuleBuilder};

/// The timeout of the session that is struck: a third of it is left to come back in after a silence.
pub(crate) const SESSION_TIMEOUT: Duration = Duration::from_secs(8);

/// A fault that strikes a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Strike {
    pub(crate) name: &'static str,
    pub(crate) rule: fn(RuleBuilder) -> Rule,
    /// How long until it is undone, if it does not end by itself.
    pub(crate) undo: Option<Duration>,
}

impl Strike {
    const fn new(name: &'static str, rule: fn(RuleBuilder) -> Rule) -> Self {
        let undo = None;
        Self { name, rule, undo }
    }

    const fn undone_after(mut self, time: Duration) -> Self {
        self.undo = Some(time);
        self
    }

    /// Whether the client is struck for most of its session timeout.
    pub(crate) fn is_slow(&self) -> bool {
        self.undo.is_some_and(|undo| undo >= SESSION_TIMEOUT)
    }
}

pub(crate) const STRIKES: [Strike; 7] = [
    Strike::new("the request is lost", RuleBuilder::drop_then_cut),
    Strike::new("cut behind the request", RuleBuilder::forward_then_cut),
    Strike::new("the reply is lost", RuleBuilder::cut_on_reply),
    Strike::new("the reply is lost by a reset", |rule| {
        rule.close(Close::Rst).cut_on_reply()
    }),
    Strike::new("late", |rule| rule.delay(Duration::from_millis(150))),
    Strike::new("held", RuleBuilder::hold).undone_after(Duration::from_millis(400)),
    // The client notices by itself, after two thirds of its session timeout.
    Strike::new("silence", RuleBuilder::black_hole).undone_after(SESSION_TIMEOUT),
];
