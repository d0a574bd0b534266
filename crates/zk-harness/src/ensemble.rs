//! Starting an ensemble, looking at it, taking it down.

mod builder;
mod files;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::admin::{self, AdminError};
use crate::config::Plan;
use crate::error::Error;
use crate::health::{Answer, Health, Role};
use crate::ports;
use crate::process::ProcessState;
use crate::reaper::{self, Reaper};
use crate::server::Server;
use crate::spec::Warning;
use crate::wait::Looks;
use crate::wire;

pub use builder::EnsembleBuilder;

/// A set of running ZooKeeper servers.
///
/// # Dropping
///
/// When the value is dropped the servers are killed and, unless [`Keep`] says otherwise, their files removed; the drop
/// waits for that, some tens of milliseconds.
/// If the process ends without dropping it, a guard process does the same; see the [crate's guarantees](crate).
/// [`down`](Self::down) does it without blocking the thread and reports a failure.
/// An ensemble that was [detached](Self::detach) or [attached to](Self::attach) stays.
#[derive(Debug)]
pub struct Ensemble {
    plan: Arc<Plan>,
    servers: Vec<Server>,
    guard: Option<Reaper>,
    keep: Keep,
    report: StartReport,
    warnings: Vec<Warning>,
    hold: Option<File>,
}

/// When the files of an ensemble outlive its servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Keep {
    /// Never.
    Never,
    /// When the ensemble is dropped by a panic, that is, when a test fails. The path is printed to standard error.
    #[default]
    OnPanic,
    /// Always, as far as the process gets to drop the ensemble. The path is printed to standard error.
    Always,
}

/// How long each part of a start took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct StartReport {
    /// Finding ZooKeeper and Java, downloads included.
    pub find: Duration,
    /// Reserving ports and writing files.
    pub prepare: Duration,
    /// From the first process spawned until the last server answered on its client port.
    pub processes: Duration,
    /// From then until one server led and the others followed.
    pub election: Duration,
    /// From then until a node had been written and read through every server.
    pub canary: Duration,
    /// All of it.
    pub total: Duration,
}

/// What an ensemble looks like at one moment.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Status {
    /// Whether clients are served.
    pub health: Health,
    /// Each server, in the order of the ensemble.
    pub servers: Vec<ServerStatus>,
}

/// What one server looks like at one moment.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ServerStatus {
    /// The `myid`.
    pub id: u32,
    /// What the server says it is; nothing if it does not serve.
    pub role: Option<Role>,
    /// What its process is doing.
    pub process: ProcessState,
    /// The port for clients.
    pub client_port: u16,
    /// Its process id, if there is a process.
    pub pid: Option<i32>,
    /// Its directory.
    pub directory: PathBuf,
    /// Why there is no role.
    pub problem: Option<String>,
    epoch: u64,
    answered: bool,
}

impl Ensemble {
    /// Starts to describe an ensemble. Nothing happens before [`EnsembleBuilder::start`].
    pub fn builder() -> EnsembleBuilder {
        EnsembleBuilder::default()
    }

    /// Opens an ensemble that was [detached](Self::detach), whether its servers run or not.
    ///
    /// # Errors
    ///
    /// [`Error::BadState`] if the directory holds none.
    pub fn attach(directory: &Path) -> Result<Self, Error> {
        let plan = Arc::new(files::load(directory)?);
        Ok(Self::new(
            plan,
            None,
            Keep::Always,
            StartReport::default(),
            Vec::new(),
        ))
    }

    /// Whether `directory` holds a detached ensemble.
    pub fn exists(directory: &Path) -> bool {
        directory.join(files::STATE_FILE).exists()
    }

    fn new(
        plan: Arc<Plan>,
        guard: Option<Reaper>,
        keep: Keep,
        report: StartReport,
        warnings: Vec<Warning>,
    ) -> Self {
        let servers = (0..plan.members.len())
            .map(|index| Server::new(Arc::clone(&plan), index))
            .collect();
        Self {
            plan,
            servers,
            guard,
            keep,
            report,
            warnings,
            hold: None,
        }
    }

    /// Has the guard process that [`down`](Self::down) runs keep `file` open until it is done, so that a lock on it is
    /// not free before, also if this process is killed meanwhile.
    ///
    /// This is for an ensemble that was [attached to](Self::attach); for one that is started there is
    /// [`EnsembleBuilder::hold`].
    #[must_use]
    pub fn hold(mut self, file: File) -> Self {
        self.hold = Some(file);
        self
    }

    /// Leaves the servers running for good and returns their directory, for [`attach`](Self::attach).
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the state cannot be written; the servers are then killed and the files removed.
    pub fn detach(mut self) -> Result<PathBuf, Error> {
        files::save(&self.plan)?;
        if let Some(guard) = self.guard.take() {
            guard.dismiss()?;
        }
        Ok(self.plan.directory.clone())
    }

    /// The connection string for all servers: `host:port,host:port,…`.
    pub fn connect_string(&self) -> String {
        self.plan.connect_string()
    }

    /// The directory with everything but, if in memory, the data.
    pub fn directory(&self) -> &Path {
        &self.plan.directory
    }

    /// The ZooKeeper version that runs.
    pub fn version(&self) -> &str {
        &self.plan.distribution.version
    }

    /// The jars and the Java it runs with, for starting ZooKeeper's own programs.
    pub fn distribution(&self) -> &crate::dist::Distribution {
        &self.plan.distribution
    }

    /// The settings it was started with.
    pub fn spec(&self) -> &crate::Spec {
        &self.plan.spec
    }

    /// All servers, running or not.
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// What the settings allow but is seldom meant, such as an even number of servers.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// How long the start took, and what the time was spent on.
    pub fn start_report(&self) -> &StartReport {
        &self.report
    }

    /// The server with this id.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchServer`].
    pub fn server(&self, id: u32) -> Result<&Server, Error> {
        self.servers
            .iter()
            .find(|server| server.id() == id)
            .ok_or_else(|| Error::NoSuchServer {
                id,
                known: self.servers.iter().map(Server::id).collect(),
            })
    }

    /// The server that leads, or the only one.
    ///
    /// # Errors
    ///
    /// [`Error::NoQuorum`] if none does at this moment.
    ///
    /// # Cancel safety
    ///
    /// Safe: it only reads.
    pub async fn leader(&self) -> Result<&Server, Error> {
        let status = self.status().await;
        match status.health.leader() {
            Some(leader) => Ok(&self.servers[leader]),
            None => Err(Error::NoQuorum {
                seen: status.seen(),
            }),
        }
    }

    /// Waits for at most `within` until a server leads, as after the last leader was killed.
    ///
    /// # Errors
    ///
    /// [`Error::NoQuorum`] if none does by then.
    ///
    /// # Cancel safety
    ///
    /// Safe: it only reads.
    pub async fn wait_leader(&self, within: Duration) -> Result<&Server, Error> {
        let mut looks = Looks::within(within, LOOK_EVERY);
        loop {
            let leader = self.leader().await;
            if leader.is_ok() || !looks.again().await {
                return leader;
            }
        }
    }

    /// Asks every server what it is. A server that does not answer within 1 s counts as not serving.
    ///
    /// # Cancel safety
    ///
    /// Safe: it only reads.
    pub async fn status(&self) -> Status {
        let mut questions = JoinSet::new();
        for (index, member) in self.plan.members.iter().enumerate() {
            let address = member.client_address();
            // A server without a process is not asked: its port may by now be somebody else's.
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
        let mut servers: Vec<_> = self.servers.iter().map(ServerStatus::unasked).collect();
        for (index, answer) in questions.join_all().await {
            match answer {
                Ok(srvr) => {
                    servers[index].role = Some(srvr.mode.into());
                    servers[index].epoch = srvr.epoch();
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

    /// Waits until every server serves, one leads, and a node was written through each; for at most the spec's
    /// `start_timeout`.
    ///
    /// # Errors
    ///
    /// [`Error::ServerExited`] as soon as a process is gone, [`Error::NotServing`] at the deadline.
    ///
    /// # Cancel safety
    ///
    /// Safe: a canary node that was being written ends with its session.
    pub async fn wait_serving(&self) -> Result<(), Error> {
        self.wait_whole(Instant::now()).await.map(|_| ())
    }

    /// Waits until a quorum serves and a node was written through its leader; for at most the spec's `start_timeout`.
    ///
    /// # Errors
    ///
    /// [`Error::NotServing`] at the deadline.
    ///
    /// # Cancel safety
    ///
    /// Safe: a canary node that was being written ends with its session.
    pub async fn wait_quorum(&self) -> Result<(), Error> {
        let within = self.plan.spec.start_timeout;
        let mut looks = Looks::within(within, LOOK_EVERY);
        loop {
            let mut status = self.status().await;
            if let Some(leader) = status.health.leader() {
                match wire::canary(self.servers[leader].client_address(), CANARY_WITHIN).await {
                    Ok(()) => return Ok(()),
                    Err(error) => status.servers[leader].problem = Some(error.to_string()),
                }
            }
            if !looks.again().await {
                return Err(self.not_serving(within, &status));
            }
        }
    }

    /// Kills the servers, removes the files, and waits until both are gone.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the guard process could not be run, or could not kill or remove something.
    ///
    /// # Cancel safety
    ///
    /// Not safe to rely on: a dropped future leaves the work to the guard process, and nobody hears of a failure.
    pub async fn down(mut self) -> Result<(), Error> {
        let guard = self.guard.take();
        let hold = self.hold.take();
        let plan = Arc::clone(&self.plan);
        let cleaned = self
            .in_background(move || match guard {
                Some(mut guard) => guard.finish(),
                None => reaper::clean(&plan.directory, &files::everything(&plan), hold),
            })
            .await;
        self.bury();
        cleaned
    }

    /// Kills every server's process, also one whose pid file is lost, and leaves the files.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the guard process could not be run, or a process could not be killed.
    ///
    /// # Cancel safety
    ///
    /// A dropped future leaves the work to the guard process, and nobody hears of a failure.
    pub async fn kill_all(&self) -> Result<(), Error> {
        let plan = Arc::clone(&self.plan);
        let halted = self
            .in_background(move || reaper::halt(&plan.directory))
            .await;
        self.bury();
        halted
    }

    /// Leaves no zombie of a server that the guard process has killed.
    fn bury(&self) {
        for server in &self.servers {
            server.bury();
        }
    }

    async fn in_background(
        &self,
        work: impl FnOnce() -> Result<(), Error> + Send + 'static,
    ) -> Result<(), Error> {
        tokio::task::spawn_blocking(work)
            .await
            .unwrap_or_else(|error| {
                Err(Error::io(
                    "run the guard process for",
                    &self.plan.directory,
                    error.into(),
                ))
            })
    }

    /// Starts every server whose process does not run.
    ///
    /// # Errors
    ///
    /// Those of [`Server::start`], [`Error::PortTaken`] if another ensemble has reserved a port meanwhile, and
    /// [`Error::Io`] if a file cannot be written.
    pub fn start_stopped(&self) -> Result<(), Error> {
        if let Some(file) = &self.plan.port_file {
            let ports = self.plan.ports();
            ports::renew(file, &self.plan.directory, ports).map_err(|refusal| match refusal {
                ports::Refusal::Failed(error) => error,
                ports::Refusal::Taken { port, by } => Error::PortTaken { port, by },
            })?;
        }
        // After a reboot the memory file system is empty.
        files::write(&self.plan)?;
        for server in &self.servers {
            if server.process_state() == ProcessState::Stopped {
                server.start()?;
            }
        }
        Ok(())
    }

    /// Whether the servers' data is there. In memory it does not survive a reboot.
    pub fn has_data(&self) -> bool {
        self.plan
            .members
            .iter()
            .all(|member| self.plan.data_directory(member.id).exists())
    }

    /// Starts all servers and waits until all is well; says when, and then what [`wait_whole`](Self::wait_whole) says.
    async fn begin(&self) -> Result<[Instant; 4], Error> {
        let spawned = Instant::now();
        for server in &self.servers {
            server.start()?;
        }
        let [answered, settled, done] = self.wait_whole(spawned).await?;
        Ok([spawned, answered, settled, done])
    }

    /// Cleans up for another attempt, whatever [`Keep`] says.
    ///
    /// A directory that was asked for stays, empty: the caller may have a lock on it.
    fn make_room(mut self, spare: bool) -> Result<(), Error> {
        let Some(mut guard) = self.guard.take() else {
            return Ok(());
        };
        if spare {
            guard.spare(&self.plan.directory)?;
        }
        let cleaned = guard.finish();
        self.bury();
        cleaned
    }

    /// Waits until all is well, and says when all servers answered, when one led, and when the canaries were through.
    async fn wait_whole(&self, started: Instant) -> Result<[Instant; 3], Error> {
        let within = self.plan.spec.start_timeout;
        let mut answered = None;
        let mut settled = None;
        let mut looks = Looks::within(within.saturating_sub(started.elapsed()), LOOK_EVERY);
        loop {
            if let Some(dead) = self.servers.iter().find(|server| server.has_exited()) {
                let (id, log, tail) = (dead.id(), dead.log_file(), dead.log_tail(TAIL_LINES));
                return Err(Error::ServerExited { id, log, tail });
            }
            let mut status = self.status().await;
            // An answer that says "not serving" is an answer: the process is up and looks for a leader.
            if status.servers.iter().all(|server| server.answered) {
                answered.get_or_insert_with(Instant::now);
            }
            if let Health::Whole { .. } = status.health {
                let settled = *settled.get_or_insert_with(Instant::now);
                match self.canaries().await {
                    Ok(()) => return Ok([answered.unwrap_or(settled), settled, Instant::now()]),
                    Err((index, problem)) => status.servers[index].problem = Some(problem),
                }
            }
            if !looks.again().await {
                return Err(self.not_serving(within, &status));
            }
        }
    }

    /// Writes, reads and removes a node through every server.
    async fn canaries(&self) -> Result<(), (usize, String)> {
        let mut canaries = JoinSet::new();
        for (index, member) in self.plan.members.iter().enumerate() {
            let address = member.client_address();
            canaries.spawn(async move {
                wire::canary(address, CANARY_WITHIN)
                    .await
                    .map_err(|error| (index, error.to_string()))
            });
        }
        canaries.join_all().await.into_iter().collect()
    }

    fn not_serving(&self, within: Duration, status: &Status) -> Error {
        let blamed = status
            .servers
            .iter()
            .position(|server| server.problem.is_some())
            .map_or(&self.servers[0], |index| &self.servers[index]);
        Error::NotServing {
            within,
            seen: status.seen(),
            id: blamed.id(),
            log: blamed.log_file(),
            tail: blamed.log_tail(TAIL_LINES),
        }
    }
}

impl Status {
    /// What each server answered, on one line.
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
    fn unasked(server: &Server) -> Self {
        let found = server.find();
        Self {
            id: server.id(),
            role: None,
            process: found.map_or(ProcessState::Stopped, |(_, state)| state),
            client_port: server.client_port(),
            pid: found.map(|(pid, _)| pid.as_raw_pid()),
            directory: server.directory(),
            problem: None,
            epoch: 0,
            answered: false,
        }
    }
}

impl Drop for Ensemble {
    fn drop(&mut self) {
        let Some(mut guard) = self.guard.take() else {
            return;
        };
        let keep = match self.keep {
            Keep::Never => false,
            Keep::OnPanic => std::thread::panicking(),
            Keep::Always => true,
        };
        let kept = keep && guard.keep_files().is_ok();
        if kept {
            let directory = self.plan.directory.display();
            #[expect(
                clippy::print_stderr,
                reason = "the evidence of a failed test is of no use if nobody finds it"
            )]
            {
                eprintln!("the files of the ensemble are kept: {directory}");
            }
            if let Err(error) = files::save(&self.plan) {
                tracing::warn!(%error, "the state of the kept ensemble could not be written");
            }
        }
        if let Err(error) = guard.finish() {
            tracing::warn!(%error, directory = %self.plan.directory.display(), "the ensemble was not cleaned up");
        }
        self.bury();
        if let (true, Some(file)) = (kept, &self.plan.port_file) {
            // The files are for a person to look at, and the next run of the test may ask for the same ports. Starting
            // the servers again reserves them again.
            drop(std::fs::remove_file(file));
        }
    }
}

const LOOK_EVERY: Duration = Duration::from_millis(20);
const STATUS_WITHIN: Duration = Duration::from_secs(1);
const CANARY_WITHIN: Duration = Duration::from_secs(5);
const TAIL_LINES: usize = 15;
