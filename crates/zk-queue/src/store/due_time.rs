//! Decides by the leader's clock when items are due, and asks the leader for its time if it is not known.

use std::time::Duration;

use zk_core::Error;

use super::ItemStore;
use crate::deadline::Deadline;
use crate::leader_clock::whole_millis;

impl ItemStore {
    /// Returns the time by which items are due, in milliseconds since 1970; zero if the layout has no delays.
    ///
    /// It is the earliest time that the leader's clock can show, so no item is taken before it is due.
    pub(super) async fn time_for_delays(&self, deadline: Deadline) -> Result<u64, Error> {
        if self.options.layout.has_delays() {
            self.leader_time(deadline).await
        } else {
            Ok(0)
        }
    }

    /// Returns the earliest time that the leader's clock can show, in milliseconds since 1970.
    pub(super) async fn leader_time(&self, deadline: Deadline) -> Result<u64, Error> {
        if !self.leader_time.is_recent() {
            self.ask_for_time(deadline).await?;
        }
        Ok(self.leader_time.earliest().unwrap_or(0))
    }

    /// Returns when an item is due that is delayed from now on, by the latest time that the leader's clock can show.
    pub(crate) async fn due_after(
        &self,
        delay: Duration,
        deadline: Deadline,
    ) -> Result<u64, Error> {
        if !self.leader_time.is_recent() || !self.leader_time.is_exact() {
            self.ask_for_time(deadline).await?;
        }
        let latest = self.leader_time.latest().unwrap_or(0);
        Ok(latest.saturating_add(whole_millis(delay)))
    }

    /// Writes a token and nothing else, because the reply has a timestamp.
    async fn ask_for_time(&self, deadline: Deadline) -> Result<(), Error> {
        let committed = self
            .tokens
            .commit_once(deadline, |nothing_else| nothing_else);
        committed.await.map(drop).map_err(|failure| failure.error)
    }
}
