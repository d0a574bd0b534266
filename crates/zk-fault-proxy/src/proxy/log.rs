//! Reads the events that a proxy has logged.

use std::sync::Arc;

use super::event::Event;
use super::matching::Match;
use super::shared::SharedCore;

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
    shared: Arc<SharedCore>,
}

impl Log {
    pub(super) fn new(shared: Arc<SharedCore>) -> Self {
        Self { shared }
    }

    /// Returns the newest events, at most 200,000.
    pub fn events(&self) -> Vec<Event> {
        self.shared.core.lock().events.iter().cloned().collect()
    }

    /// Returns how many matching frames have arrived: requests from clients, replies from servers.
    pub fn count(&self, matching: &Match) -> usize {
        self.shared.core.lock().events.arrivals(matching)
    }

    /// Returns how many matching requests were written to a server; for a matcher of replies, how many replies were
    /// written to a client.
    pub fn count_forwarded(&self, matching: &Match) -> usize {
        self.shared.core.lock().events.departures(matching)
    }

    /// Discards all events, so that the counts of the log restart. The counts of rules go on.
    pub fn clear(&self) {
        self.shared.core.lock().events.clear();
    }
}

/// One event on each line.
impl std::fmt::Display for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for event in self.shared.core.lock().events.iter() {
            writeln!(f, "{event}")?;
        }
        Ok(())
    }
}
