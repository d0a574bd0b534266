//! Runs processes of several clients that take one lock in a loop and are killed at random, and checks with file locks
//! that the lock never has two holders.
//!
//! A holder also holds a POSIX lock of a file, which the operating system releases with the process.
//! Sessions end because their processes are killed, so no process continues under a lock that another one has acquired.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context as _;
use tokio::process::{Child, Command};
use tokio::time::Instant;

use crate::peers::{Curator, Kazoo};

/// A contender.
#[derive(Debug, Clone)]
pub struct Fighter {
    name: String,
    role: &'static str,
    client: Client,
}

#[derive(Debug, Clone)]
enum Client {
    Ours {
        program: PathBuf,
        layout: &'static str,
    },
    Curator(Curator),
    Kazoo(Kazoo),
}

/// The lock and its contenders.
#[derive(Debug, Clone)]
pub struct Melee {
    connect: String,
    path: &'static str,
    seed: u64,
    lasts: Duration,
}

/// The result of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Outcome {
    /// How often each contender acquired the lock.
    pub granted: BTreeMap<String, usize>,
    /// The contenders that held the lock while another one held it.
    pub overlaps: Vec<String>,
    /// The number of killed processes.
    pub killed: usize,
}

/// The session timeout, which is how long waiters wait after a holder was killed. A holder that stands still for longer
/// would be taken for one that holds the lock beside the next.
const SESSION_TIMEOUT: Duration = Duration::from_secs(6);
/// The time limit for the first turn of a process on a busy machine.
const MAX_WAIT: Duration = Duration::from_secs(60);

impl Fighter {
    /// Ours, with this layout: curator or kazoo.
    pub fn ours(program: &Path, layout: &'static str, role: &'static str) -> Self {
        let client = Client::Ours {
            program: program.to_owned(),
            layout,
        };
        Self::new("ours", role, client)
    }

    /// Curator's.
    pub fn curator(curator: &Curator, role: &'static str) -> Self {
        Self::new("curator", role, Client::Curator(curator.clone()))
    }

    /// kazoo's; its role `curator` is a mutex that Curator waits for.
    pub fn kazoo(kazoo: &Kazoo, role: &'static str) -> Self {
        Self::new("kazoo", role, Client::Kazoo(kazoo.clone()))
    }

    fn new(client: &str, role: &'static str, which: Client) -> Self {
        Self {
            name: format!("{client}-{role}"),
            role,
            client: which,
        }
    }

    fn start(&self, at: usize, melee: &Melee, directory: &Path) -> anyhow::Result<Child> {
        let mut command = match &self.client {
            Client::Ours { program, .. } => Command::new(program),
            Client::Curator(curator) => curator.melee()?,
            Client::Kazoo(kazoo) => kazoo.melee(),
        };
        command
            .arg(format!("{}-{at}", self.name))
            .args([&melee.connect, melee.path])
            .arg(SESSION_TIMEOUT.as_millis().to_string())
            .arg(directory)
            .arg(self.role);
        if let Client::Ours { layout, .. } = self.client {
            command.arg(layout);
        }
        command
            // The process ends with this one.
            .stdin(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("{} cannot be started", self.name))
    }
}

impl Melee {
    /// Creates a run for the lock at `path`; the killed processes and times are drawn from `seed`.
    pub fn new(connect: String, path: &'static str, seed: u64, lasts: Duration) -> Self {
        Self {
            connect,
            path,
            seed,
            lasts,
        }
    }

    /// Runs the contenders: waits until each has had the lock once, then kills and restarts them at random, and at the
    /// end waits until each has had the lock once more.
    ///
    /// # Errors
    ///
    /// A process cannot be started, or one does not get the lock within a minute.
    ///
    /// # Cancel safety
    ///
    /// Safe: the processes are killed.
    pub async fn fight(&self, fighters: &[Fighter]) -> anyhow::Result<Outcome> {
        let directory = tempfile::tempdir()?;
        let log = directory.path().join("log");
        let mut random = fastrand::Rng::with_seed(self.seed);
        let start = |at: usize| fighters[at].start(at, self, directory.path());
        let mut running: Vec<Child> = (0..fighters.len()).map(start).collect::<Result<_, _>>()?;
        granted_to_all(&log, fighters, 0).await?;
        let end = Instant::now() + self.lasts;
        let mut killed = 0;
        while Instant::now() < end {
            let pause = Duration::from_millis(random.u64(200..2000));
            drop(tokio::time::timeout(pause, std::future::pending::<()>()).await);
            let at = random.usize(..fighters.len());
            running[at].kill().await?;
            killed += 1;
            running[at] = start(at)?;
        }
        let lines = std::fs::read_to_string(&log)?.lines().count();
        granted_to_all(&log, fighters, lines).await?;
        for child in &mut running {
            child.kill().await?;
        }
        Ok(Outcome {
            killed,
            ..Outcome::read(&log, 0)?
        })
    }
}

impl Outcome {
    fn read(log: &Path, from: usize) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(log).unwrap_or_default();
        let mut outcome = Self::default();
        for line in text.lines().skip(from) {
            match line.split_once(' ') {
                Some(("granted", name)) => {
                    *outcome.granted.entry(name.to_owned()).or_default() += 1;
                }
                Some(("overlap", name)) => outcome.overlaps.push(name.to_owned()),
                _ => anyhow::bail!("{} has the line {line:?}", log.display()),
            }
        }
        Ok(outcome)
    }
}

/// Waits until each contender has acquired the lock, according to the lines of the log after the first `from`.
async fn granted_to_all(log: &Path, fighters: &[Fighter], from: usize) -> anyhow::Result<()> {
    let mut looks = tokio::time::interval(Duration::from_millis(50));
    let deadline = Instant::now() + MAX_WAIT;
    loop {
        looks.tick().await;
        let granted = Outcome::read(log, from)?.granted;
        let mut missing = fighters
            .iter()
            .enumerate()
            .map(|(at, fighter)| format!("{}-{at}", fighter.name))
            .filter(|name| !granted.contains_key(name));
        let Some(missing) = missing.next() else {
            return Ok(());
        };
        anyhow::ensure!(
            Instant::now() < deadline,
            "{missing} was not granted the lock within {MAX_WAIT:?}; granted were {granted:?}"
        );
    }
}
