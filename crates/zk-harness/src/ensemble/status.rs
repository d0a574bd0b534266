//! Reads the status of an ensemble and finds its leader.

use std::path::PathBuf;
use std::time::Duration;

use tokio::task::JoinSet;

use super::{Ensemble, POLL_EVERY};
use crate::admin::{self, AdminError};
use crate::error::Error;
use crate::health::{Answer, Health, Role};
use crate::process::ProcessState;
use crate::server::Server;
use crate::wait::Polls;

/// The status of an ensemble at one moment.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Status {
    /// Whether clients are served.
    pub health: Health,
    /// Each server, in the order of the ensemble.
    pub servers: Vec<ServerStatus>,
}

/// The status of one server at one moment.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ServerStatus {
    /// The `myid`.
    pub id: u32,
    /// The role that the server reports; `None` if it does not serve.
    pub role: Option<Role>,
    /// The state of its process.
    pub process: ProcessState,
    /// The client port; 0 if it has none, such as a stopped container.
    pub client_port: u16,
    /// Its process id, if there is a process.
    pub pid: Option<i32>,
    /// The name of its container, if it runs in one.
    pub container: Option<String>,
    /// The ZooKeeper version that the server reports; `None` if it does not serve.
    pub version: Option<String>,
    /// Its directory.
    pub directory: PathBuf,
    /// Why there is no role.
    pub problem: Option<String>,
    pub(super) epoch: u64,
    pub(super) answered: bool,
}

impl Ensemble {
    /// Returns the leader, or the only server.
    ///
    /// # Errors
    ///
    /// [`Error::NoQuorum`] if there is no leader at this moment.
    pub async fn leader(&self) -> Result<&Server, Error> {
        let status = self.status().await;
        match status.health.leader() {
            Some(leader) => Ok(&self.servers[leader]),
            None => Err(Error::NoQuorum {
                seen: status.seen(),
            }),
        }
    }

    /// Waits at most `within` for a leader, for example after the last one was killed.
    ///
    /// # Errors
    ///
    /// [`Error::NoQuorum`] if there is no leader by then.
    pub async fn wait_leader(&self, within: Duration) -> Result<&Server, Error> {
        let mut polls = Polls::within(within, POLL_EVERY);
        loop {
            let leader = self.leader().await;
            if leader.is_ok() || !polls.again().await {
                return leader;
            }
        }
    }

    /// Sends `srvr` to every server. A server that does not answer within 5 s counts as not serving.
    pub async fn status(&self) -> Status {
        let mut questions = JoinSet::new();
        for (index, server) in self.servers.iter().enumerate() {
            let address = server.client_address();
            // A stopped server's port may belong to another program by now.
            let process = self.servers[index].process_state();
            questions.spawn(async move {
                let answer = match process {
                    ProcessState::Stopped => Err((false, "its process does not run".to_owned())),
                    ProcessState::Paused => Err((false, "its process is paused".to_owned())),
                    ProcessState::Running => {
                        admin::srvr(address, STATUS_WITHIN).await.map_err(|error| {
                            (matches!(error, AdminError::NotServing), error.to_string())
                        })
                    }
                };
                (index, answer)
            });
        }
        let mut servers: Vec<_> = self
            .servers
            .iter()
            .map(ServerStatus::without_answer)
            .collect();
        for (index, answer) in questions.join_all().await {
            match answer {
                Ok(srvr) => {
                    servers[index].role = Some(srvr.mode);
                    servers[index].epoch = srvr.epoch();
                    servers[index].version = Some(srvr.version);
                    servers[index].answered = true;
                }
                Err((answered, problem)) => {
                    servers[index].problem = Some(problem);
                    servers[index].answered = answered;
                }
            }
        }
        let answers: Vec<Answer> = servers
            .iter()
            .map(|server| server.role.map(|role| (role, server.epoch)))
            .collect();
        Status {
            health: Health::judge(&answers),
            servers,
        }
    }
}

impl Status {
    /// Returns each server's role or problem, in one line.
    pub fn seen(&self) -> String {
        let lines: Vec<_> = self
            .servers
            .iter()
            .map(|server| match (&server.problem, server.role) {
                (Some(problem), _) => format!("server {}: {problem}", server.id),
                (None, Some(role)) => format!("server {}: {role}", server.id),
                (None, None) => format!("server {}: no answer", server.id),
            })
            .collect();
        lines.join("; ")
    }
}

impl ServerStatus {
    pub(super) fn without_answer(server: &Server) -> Self {
        let found = server.find();
        Self {
            id: server.id(),
            role: None,
            process: server.process_state(),
            client_port: server.client_port(),
            pid: found.map(|(pid, _)| pid.as_raw_pid()),
            container: server.container().map(str::to_owned),
            version: None,
            directory: server.directory(),
            problem: None,
            epoch: 0,
            answered: false,
        }
    }
}

/// A busy machine may delay an answer by seconds. A process that is paused is not asked.
const STATUS_WITHIN: Duration = Duration::from_secs(5);
