//! Processes of several clients that take one lock again and again and are killed at random, and files that tell whether
//! two of them had it at once.
//!
//! The judge is the operating system: who holds the lock holds a POSIX lock of a file, which vanishes with its process.
//! Sessions end because their processes are killed, so nobody goes on under a lock that somebody else has got.

use std::collections::BTreeMap;
use std::path::Path;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context as _;
use tokio::process::Child;
use tokio::process::Command;
use tokio::time::Instant;

use crate::peers::Curator;
use crate::peers::Kazoo;

/// One who takes the lock.
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

/// What is fought for, and how.
#[derive(Debug, Clone)]
pub struct Melee {
    connect: String,
    path: &'static str,
    seed: u64,
    lasts: Duration,
}

/// How it went.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Outcome {
    /// How often each one was granted the lock.
    pub granted: BTreeMap<String, usize>,
    /// Who had it while somebody else had it.
    pub overlaps: Vec<String>,
    /// How many processes were killed on the way.
    pub killed: usize,
}

/// Longer than a waiter waits for the session of a killed holder, and short.
const SESSION_TIMEOUT: Duration = Duration::from_secs(2);
/// For a process that is started on a busy machine until it has its first turn.
const PATIENCE: Duration = Duration::from_secs(60);

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
            // It ends with this process, whatever becomes of it.
            .stdin(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("{} cannot be started", self.name))
    }
}

impl Melee {
    /// A fight for the lock at `path`, for so long; who is killed and when is drawn from `seed`.
    pub fn new(connect: String, path: &'static str, seed: u64, lasts: Duration) -> Self {
        Self {
            connect,
            path,
            seed,
            lasts,
        }
    }

    /// Lets them fight: each one is waited for until it had the lock once, then one after the other is killed at random
    /// and started again, and in the end each one must have the lock once more.
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

/// Waits until each one was granted the lock, by the lines of the log after the first `from`.
async fn granted_to_all(log: &Path, fighters: &[Fighter], from: usize) -> anyhow::Result<()> {
    let mut looks = tokio::time::interval(Duration::from_millis(50));
    let deadline = Instant::now() + PATIENCE;
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
            "{missing} was not granted the lock within {PATIENCE:?}; granted were {granted:?}"
        );
    }
}
