//! Asking what the proxy has seen.

use std::sync::Arc;

use super::event::Event;
use super::matching::Match;
use super::shared::Shared;

/// What a proxy has seen and done: an oracle for tests.
///
/// It always shows the present state, and is of use when the proxy has ended, too.
///
/// ```no_run
/// # async fn demo(proxy: zk_fault_proxy::FaultProxy) {
/// use zk_fault_proxy::Match;
///
/// let creates = Match::create("/locks/**");
/// assert_eq!(proxy.log().count(&creates), 2, "the create was sent twice\n{}", proxy.log());
/// assert_eq!(proxy.log().count_forwarded(&creates), 1, "and reached a server once");
/// assert_eq!(proxy.log().count(&creates.reply_code(0)), 1, "which carried it out");
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Log {
    shared: Arc<Shared>,
}

impl Log {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// All events that are remembered: the newest 200,000.
    pub fn events(&self) -> Vec<Event> {
        self.shared.look().journal.events().cloned().collect()
    }

    /// How many events have been forgotten, because newer ones needed the room.
    pub fn forgotten(&self) -> u64 {
        self.shared.look().journal.forgotten()
    }

    /// How many frames that match have arrived, whatever became of them: requests from clients, replies from servers.
    pub fn count(&self, matching: &Match) -> usize {
        self.shared.look().journal.arrivals(matching).count()
    }

    /// How many requests that match were written to a server; of a matcher for replies, how many were written to the
    /// client.
    pub fn count_forwarded(&self, matching: &Match) -> usize {
        self.shared.look().journal.departures(matching).count()
    }

    /// The events of the arrivals that match, in order.
    pub fn arrivals(&self, matching: &Match) -> Vec<Event> {
        let core = self.shared.look();
        core.journal.arrivals(matching).cloned().collect()
    }

    /// The newest event of an arrival that matches.
    pub fn last(&self, matching: &Match) -> Option<Event> {
        let core = self.shared.look();
        core.journal.arrivals(matching).next_back().cloned()
    }

    /// Forgets all events so far, so that counts begin anew. Rules count on.
    pub fn clear(&self) {
        self.shared.look().journal.clear();
    }
}

/// One event on each line.
impl std::fmt::Display for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for event in self.shared.look().journal.events() {
            writeln!(f, "{event}")?;
        }
        Ok(())
    }
}
