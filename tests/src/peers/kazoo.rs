//! kazoo, and the program that uses it.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use tokio::process::Command;
use zk_provision::Search;

use super::bench::Measured;
use super::run;

/// kazoo, ready to run: a Python, and where its modules are.
#[derive(Debug, Clone)]
pub struct Kazoo {
    modules: OsString,
    version: String,
}

const PACKAGES: [&str; 2] = ["python3-kazoo", "python3-six"];
const PROGRAM: &str = include_str!("../../python/contender.py");
const HBASE: &str = include_str!("../../python/hbase_contender.py");
const MELEE: &str = include_str!("../../python/melee.py");
const PARTITIONER: &str = include_str!("../../python/partitioner_peer.py");
const PARTY: &str = include_str!("../../python/party_peer.py");
const QUEUE: &str = include_str!("../../python/queue_peer.py");
const COUNTER: &str = include_str!("../../python/counter_peer.py");
const BARRIER: &str = include_str!("../../python/barrier_peer.py");
const BASICS: &str = include_str!("../../python/basics.py");
const BENCH: &str = include_str!("../../python/bench.py");

/// For starting Python and connecting, beside the time that is measured.
const MAX_WAIT: Duration = Duration::from_secs(60);

impl Kazoo {
    /// Finds kazoo among the distribution's packages, or unpacks them into the harness's cache, and asks a `python3`
    /// which version it is.
    ///
    /// # Errors
    ///
    /// There is no such package, or no `python3` that runs it.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a download continues, and its result is kept for the next time.
    pub async fn find() -> anyhow::Result<Self> {
        let roots = tokio::task::spawn_blocking(|| Search::from_env()?.packages(PACKAGES))
            .await?
            .context("kazoo was not found")?;
        let places: Vec<PathBuf> = roots
            .iter()
            .map(|root| root.join("usr/lib/python3/dist-packages"))
            .collect();
        let modules = std::env::join_paths(places)?;
        let mut kazoo = Self {
            modules,
            version: String::new(),
        };
        let output = kazoo
            .python()
            .args(["-c", "import kazoo.version as v; print(v.__version__)"])
            .output()
            .await
            .context("there is no python3")?;
        anyhow::ensure!(
            output.status.success(),
            "kazoo does not run: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8_lossy(&output.stdout)
            .trim()
            .clone_into(&mut kazoo.version);
        Ok(kazoo)
    }

    /// Returns its version.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The program that contends for a lock of any kind, to be given its arguments.
    pub(super) fn program(&self) -> Command {
        let mut command = self.python();
        command.args(["-c", PROGRAM]);
        command
    }

    /// The program that makes HBase's requests over kazoo's connection, to be given its arguments.
    pub(super) fn hbase_program(&self) -> Command {
        let mut command = self.python();
        command.args(["-c", HBASE]);
        command
    }

    /// The program that takes a lock again and again, to be given its arguments.
    pub(crate) fn melee(&self) -> Command {
        let mut command = self.python();
        command.args(["-c", MELEE]);
        command
    }

    /// The program that uses a queue, to be given its arguments.
    pub(super) fn queue_program(&self) -> Command {
        let mut command = self.python();
        command.args(["-c", QUEUE]);
        command
    }

    /// The program that joins a party, to be given its arguments.
    pub(super) fn party_program(&self) -> Command {
        let mut command = self.python();
        command.args(["-c", PARTY]);
        command
    }

    /// The program that adds to a counter, to be given its arguments.
    pub(super) fn counter_program(&self) -> Command {
        let mut command = self.python();
        command.args(["-c", COUNTER]);
        command
    }

    /// The program that shares items, to be given its arguments.
    pub(super) fn partitioner_program(&self) -> Command {
        let mut command = self.python();
        command.args(["-c", PARTITIONER]);
        command
    }

    /// The program that uses barriers, to be given its arguments.
    pub(super) fn barrier_program(&self) -> Command {
        let mut command = self.python();
        command.args(["-c", BARRIER]);
        command
    }

    /// The program that does what every client does, to be given its arguments.
    pub(super) fn basics_program(&self) -> Command {
        let mut command = self.python();
        command.args(["-c", BASICS]);
        command
    }

    /// A program in Python that uses kazoo, to be given its arguments.
    pub(super) fn script(&self, program: &str) -> Command {
        let mut command = self.python();
        command.args(["-c", program]);
        command
    }

    /// Measures `Lock`, with so many sessions of one Python process: one that acquires and releases, or several that
    /// contend and hold it for no time.
    ///
    /// # Errors
    ///
    /// kazoo failed, or it took a minute longer than it should.
    ///
    /// # Cancel safety
    ///
    /// The process is killed; its sessions end after their timeout.
    pub async fn measure(
        &self,
        connect: &str,
        path: &str,
        sessions: u32,
        warm_up: Duration,
        measure: Duration,
    ) -> anyhow::Result<Measured> {
        let mut command = self.python();
        command.args(["-c", BENCH, connect, path]);
        for number in [
            warm_up.as_millis(),
            measure.as_millis(),
            u128::from(sessions),
        ] {
            command.arg(number.to_string());
        }
        let within = warm_up + measure + MAX_WAIT;
        let printed = run::output(&mut command, "measuring kazoo", within).await?;
        serde_json::from_str(&printed).with_context(|| format!("not understood: {printed}"))
    }

    /// A program, to be given its arguments.
    pub(super) fn run(&self, program: &str) -> Command {
        let mut command = self.python();
        command.args(["-c", program]);
        command
    }

    fn python(&self) -> Command {
        let mut command = Command::new("python3");
        command
            .env("PYTHONPATH", &self.modules)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .kill_on_drop(true);
        command
    }
}
