//! Reads the events that a proxy has logged.

use std::sync::Arc;

use super::event::Event;
use super::matching::Match;
use super::shared::Shared;

/// The events of a proxy, for the assertions of a test.
///
/// It always shows the current state, and remains readable when the proxy has ended.
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

    /// Returns the newest events, at most 200,000.
    pub fn events(&self) -> Vec<Event> {
        self.shared.lock().journal.events().cloned().collect()
    }

    /// Returns how many old events were discarded.
    pub fn forgotten(&self) -> u64 {
        self.shared.lock().journal.forgotten()
    }

    /// Returns how many matching frames have arrived: requests from clients, replies from servers.
    pub fn count(&self, matching: &Match) -> usize {
        self.shared.lock().journal.arrivals(matching).count()
    }

    /// Returns how many matching requests were written to a server; for a matcher of replies, how many replies were
    /// written to a client.
    pub fn count_forwarded(&self, matching: &Match) -> usize {
        self.shared.lock().journal.departures(matching).count()
    }

    /// Returns the matching arrivals, in order.
    pub fn arrivals(&self, matching: &Match) -> Vec<Event> {
        let core = self.shared.lock();
        core.journal.arrivals(matching).cloned().collect()
    }

    /// Returns the newest matching arrival.
    pub fn last(&self, matching: &Match) -> Option<Event> {
        let core = self.shared.lock();
        core.journal.arrivals(matching).next_back().cloned()
    }

    /// Discards all events, so that the counts of the log restart. The counts of rules go on.
    pub fn clear(&self) {
        self.shared.lock().journal.clear();
    }
}

/// One event on each line.
impl std::fmt::Display for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for event in self.shared.lock().journal.events() {
            writeln!(f, "{event}")?;
        }
        Ok(())
    }
}
