//! Provides what a benchmark runs on: a runtime, and an ensemble that starts on first use.

use std::cell::OnceCell;
use std::time::Duration;

use anyhow::Context as _;
use tokio::runtime::Runtime;
use zk_core::Session;
use zk_harness::{DataStore, Ensemble, EnsembleBuilder};

use crate::settings::Settings;

/// A runtime, and an ensemble of three servers that starts on first use.
#[derive(Debug)]
pub struct Fixture {
    settings: Settings,
    runtime: Runtime,
    /// The flags of the servers' JVMs instead of the harness's.
    jvm_flags: Option<Vec<&'static str>>,
    ensemble: OnceCell<RunningEnsemble>,
}

#[derive(Debug)]
struct RunningEnsemble {
    ensemble: Ensemble,
    /// The addresses of the servers: followers, then the leader.
    servers: Vec<String>,
}

impl Fixture {
    /// Creates the runtime, with one thread per core.
    ///
    /// # Errors
    ///
    /// If the machine cannot start threads.
    pub fn new(settings: Settings) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .context("cannot start a runtime")?;
        Ok(Self {
            settings,
            runtime,
            jvm_flags: None,
            ensemble: OnceCell::new(),
        })
    }

    /// Gives the servers room for more than a hundred thousand nodes: a heap of 768 MiB, with the harness's other flags.
    #[must_use]
    pub fn with_large_heap(mut self) -> Self {
        let flags = [
            "-XX:TieredStopAtLevel=1",
            "-XX:+UseSerialGC",
            "-Xss512k",
            "-Xmx768m",
        ];
        self.jvm_flags = Some(flags.to_vec());
        self
    }

    /// Returns the ensemble, and starts it on first use.
    ///
    /// # Errors
    ///
    /// If it does not start.
    pub fn ensemble(&self) -> anyhow::Result<&Ensemble> {
        Ok(&self.running()?.ensemble)
    }

    /// Returns one server address per session: a follower first, then all servers in turn.
    ///
    /// Both sides of a comparison use the same servers, because a session with the leader is faster.
    ///
    /// # Errors
    ///
    /// If the ensemble does not start.
    pub fn servers(&self, sessions: usize) -> anyhow::Result<Vec<String>> {
        let servers = &self.running()?.servers;
        Ok(servers.iter().cycle().take(sessions).cloned().collect())
    }

    /// Runs a future as a task, and waits for it.
    ///
    /// # Errors
    ///
    /// The future's error, or a timeout.
    pub fn run<T: Send + 'static>(
        &self,
        what: &str,
        future: impl Future<Output = anyhow::Result<T>> + Send + 'static,
    ) -> anyhow::Result<T> {
        self.runtime.block_on(async {
            // As a task it runs on a worker thread, as in an application; dropping the set aborts it.
            let mut task = tokio::task::JoinSet::new();
            task.spawn(future);
            tokio::time::timeout(LONGEST, task.join_next())
                .await
                .ok()
                .flatten()
                .with_context(|| format!("{what} was not done within {LONGEST:?}"))?
                .with_context(|| format!("{what} panicked"))?
                .with_context(|| format!("{what} failed"))
        })
    }

    /// Runs a future that has its own deadline, and waits for it.
    ///
    /// # Errors
    ///
    /// The future's error.
    pub fn run_unlimited<T>(
        &self,
        what: &str,
        future: impl Future<Output = anyhow::Result<T>>,
    ) -> anyhow::Result<T> {
        self.runtime
            .block_on(future)
            .with_context(|| format!("{what} failed"))
    }

    /// Stops the servers and removes their files.
    ///
    /// # Errors
    ///
    /// If a file cannot be removed.
    pub fn down(self) -> anyhow::Result<()> {
        if let Some(running) = self.ensemble.into_inner() {
            self.runtime.block_on(running.ensemble.down())?;
        }
        Ok(())
    }

    fn running(&self) -> anyhow::Result<&RunningEnsemble> {
        if let Some(running) = self.ensemble.get() {
            return Ok(running);
        }
        let running = self.runtime.block_on(async {
            let mut servers = servers(self.settings);
            if let Some(flags) = &self.jvm_flags {
                servers = servers.jvm_flags(flags.iter().copied());
            }
            let ensemble = servers
                .tick_time(TICK)
                .container_check_interval(REAPING)
                .start_timeout(STARTING)
                .start()
                .await
                .context("cannot start an ensemble")?;
            let servers = followers_first(&ensemble).await?;
            anyhow::Ok(RunningEnsemble { ensemble, servers })
        })?;
        Ok(self.ensemble.get_or_init(|| running))
    }
}

/// Returns the addresses of the servers, that of the leader last: a session of the leader takes less time for a request.
///
/// # Errors
///
/// If no leader serves.
pub async fn followers_first(ensemble: &Ensemble) -> anyhow::Result<Vec<String>> {
    let leader = ensemble.leader().await?.id();
    let mut servers: Vec<_> = ensemble.servers().iter().collect();
    servers.sort_by_key(|server| (server.id() == leader, server.id()));
    let addresses = servers
        .iter()
        .map(|server| server.client_address().to_string());
    Ok(addresses.collect())
}

/// Returns a builder of three servers that keep their data where the settings say.
pub fn servers(settings: Settings) -> EnsembleBuilder {
    let data = if settings.memory {
        DataStore::Memory
    } else {
        DataStore::Disk
    };
    Ensemble::builder().servers(3).data(data)
}

/// Opens a session.
///
/// # Errors
///
/// Those of the session.
pub async fn open(connect: &str) -> anyhow::Result<Session> {
    let builder = Session::builder(connect)
        .session_timeout(SESSION_TIMEOUT)
        .operation_timeout(LONGEST);
    Ok(builder.connect().await?)
}

/// The session timeout of our sessions and of the references.
pub(crate) const SESSION_TIMEOUT: Duration = Duration::from_secs(30);

/// ZooKeeper's default. The harness's default is for tests: with it the servers ping ten times as often.
const TICK: Duration = Duration::from_secs(2);

/// ZooKeeper's default. With the harness's default the servers delete the lock's parent when it is free for a second.
const REAPING: Duration = Duration::from_secs(60);

/// Long enough for a busy machine.
const STARTING: Duration = Duration::from_secs(180);

/// The time limit of one round: a lock that hangs is an error, not a long latency.
const LONGEST: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    fn fixture() -> Fixture {
        Fixture::new(Settings {
            quick: true,
            peers: false,
            memory: true,
            smoke: true,
        })
        .unwrap()
    }

    #[test]
    fn nothing_is_started_before_something_runs() {
        let fixture = fixture();
        assert_eq!(fixture.run("a sum", async { Ok(1 + 1) }).unwrap(), 2);
        assert!(fixture.ensemble.get().is_none());
        fixture.down().unwrap();
    }

    #[test]
    fn an_error_and_a_panic_say_whose_they_are() {
        let fixture = fixture();
        let error = fixture
            .run("a round", async { Err::<(), _>(anyhow::anyhow!("no")) })
            .unwrap_err();
        assert_eq!(format!("{error:#}"), "a round failed: no");
        let error = fixture
            .run("a round", async { panic!("broken") as anyhow::Result<()> })
            .unwrap_err();
        assert!(error.to_string().contains("a round panicked"), "{error:#}");
    }
}
