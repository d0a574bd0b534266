//! Builds rules, and reports how often they were applied.

use std::sync::Arc;
use std::time::Duration;

use super::core::Core;
use super::matching::Match;
use super::rule_table::{Action, Occurrence, RuleId};
use super::shared::SharedCore;
use crate::error::Error;
use crate::sockets::Close;

/// A rule without its action. The method for the action, such as [`hold`](Self::hold), creates the [`Rule`].
///
/// By default a rule applies to every frame that matches; [`once`](Self::once) and [`nth`](Self::nth) change that.
#[derive(Clone, Debug)]
#[must_use = "a rule has no effect before it has an action"]
pub struct RuleBuilder {
    shared: Arc<SharedCore>,
    matching: Match,
    occurrence: Occurrence,
    close: Close,
}

/// A rule of a proxy.
///
/// # Dropping
///
/// The rule stays active until [`remove`](Self::remove) or [`FaultProxy::heal`](super::FaultProxy::heal).
#[derive(Clone, Debug)]
pub struct Rule {
    shared: Arc<SharedCore>,
    id: RuleId,
}

impl RuleBuilder {
    pub(super) fn new(shared: Arc<SharedCore>, matching: Match) -> Self {
        Self {
            shared,
            matching,
            occurrence: Occurrence::Every,
            close: Close::default(),
        }
    }

    /// Applies the rule to the first matching frame only.
    pub fn once(self) -> Self {
        self.nth(1)
    }

    /// Applies the rule to the `n`-th matching frame only, counted from 1.
    pub fn nth(mut self, n: u64) -> Self {
        self.occurrence = Occurrence::Nth(n);
        self
    }

    /// Sets how a rule that cuts closes the client's side. Default [`Close::Fin`].
    pub fn close(mut self, close: Close) -> Self {
        self.close = close;
        self
    }

    /// Passes the frame unchanged, so that no later rule applies to it.
    pub fn pass(self) -> Rule {
        self.finish(Action::Pass)
    }

    /// Passes the frame `delay` after its arrival. Later frames of the same direction wait behind it.
    pub fn delay(self, delay: Duration) -> Rule {
        self.finish(Action::Delay(delay))
    }

    /// Passes matching frames at this many bytes per second; 0 means 1.
    pub fn rate(self, bytes_per_second: u64) -> Rule {
        self.finish(Action::Rate(bytes_per_second))
    }

    /// Holds the frame and all frames behind it in the same direction until [`Rule::release`].
    ///
    /// If the client closes meanwhile, the server still receives the frame, and the end of the stream after it.
    pub fn hold(self) -> Rule {
        self.finish(Action::Hold)
    }

    /// Discards the frame and cuts the connection: the server never sees the request.
    ///
    /// Earlier frames of the same direction pass first.
    pub fn drop_then_cut(self) -> Rule {
        let close = self.close;
        self.finish(Action::DropThenCut(close))
    }

    /// Passes the frame and cuts the connection at once.
    ///
    /// For a request, the outcome is unknown to the client. The server's side of the connection stays open until the
    /// server has replied or closes, so no forwarded request is lost. The reply is logged as
    /// [`EventKind::Replied`](super::EventKind::Replied) and discarded.
    pub fn forward_then_cut(self) -> Rule {
        let close = self.close;
        self.finish(Action::ForwardThenCut(close))
    }

    /// Cuts the connection when the server's reply arrives, and discards the reply: the server has processed the
    /// request, and the client does not know.
    ///
    /// The rule counts replies. It is short for [`Match::reply`] with [`drop_then_cut`](Self::drop_then_cut).
    pub fn cut_on_reply(mut self) -> Rule {
        self.matching = self.matching.reply();
        self.drop_then_cut()
    }

    /// Discards the frame and everything after it on its connection, in both directions, and leaves the sockets open:
    /// neither side notices when the other one closes.
    ///
    /// It lasts until [`Rule::release`], [`Rule::remove`] or [`FaultProxy::heal`](super::FaultProxy::heal), which cut
    /// the connection: the stream has a gap, so neither side could decode the rest.
    pub fn black_hole(self) -> Rule {
        self.finish(Action::BlackHole)
    }

    fn finish(self, action: Action) -> Rule {
        let Self {
            shared,
            matching,
            occurrence,
            ..
        } = self;
        let id = shared.core.lock().rules.add(matching, occurrence, action);
        Rule { shared, id }
    }
}

impl Rule {
    /// Returns how often its action was carried out.
    ///
    /// A cut counts when the client's side is closed, any other action when the frame arrives.
    pub fn count(&self) -> u64 {
        self.shared.core.lock().rules.counts(self.id).1
    }

    /// Waits at most `within` until its action has been carried out at least once.
    ///
    /// # Errors
    ///
    /// [`Error::NotSeen`] with the proxy's last events.
    pub async fn happened(&self, within: Duration) -> Result<(), Error> {
        let what = self.shared.core.lock().rules.describe(self.id);
        let has_happened = |core: &Core| core.rules.counts(self.id).1 > 0;
        self.shared.wait_until(&what, within, has_happened).await
    }

    /// Releases the frames that it holds, and ends its black holes. The rule stays active.
    pub fn release(&self) {
        self.shared.request(|core| core.release(self.id));
    }

    /// Removes the rule, releases the frames that it holds, and ends its black holes.
    pub fn remove(&self) {
        self.shared.request(|core| core.remove_rule(self.id));
    }
}
