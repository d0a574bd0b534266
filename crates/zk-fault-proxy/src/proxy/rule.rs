//! Making rules, and following what they do.

use std::sync::Arc;
use std::time::Duration;

use super::matching::Match;
use super::rules::Action;
use super::rules::Close;
use super::rules::Occurrence;
use super::rules::RuleId;
use super::shared::Shared;
use crate::error::Error;

/// A rule in the making: which frames, and which of them. What is done to them makes it a [`Rule`].
///
/// Without [`nth`](Self::nth) and its like every frame that matches is struck.
#[derive(Clone, Debug)]
#[must_use = "the rule comes into force when it is said what it does"]
pub struct RuleBuilder {
    shared: Arc<Shared>,
    matching: Match,
    occurrence: Occurrence,
    close: Close,
}

/// A rule in force.
///
/// # Dropping
///
/// The rule stays in force; [`remove`](Self::remove) or [`FaultProxy::heal`](super::FaultProxy::heal) ends it.
#[derive(Clone, Debug)]
pub struct Rule {
    shared: Arc<Shared>,
    id: RuleId,
}

impl RuleBuilder {
    pub(super) fn new(shared: Arc<Shared>, matching: Match) -> Self {
        Self {
            shared,
            matching,
            occurrence: Occurrence::Every,
            close: Close::default(),
        }
    }

    /// Strikes the first frame that matches, and no more.
    pub fn once(self) -> Self {
        self.nth(1)
    }

    /// Strikes the `n`-th frame that matches from now on, and no more. The first one is 1.
    pub fn nth(mut self, n: u64) -> Self {
        self.occurrence = Occurrence::Nth(n);
        self
    }

    /// Strikes the `n`-th frame that matches from now on and all after it. The first one is 1.
    pub fn from_nth(mut self, n: u64) -> Self {
        self.occurrence = Occurrence::From(n);
        self
    }

    /// Sets how the client's side is closed by a rule that cuts. Default [`Close::Fin`].
    pub fn close(mut self, close: Close) -> Self {
        self.close = close;
        self
    }

    /// Passes the frame, so that no later rule takes it.
    pub fn pass(self) -> Rule {
        self.act(Action::Pass)
    }

    /// Passes the frame `delay` after its arrival. Later frames of the same direction do not overtake it.
    pub fn delay(self, delay: Duration) -> Rule {
        self.act(Action::Delay(delay))
    }

    /// Passes such frames one after another at this many bytes per second. 0 is taken for 1.
    pub fn rate(self, bytes_per_second: u64) -> Rule {
        self.act(Action::Rate(bytes_per_second))
    }

    /// Holds the frame back, and all behind it in the same direction, until [`Rule::release`].
    ///
    /// The frame outlives its client: when the client closes meanwhile the server learns of it after the frame.
    pub fn hold(self) -> Rule {
        self.act(Action::Hold)
    }

    /// Throws the frame away and cuts the connection: of a request, the server never sees it.
    ///
    /// What came before it in the same direction is passed on first.
    pub fn drop_then_cut(self) -> Rule {
        let close = self.close;
        self.act(Action::DropThenCut(close))
    }

    /// Passes the frame and cuts the connection at once.
    ///
    /// Of a request, the client cannot know what became of it. The server's side of the connection stays open until
    /// the server has answered the request or closes, so nothing that was forwarded is lost on the way; the answer is
    /// noted as [`What::Replied`](super::What::Replied) and thrown away.
    pub fn forward_then_cut(self) -> Rule {
        let close = self.close;
        self.act(Action::ForwardThenCut(close))
    }

    /// Cuts the connection when the server's answer arrives, and throws the answer away: the request has been carried
    /// out, and the client does not know.
    ///
    /// It is counted by answers: the `n`-th answer to such a request. It is short for a matcher with
    /// [`Match::reply`] and [`drop_then_cut`](Self::drop_then_cut).
    pub fn cut_on_reply(mut self) -> Rule {
        self.matching = self.matching.reply();
        self.drop_then_cut()
    }

    /// Swallows the frame and everything after it on its connection, in both directions, and leaves the sockets open:
    /// even that one side closes is not told to the other.
    ///
    /// It lasts until [`Rule::release`], [`Rule::remove`] or [`FaultProxy::heal`](super::FaultProxy::heal). The
    /// connection is cut then: with a gap in it neither side could make sense of the stream.
    pub fn black_hole(self) -> Rule {
        self.act(Action::BlackHole)
    }

    fn act(self, action: Action) -> Rule {
        let Self {
            shared,
            matching,
            occurrence,
            ..
        } = self;
        let id = shared.look().add_rule(matching, occurrence, action);
        Rule { shared, id }
    }
}

impl Rule {
    /// How many times its action was carried out so far.
    ///
    /// A cut counts when the client's side has been closed, anything else when the frame arrives.
    pub fn count(&self) -> u64 {
        self.shared.look().rules().counts(self.id).1
    }

    /// How many frames have matched so far, those whose turn it was not included, and those that an earlier rule took
    /// not.
    pub fn matched(&self) -> u64 {
        self.shared.look().rules().counts(self.id).0
    }

    /// Waits for at most `within` until its action has been carried out at least once.
    ///
    /// # Errors
    ///
    /// [`Error::NotSeen`] if it was not, with the proxy's last events.
    ///
    /// # Cancel safety
    ///
    /// Safe: it only reads.
    pub async fn happened(&self, within: Duration) -> Result<(), Error> {
        self.happened_times(1, within).await
    }

    /// Waits for at most `within` until its action has been carried out at least `times` times.
    ///
    /// # Errors
    ///
    /// [`Error::NotSeen`] if it was not, with the proxy's last events.
    ///
    /// # Cancel safety
    ///
    /// Safe: it only reads.
    pub async fn happened_times(&self, times: u64, within: Duration) -> Result<(), Error> {
        let what = format!("{times} × {}", self.shared.look().rules().describe(self.id));
        self.shared
            .until(&what, within, |core| {
                (core.rules().counts(self.id).1 >= times).then_some(())
            })
            .await
    }

    /// Lets go what it holds and ends the black holes it has made. The rule stays in force.
    pub fn release(&self) {
        self.shared.want(|core| core.release(self.id));
    }

    /// Ends the rule: lets go what it holds, ends the black holes it has made, and takes no more frames.
    pub fn remove(&self) {
        self.shared.want(|core| core.remove_rule(self.id));
    }
}

impl std::fmt::Display for Rule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.shared.look().rules().describe(self.id))
    }
}
