//! Where a benchmark takes place: a runtime, and a fresh ensemble once something runs.

use std::cell::OnceCell;
use std::time::Duration;

use anyhow::Context as _;
use tokio::runtime::Runtime;
use zk_harness::DataStore;
use zk_harness::Ensemble;

use crate::settings::Settings;

/// A runtime, and an ensemble of three servers that is started when it is first asked for.
#[derive(Debug)]
pub struct Stage {
    settings: Settings,
    runtime: Runtime,
    ensemble: OnceCell<Scene>,
}

#[derive(Debug)]
struct Scene {
    ensemble: Ensemble,
    /// The addresses of the servers: followers, then the leader.
    servers: Vec<String>,
}

impl Stage {
    /// Makes the runtime, with as many threads as the machine has cores.
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
            ensemble: OnceCell::new(),
        })
    }

    /// The ensemble.
    ///
    /// # Errors
    ///
    /// If it does not start.
    pub fn ensemble(&self) -> anyhow::Result<&Ensemble> {
        Ok(&self.scene()?.ensemble)
    }

    /// The ensemble, if it was needed.
    pub fn started(&self) -> Option<&Ensemble> {
        self.ensemble.get().map(|scene| &scene.ensemble)
    }

    /// The servers for `sessions` sessions, one each: a follower first, then around all of them.
    ///
    /// Both sides of a comparison get the same ones, because a session with the leader is faster.
    ///
    /// # Errors
    ///
    /// If the ensemble does not start.
    pub fn servers(&self, sessions: usize) -> anyhow::Result<Vec<String>> {
        let servers = &self.scene()?.servers;
        Ok(servers.iter().cycle().take(sessions).cloned().collect())
    }

    /// Runs a future as a task, and waits for it.
    ///
    /// # Errors
    ///
    /// That of the future, or that it was not done in time.
    pub fn run<T: Send + 'static>(
        &self,
        what: &str,
        future: impl Future<Output = anyhow::Result<T>> + Send + 'static,
    ) -> anyhow::Result<T> {
        self.runtime.block_on(async {
            // As a task it runs where those of an application do; dropping the set ends it.
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

    /// Runs a future that has a deadline of its own, and waits for it.
    ///
    /// # Errors
    ///
    /// That of the future.
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
    /// If something cannot be removed.
    pub fn down(self) -> anyhow::Result<()> {
        if let Some(scene) = self.ensemble.into_inner() {
            self.runtime.block_on(scene.ensemble.down())?;
        }
        Ok(())
    }

    fn scene(&self) -> anyhow::Result<&Scene> {
        if let Some(scene) = self.ensemble.get() {
            return Ok(scene);
        }
        let data = if self.settings.memory {
            DataStore::Memory
        } else {
            DataStore::Disk
        };
        let scene = self.runtime.block_on(async {
            let ensemble = Ensemble::builder()
                .servers(SERVERS)
                .data(data)
                .tick_time(TICK)
                .container_check_interval(REAPING)
                .start_timeout(STARTING)
                .start()
                .await
                .context("cannot start an ensemble")?;
            let leader = ensemble.leader().await?.id();
            let mut servers: Vec<_> = ensemble.servers().iter().collect();
            servers.sort_by_key(|server| (server.id() == leader, server.id()));
            let servers = servers
                .iter()
                .map(|server| server.client_address().to_string())
                .collect();
            anyhow::Ok(Scene { ensemble, servers })
        })?;
        Ok(self.ensemble.get_or_init(|| scene))
    }
}

/// How many servers the ensemble has.
const SERVERS: usize = 3;

/// ZooKeeper's own default; the harness's is for tests, and would have the servers ping ten times as often.
const TICK: Duration = Duration::from_secs(2);

/// ZooKeeper's own default, too: the harness's has a lock's node reaped whenever it is free for a second.
const REAPING: Duration = Duration::from_secs(60);

/// A busy machine gives poor figures, but figures.
const STARTING: Duration = Duration::from_secs(180);

/// How long one round may take: a lock that hangs is an error and no long latency.
const LONGEST: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    fn stage() -> Stage {
        Stage::new(Settings {
            quick: true,
            peers: false,
            memory: true,
            smoke: true,
        })
        .unwrap()
    }

    #[test]
    fn nothing_is_started_before_something_runs() {
        let stage = stage();
        assert_eq!(stage.run("a sum", async { Ok(1 + 1) }).unwrap(), 2);
        assert!(stage.started().is_none());
        stage.down().unwrap();
    }

    #[test]
    fn an_error_and_a_panic_say_whose_they_are() {
        let stage = stage();
        let error = stage
            .run("a round", async { Err::<(), _>(anyhow::anyhow!("no")) })
            .unwrap_err();
        assert_eq!(format!("{error:#}"), "a round failed: no");
        let error = stage
            .run("a round", async { panic!("broken") as anyhow::Result<()> })
            .unwrap_err();
        assert!(error.to_string().contains("a round panicked"), "{error:#}");
    }
}
