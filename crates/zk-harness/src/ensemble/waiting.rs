//! Waits until an ensemble serves.

use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use zk_fault_proxy::probe_writes;

use super::status::Status;
use super::{Ensemble, POLL_EVERY};
use crate::error::Error;
use crate::health::Health;
use crate::wait::Polls;

impl Ensemble {
    /// Waits, at most the spec's `start_timeout`, until every server serves, one leads, and a node was written through
    /// each.
    ///
    /// # Errors
    ///
    /// [`Error::ServerExited`] as soon as a process has exited, [`Error::NotServing`] at the deadline.
    pub async fn wait_serving(&self) -> Result<(), Error> {
        self.wait_all_serving(Instant::now()).await.map(|_| ())
    }

    /// Waits, at most the spec's `start_timeout`, until a quorum serves and a node was written through its leader.
    ///
    /// # Errors
    ///
    /// [`Error::NotServing`] at the deadline.
    pub async fn wait_quorum(&self) -> Result<(), Error> {
        let within = self.plan.spec.start_timeout;
        let mut polls = Polls::within(within, POLL_EVERY);
        loop {
            let mut status = self.status().await;
            if let Some(leader) = status.health.leader() {
                match probe_writes(self.servers[leader].client_address(), PROBE_WITHIN).await {
                    Ok(()) => return Ok(()),
                    Err(error) => status.servers[leader].problem = Some(error.to_string()),
                }
            }
            if !polls.again().await {
                return Err(self.not_serving(within, &status));
            }
        }
    }

    /// Waits until all servers serve, and returns when all answered, when one led, and when the probes had succeeded.
    pub(super) async fn wait_all_serving(&self, started: Instant) -> Result<[Instant; 3], Error> {
        let within = self.plan.spec.start_timeout;
        let mut answered = None;
        let mut elected = None;
        let mut polls = Polls::within(within.saturating_sub(started.elapsed()), POLL_EVERY);
        loop {
            if let Some(dead) = self.servers.iter().find(|server| server.has_exited()) {
                let (id, log, tail) = (dead.id(), dead.log_file(), dead.log_tail(TAIL_LINES));
                return Err(Error::ServerExited { id, log, tail });
            }
            let mut status = self.status().await;
            // "Not serving" is an answer, too: the process runs and takes part in an election.
            if status.servers.iter().all(|server| server.answered) {
                answered.get_or_insert_with(Instant::now);
            }
            if let Health::AllServing { .. } = status.health {
                let elected = *elected.get_or_insert_with(Instant::now);
                match self.probe_all().await {
                    Ok(()) => return Ok([answered.unwrap_or(elected), elected, Instant::now()]),
                    Err((index, problem)) => status.servers[index].problem = Some(problem),
                }
            }
            if !polls.again().await {
                return Err(self.not_serving(within, &status));
            }
        }
    }

    /// Writes, reads and removes a node through every server.
    async fn probe_all(&self) -> Result<(), (usize, String)> {
        let mut probes = JoinSet::new();
        for (index, server) in self.servers.iter().enumerate() {
            let address = server.client_address();
            probes.spawn(async move {
                probe_writes(address, PROBE_WITHIN)
                    .await
                    .map_err(|error| (index, error.to_string()))
            });
        }
        probes.join_all().await.into_iter().collect()
    }

    pub(super) fn not_serving(&self, within: Duration, status: &Status) -> Error {
        let failed = status
            .servers
            .iter()
            .position(|server| server.problem.is_some())
            .map_or(&self.servers[0], |index| &self.servers[index]);
        Error::NotServing {
            within,
            seen: status.seen(),
            id: failed.id(),
            log: failed.log_file(),
            tail: failed.log_tail(TAIL_LINES),
        }
    }
}

const PROBE_WITHIN: Duration = Duration::from_secs(5);
const TAIL_LINES: usize = 15;
