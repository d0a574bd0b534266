//! Starts, attaches to, detaches and removes ensembles.

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
use crate::container::Containers;
use crate::error::Error;
use crate::ports;
use crate::process::ProcessState;
use crate::reaper::{self, Reaper};
use crate::server::Server;
use crate::spec::Warning;
use crate::wait::until_blocking;

use network::{Links, Proxy};

pub use builder::EnsembleBuilder;
pub use status::{ServerStatus, Status};

/// A set of running ZooKeeper servers.
///
/// # Dropping
///
/// Dropping it kills the servers, removes their files unless [`Keep`] prevents that, and blocks until this is done,
/// some tens of milliseconds.
/// If the process ends without dropping it, a guard process does the same; see the [crate's guarantees](crate).
/// [`down`](Self::down) does it without blocking the thread and returns errors.
/// An ensemble that was [detached](Self::detach) or [attached to](Self::attach) is not removed.
#[derive(Debug)]
pub struct Ensemble {
    plan: Arc<Plan>,
    servers: Vec<Server>,
    guard: Option<Reaper>,
    /// The containers, if the servers run in containers.
    containers: Option<Containers>,
    keep: Keep,
    report: StartReport,
    warnings: Vec<Warning>,
    hold: Option<File>,
    proxy: Option<Proxy>,
    links: Option<Links>,
}

/// When the files of an ensemble are kept after its servers were killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Keep {
    /// Never.
    Never,
    /// When a panic drops the ensemble, that is, when a test fails. The path is printed to standard error.
    #[default]
    OnPanic,
    /// Whenever the ensemble is dropped. The path is printed to standard error.
    Always,
}

/// The durations of the steps of a start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct StartReport {
    /// Finding ZooKeeper and Java, downloads included.
    pub find: Duration,
    /// Reserving ports and writing files.
    pub prepare: Duration,
    /// From the first process or container until every server answered on its client port.
    pub processes: Duration,
    /// From then until one server led and the others followed.
    pub election: Duration,
    /// From then until a node was written and read through every server.
    pub probe: Duration,
    /// All steps.
    pub total: Duration,
    /// How this release of ZooKeeper loses acknowledged writes, if that is known.
    pub warning: Option<&'static str>,
}

impl Ensemble {
    /// Returns a builder with the default settings.
    pub fn builder() -> EnsembleBuilder {
        EnsembleBuilder::default()
    }

    /// Opens an ensemble that was [detached](Self::detach), whether its servers run or not.
    ///
    /// # Errors
    ///
    /// [`Error::BadState`] if the directory contains none, [`Error::Unavailable`] if its servers run in containers and
    /// there is no container engine, or this program was built without the feature `containers`.
    pub fn attach(directory: &Path) -> Result<Self, Error> {
        let plan = Arc::new(files::load(directory)?);
        let report = StartReport::default();
        let mut ensemble = Self::new(Arc::clone(&plan), None, Keep::Always, report, Vec::new());
        if plan.containers.is_some() {
            ensemble.set_containers(Containers::attach(plan)?);
        }
        Ok(ensemble)
    }

    /// Returns whether `directory` contains a detached ensemble.
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
            containers: None,
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
    async fn start_containers(
        &mut self,
        image: crate::container::ContainerImage,
    ) -> Result<(), Error> {
        let containers = Containers::launch(Arc::clone(&self.plan), image).await?;
        self.set_containers(containers);
        Ok(())
    }

    /// Assigns the containers to the servers.
    fn set_containers(&mut self, containers: Containers) {
        containers.assign_to(&mut self.servers);
        self.containers = Some(containers);
    }

    /// Returns whether the servers run in [containers](crate::container).
    pub fn is_in_containers(&self) -> bool {
        self.plan.containers.is_some()
    }

    /// Lets the guard process of [`down`](Self::down) keep `file` open until it is done, so that a lock on the file is
    /// not released earlier, even if this process is killed.
    ///
    /// This is for an ensemble that was [attached to](Self::attach); see [`EnsembleBuilder::hold`] for a new one.
    #[must_use]
    pub fn hold(mut self, file: File) -> Self {
        self.hold = Some(file);
        self
    }

    /// Leaves the servers running and returns their directory, for [`attach`](Self::attach).
    ///
    /// The fault proxies and the links between the servers run in this process and end. After attaching,
    /// [`start_proxies`](Self::start_proxies) starts them again. Without the links the servers cannot connect to each
    /// other.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the state cannot be written; the servers are then killed and the files removed.
    pub fn detach(mut self) -> Result<PathBuf, Error> {
        files::save(&self.plan)?;
        if let Some(guard) = self.guard.take() {
            guard.dismiss()?;
        }
        if let Some(containers) = &mut self.containers {
            containers.leave();
        }
        Ok(self.plan.directory.clone())
    }

    /// Returns a command-line argument that assigns a process to this ensemble: [`down`](Self::down) and
    /// [`kill_all`](Self::kill_all) kill every process with this argument.
    pub fn marker(&self, role: &str) -> String {
        format!("{}{role}/", self.plan.marker())
    }

    /// Returns the directory with all files, except the data if that is in memory.
    pub fn directory(&self) -> &Path {
        &self.plan.directory
    }

    /// Returns the directory, and the one in the memory file system if the data is there.
    pub fn directories(&self) -> impl Iterator<Item = &Path> {
        let memory = self.plan.memory_directory.as_deref();
        [self.directory()].into_iter().chain(memory)
    }

    /// Returns the ZooKeeper version.
    pub fn version(&self) -> &str {
        &self.plan.distribution.version
    }

    /// Returns the jars and the Java of the servers, for starting ZooKeeper's other programs.
    pub fn distribution(&self) -> &Distribution {
        &self.plan.distribution
    }

    /// Returns the settings it was started with.
    pub fn spec(&self) -> &crate::Spec {
        &self.plan.spec
    }

    /// Returns all servers, running or not.
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// Returns warnings about the settings, for example for an even number of servers.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// Returns the durations of the steps of the start.
    pub fn start_report(&self) -> &StartReport {
        &self.report
    }

    /// Returns the server with this id.
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

    /// Kills the servers, removes the files and the containers, and waits until this is done.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the guard process cannot be run, or cannot kill or remove something, [`Error::Container`] and
    /// [`Error::Network`] if the container engine cannot.
    ///
    /// # Cancel safety
    ///
    /// After a cancelled call the guard process does the work, and a failure is not reported.
    pub async fn down(mut self) -> Result<(), Error> {
        // Before the files, by which another process finds containers that are left.
        if let Some(containers) = self.containers.take() {
            self.in_background(move || containers.remove()).await?;
        }
        let guard = self.guard.take();
        let hold = self.hold.take();
        let plan = Arc::clone(&self.plan);
        let cleaned = self
            .in_background(move || match guard {
                Some(mut guard) => guard.finish(),
                None => reaper::clean(&plan.directory, &files::removable_paths(&plan), hold),
            })
            .await;
        self.reap();
        cleaned
    }

    /// Kills every server's process, even without its pid file, and keeps the files and the containers.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the guard process cannot be run or a process cannot be killed, [`Error::Container`] if the
    /// container engine cannot do so.
    ///
    /// # Cancel safety
    ///
    /// The work continues in the background, and a failure is not reported. Containers that were not killed yet go on.
    pub async fn kill_all(&self) -> Result<(), Error> {
        if self.containers.is_some() {
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
        self.reap();
        halted
    }

    /// Reaps the servers that the guard process has killed.
    fn reap(&self) {
        for server in &self.servers {
            let reaped = until_blocking(REAP_LIMIT, REAP_PAUSE, || {
                server.reap().then_some(()).ok_or(())
            });
            if reaped.is_err() {
                tracing::warn!(
                    id = server.id(),
                    "the killed server has not ended within {REAP_LIMIT:?}"
                );
            }
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

    /// Starts every stopped server.
    ///
    /// # Errors
    ///
    /// The errors of [`Server::start`], [`Error::PortTaken`] if another ensemble has reserved a port meanwhile, and
    /// [`Error::Io`] if a file cannot be written.
    pub fn start_stopped(&self) -> Result<(), Error> {
        if let Some(file) = &self.plan.port_file {
            let ports = self.plan.ports();
            ports::renew(file, &self.plan.directory, ports).map_err(|error| match error {
                ports::ReserveError::Failed(error) => error,
                ports::ReserveError::Taken { port, by } => Error::PortTaken { port, by },
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

    /// Returns whether the servers' data exists. Data in memory does not survive a reboot.
    pub fn has_data(&self) -> bool {
        self.plan
            .members
            .iter()
            .all(|member| self.plan.data_directory(member.id).exists())
    }

    /// Starts all servers, and waits for and returns what [`wait_all_serving`](Self::wait_all_serving) does.
    async fn start_all(&self) -> Result<[Instant; 3], Error> {
        let spawned = Instant::now();
        for server in &self.servers {
            // A container runs as soon as it is created.
            if self.containers.is_none() {
                server.start()?;
            }
        }
        self.wait_all_serving(spawned).await
    }

    /// Cleans up for another attempt, regardless of [`Keep`].
    ///
    /// With `keep_directory` the directory itself stays, empty: the caller may have a lock on it.
    fn remove_for_retry(mut self, keep_directory: bool) -> Result<(), Error> {
        let Some(mut guard) = self.guard.take() else {
            return Ok(());
        };
        if keep_directory {
            guard.empty_at_end(&self.plan.directory)?;
        }
        let cleaned = guard.finish();
        self.reap();
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
        let in_containers = self.containers.take().is_some();
        let kept = keep && guard.keep_files().is_ok();
        if kept {
            let directory = self.plan.directory.display();
            #[expect(
                clippy::print_stderr,
                reason = "the reader of a failed test has to find its files"
            )]
            {
                eprintln!("the files of the ensemble are kept: {directory}");
                if let Some(lost) = lost_writes(&self.plan.directory) {
                    eprintln!("{lost}");
                }
            }
            // The containers are removed, so there is nothing to attach to.
            if !in_containers && let Err(error) = files::save(&self.plan) {
                tracing::warn!(%error, "cannot write the state of the kept ensemble");
            }
        }
        if let Err(error) = guard.finish() {
            tracing::warn!(%error, directory = %self.plan.directory.display(), "cannot remove the ensemble");
        }
        self.reap();
        if let (true, Some(file)) = (kept, &self.plan.port_file) {
            // The next run of the test may need the same ports. Starting the kept servers reserves the ports again.
            drop(std::fs::remove_file(file));
        }
    }
}

/// Returns the verdict if the servers' logs show that committed writes were lost, which is not a client's fault.
fn lost_writes(directory: &Path) -> Option<Verdict> {
    let logs = ServerLogs::read([directory]).ok()?;
    let verdict = logs.verdict(&History::default())?;
    (verdict.judgement == Judgement::RolledBack).then_some(verdict)
}

const POLL_EVERY: Duration = Duration::from_millis(20);
/// More than a killed process needs to end on a busy machine.
const REAP_LIMIT: Duration = Duration::from_secs(2);
const REAP_PAUSE: Duration = Duration::from_millis(2);
