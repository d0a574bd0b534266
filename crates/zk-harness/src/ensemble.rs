//! Starting an ensemble, looking at it, taking it down.

mod builder;
mod files;
mod network;
mod status;
mod waiting;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use zk_history::History;
use zk_history::check::{Judgement, ServerLogs, Verdict};
use zk_provision::Distribution;

use crate::config::{Plan, STATE_FILE};
use crate::container::Fleet;
use crate::error::Error;
use crate::ports;
use crate::process::ProcessState;
use crate::reaper::{self, Reaper};
use crate::server::Server;
use crate::spec::Warning;

use network::{Links, Proxy};

pub use builder::EnsembleBuilder;
pub use status::{ServerStatus, Status};

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
    /// The containers, if the servers run in such.
    fleet: Option<Fleet>,
    keep: Keep,
    report: StartReport,
    warnings: Vec<Warning>,
    hold: Option<File>,
    proxy: Option<Proxy>,
    links: Option<Links>,
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
    /// From the first process or container until the last server answered on its client port.
    pub processes: Duration,
    /// From then until one server led and the others followed.
    pub election: Duration,
    /// From then until a node had been written and read through every server.
    pub canary: Duration,
    /// All of it.
    pub total: Duration,
    /// How this release of ZooKeeper is known to lose acknowledged writes, if it is.
    pub warning: Option<&'static str>,
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
    /// [`Error::BadState`] if the directory holds none, [`Error::Unavailable`] if its servers run in containers and there
    /// is no container engine, or this program was built without the feature `containers`.
    pub fn attach(directory: &Path) -> Result<Self, Error> {
        let plan = Arc::new(files::load(directory)?);
        let report = StartReport::default();
        let mut ensemble = Self::new(Arc::clone(&plan), None, Keep::Always, report, Vec::new());
        if plan.containers.is_some() {
            ensemble.set_fleet(Fleet::attach(plan)?);
        }
        Ok(ensemble)
    }

    /// Whether `directory` holds a detached ensemble.
    pub fn exists(directory: &Path) -> bool {
        directory.join(STATE_FILE).exists()
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
            fleet: None,
            keep,
            report,
            warnings,
            hold: None,
            proxy: None,
            links: None,
        }
    }

    /// Starts the servers in containers.
    #[cfg(feature = "containers")]
    async fn contain(&mut self, image: crate::container::ContainerImage) -> Result<(), Error> {
        let fleet = Fleet::launch(Arc::clone(&self.plan), image).await?;
        self.set_fleet(fleet);
        Ok(())
    }

    /// Makes the servers those of containers.
    fn set_fleet(&mut self, fleet: Fleet) {
        fleet.assign_to(&mut self.servers);
        self.fleet = Some(fleet);
    }

    /// Whether the servers run in [containers](crate::container), not as processes.
    pub fn is_in_containers(&self) -> bool {
        self.plan.containers.is_some()
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
    /// The fault proxies and the links between the servers live in this process and end; whoever attaches can have them
    /// again with [`start_proxies`](Self::start_proxies). Without their links the servers do not reach each other.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the state cannot be written; the servers are then killed and the files removed.
    pub fn detach(mut self) -> Result<PathBuf, Error> {
        files::save(&self.plan)?;
        if let Some(guard) = self.guard.take() {
            guard.dismiss()?;
        }
        if let Some(fleet) = &mut self.fleet {
            fleet.leave();
        }
        Ok(self.plan.directory.clone())
    }

    /// A command-line argument by which a process belongs to this ensemble: [`down`](Self::down) and
    /// [`kill_all`](Self::kill_all) kill every process that has it, as they kill servers.
    pub fn marker(&self, role: &str) -> String {
        format!("{}{role}/", self.plan.marker())
    }

    /// The directory with everything but, if in memory, the data.
    pub fn directory(&self) -> &Path {
        &self.plan.directory
    }

    /// The directories with all of its files: [`directory`](Self::directory), and the one in the machine's memory if the
    /// data is there.
    pub fn directories(&self) -> impl Iterator<Item = &Path> {
        let memory = self.plan.memory_directory.as_deref();
        [self.directory()].into_iter().chain(memory)
    }

    /// The ZooKeeper version that runs.
    pub fn version(&self) -> &str {
        &self.plan.distribution.version
    }

    /// The jars and the Java it runs with, for starting ZooKeeper's own programs.
    pub fn distribution(&self) -> &Distribution {
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

    /// Kills the servers, removes the files and the containers, and waits until all are gone.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the guard process could not be run, or could not kill or remove something, [`Error::Container`] and
    /// [`Error::Network`] if the container engine could not.
    ///
    /// # Cancel safety
    ///
    /// Not safe to rely on: a dropped future leaves the work to the guard process, and nobody hears of a failure.
    pub async fn down(mut self) -> Result<(), Error> {
        // Before the files, by which another process finds those that are left.
        if let Some(fleet) = self.fleet.take() {
            self.in_background(move || fleet.remove()).await?;
        }
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

    /// Kills every server's process, also one whose pid file is lost, and leaves the files and the containers.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the guard process could not be run, or a process could not be killed, [`Error::Container`] if the
    /// container engine could not do so.
    ///
    /// # Cancel safety
    ///
    /// A dropped future leaves the work to the guard process, and nobody hears of a failure.
    pub async fn kill_all(&self) -> Result<(), Error> {
        if self.fleet.is_some() {
            for server in &self.servers {
                if server.process_state() != ProcessState::Stopped {
                    server.kill().await?;
                }
            }
        }
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

    /// Starts all servers and waits until all is well; says what [`wait_whole`](Self::wait_whole) says.
    async fn begin(&self) -> Result<[Instant; 3], Error> {
        let spawned = Instant::now();
        for server in &self.servers {
            // A container runs as soon as it is there.
            if self.fleet.is_none() {
                server.start()?;
            }
        }
        self.wait_whole(spawned).await
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
        let in_containers = self.fleet.take().is_some();
        let kept = keep && guard.keep_files().is_ok();
        if kept {
            let directory = self.plan.directory.display();
            #[expect(
                clippy::print_stderr,
                reason = "the evidence of a failed test is of no use if nobody finds it"
            )]
            {
                eprintln!("the files of the ensemble are kept: {directory}");
                if let Some(lost) = lost_writes(&self.plan.directory) {
                    eprintln!("{lost}");
                }
            }
            // Containers that are gone cannot be attached to.
            if !in_containers && let Err(error) = files::save(&self.plan) {
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

/// What the servers' logs say of committed writes that are lost, so that nobody looks for the fault in a client.
fn lost_writes(directory: &Path) -> Option<Verdict> {
    let logs = ServerLogs::read([directory]).ok()?;
    let verdict = logs.verdict(&History::default())?;
    (verdict.judgement == Judgement::RolledBack).then_some(verdict)
}

const POLL_EVERY: Duration = Duration::from_millis(20);
