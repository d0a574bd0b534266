//! Another client's lock in its own process, step by step.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail};
use tokio::process::Command;
use tokio::time::Instant;

use super::curator::Curator;
use super::dialogue::{Dialogue, MAX_WAIT};
use super::kazoo::Kazoo;
use super::run::QUICK;

/// A process that contends for a lock with the recipe of another client.
///
/// Moments are those of [`monotonic`](super::monotonic).
/// Each method gives the process one command and waits for its answer. After an error, or when the future of a method
/// was dropped, the answers no longer belong to the commands: drop the contender then.
///
/// # Dropping
///
/// The process is killed. Its session ends after [`SESSION_TIMEOUT`](Self::SESSION_TIMEOUT), and only then its node
/// vanishes; [`quit`](Self::quit) ends the session at once. If this process is killed, the contender ends.
#[derive(Debug)]
pub struct PeerContender {
    dialogue: Dialogue,
    session: i64,
}

/// A time for which a contender held the lock: it got it before and gave it back afterwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Held {
    /// When the lock had been acquired.
    pub acquired: Duration,
    /// When it was still held, right before the release.
    pub released: Duration,
}

/// A recipe of another client.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Recipe<'a> {
    /// Curator's `InterProcessMutex`.
    CuratorMutex(&'a Curator),
    /// Curator's `InterProcessReadWriteLock`, of the kinds `read` and `write`.
    CuratorReadWrite(&'a Curator),
    /// Curator's `InterProcessSemaphoreV2` with this limit.
    CuratorSemaphore(&'a Curator, u32),
    /// Curator's `LeaderLatch`, with the name of the participant.
    ///
    /// It leads from [`acquire`](PeerContender::acquire) to [`release`](PeerContender::release); after a timeout it
    /// remains a candidate.
    CuratorLatch(&'a Curator, &'a str),
    /// Curator's `LeaderSelector`, with the name of the participant; it leads as one with a latch does.
    CuratorSelector(&'a Curator, &'a str),
    /// ZooKeeper's own `WriteLock`.
    ZooKeeper(&'a Curator),
    /// kazoo's `Lock`, or one of the kinds in `contender.py`.
    Kazoo(&'a Kazoo),
    /// The requests of HBase's `ZKInterProcessReadWriteLock`, with the same names and data, of the kinds `read` and
    /// `write`.
    Hbase(&'a Kazoo),
    /// A program that understands the same commands.
    Program(&'a Path),
}

impl Recipe<'_> {
    fn command(self) -> anyhow::Result<Command> {
        let (curator, main, arguments) = match self {
            Self::CuratorMutex(curator) => (curator, "Contender", vec![]),
            Self::CuratorReadWrite(curator) => (curator, "RwContender", vec![]),
            Self::CuratorSemaphore(curator, limit) => {
                (curator, "SemaphoreContender", vec![limit.to_string()])
            }
            Self::CuratorLatch(curator, id) => {
                (curator, "Elector", vec!["latch".into(), id.into()])
            }
            Self::CuratorSelector(curator, id) => {
                (curator, "Elector", vec!["selector".into(), id.into()])
            }
            Self::ZooKeeper(curator) => (curator, "RecipeContender", vec![]),
            Self::Kazoo(kazoo) => return Ok(kazoo.program()),
            Self::Hbase(kazoo) => return Ok(kazoo.hbase_program()),
            Self::Program(program) => return Ok(Command::new(program)),
        };
        let mut command = curator.program(&QUICK, main)?;
        command.args(arguments);
        Ok(command)
    }
}

/// What the process says.
#[derive(Debug, PartialEq, Eq)]
enum Answer {
    Ready(i64),
    Acquired(Duration),
    TimedOut,
    Released(Duration),
    Participants(String),
    Bye,
}

impl PeerContender {
    /// The session timeout that the process asks for.
    pub const SESSION_TIMEOUT: Duration = Duration::from_secs(10);

    /// Starts a process that contends on `path` with this recipe, and waits until it has a session.
    ///
    /// # Errors
    ///
    /// It cannot be started, or has no session after 30 s.
    ///
    /// # Cancel safety
    ///
    /// Safe: the process is killed.
    pub async fn start(recipe: Recipe<'_>, connect: &str, path: &str) -> anyhow::Result<Self> {
        let mut command = recipe.command()?;
        let timeout = Self::SESSION_TIMEOUT.as_millis().to_string();
        let mut contender = Self {
            dialogue: Dialogue::start(command.args([connect, path, &timeout]))?,
            session: 0,
        };
        match contender.answer("a session", MAX_WAIT).await? {
            Answer::Ready(session) => contender.session = session,
            other => bail!("a contender began with {other}"),
        }
        Ok(contender)
    }

    /// The id of its process.
    pub fn pid(&self) -> Option<u32> {
        self.dialogue.pid()
    }

    /// Returns the id of its first session.
    pub fn session_id(&self) -> i64 {
        self.session
    }

    /// Asks a semaphore's contender for the session that it has now: after the end of one, Curator opens another.
    ///
    /// # Errors
    ///
    /// The peer failed, or does not reply.
    ///
    /// # Cancel safety
    ///
    /// Not safe: the process continues. Drop the contender.
    pub async fn newest_session_id(&mut self) -> anyhow::Result<i64> {
        self.tell("session").await?;
        match self.answer("its session", MAX_WAIT).await? {
            Answer::Ready(session) => Ok(session),
            other => bail!("a contender that was asked for its session said {other}"),
        }
    }

    /// Acquires the lock and returns when it was held, or gives up after `within`, which is no error.
    ///
    /// # Errors
    ///
    /// The peer failed, or does not reply.
    ///
    /// # Cancel safety
    ///
    /// Not safe: the process continues. Drop the contender.
    pub async fn acquire(&mut self, within: Duration) -> anyhow::Result<Option<Duration>> {
        self.acquire_by(&format!("acquire {}", within.as_millis()), within)
            .await
    }

    /// Acquires a lock of one of the kinds that the [recipe](Recipe) knows.
    ///
    /// # Errors
    ///
    /// Those of [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    ///
    /// That of [`acquire`](Self::acquire).
    pub async fn acquire_kind(
        &mut self,
        kind: &str,
        within: Duration,
    ) -> anyhow::Result<Option<Duration>> {
        let command = format!("acquire {kind} {}", within.as_millis());
        self.acquire_by(&command, within).await
    }

    /// Acquires so many leases of a semaphore.
    ///
    /// # Errors
    ///
    /// Those of [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    ///
    /// That of [`acquire`](Self::acquire).
    pub async fn acquire_leases(
        &mut self,
        count: u32,
        within: Duration,
    ) -> anyhow::Result<Option<Duration>> {
        let command = format!("acquire {} {count}", within.as_millis());
        self.acquire_by(&command, within).await
    }

    /// Releases a lock of that kind.
    ///
    /// # Errors
    ///
    /// Those of [`release`](Self::release).
    ///
    /// # Cancel safety
    ///
    /// That of [`release`](Self::release).
    pub async fn release_kind(&mut self, kind: &str) -> anyhow::Result<Duration> {
        self.release_by(&format!("release {kind}")).await
    }

    /// Does the same by a command of the program.
    async fn acquire_by(
        &mut self,
        command: &str,
        within: Duration,
    ) -> anyhow::Result<Option<Duration>> {
        self.tell(command).await?;
        match self.answer("the lock", within + MAX_WAIT).await? {
            Answer::Acquired(at) => Ok(Some(at)),
            Answer::TimedOut => Ok(None),
            other => bail!("a contender that acquires said {other}"),
        }
    }

    /// Releases the lock and returns when it was last held.
    ///
    /// # Errors
    ///
    /// The peer failed, for instance because this contender does not hold the lock, or does not reply.
    ///
    /// # Cancel safety
    ///
    /// Not safe: the process continues. Drop the contender.
    pub async fn release(&mut self) -> anyhow::Result<Duration> {
        self.release_by("release").await
    }

    /// Does the same by a command of the program.
    async fn release_by(&mut self, command: &str) -> anyhow::Result<Duration> {
        self.tell(command).await?;
        self.released("the release", MAX_WAIT).await
    }

    /// Who takes part in the election, as Curator sees it: ids in order, a star behind that of the leader. For an
    /// election that it is in line for.
    ///
    /// # Errors
    ///
    /// The peer failed, or does not reply.
    ///
    /// # Cancel safety
    ///
    /// Not safe: the process continues. Drop the contender.
    pub async fn participants(&mut self) -> anyhow::Result<Vec<String>> {
        self.tell("participants").await?;
        match self.answer("the participants", MAX_WAIT).await? {
            Answer::Participants(all) => Ok(all.split(',').map(str::to_owned).collect()),
            other => bail!("a contender that lists participants said {other}"),
        }
    }

    /// Acquires, holds and releases the lock so many times in a row, all of it `within` a time. Curator only.
    ///
    /// # Errors
    ///
    /// The peer failed, or has not finished in time.
    ///
    /// # Cancel safety
    ///
    /// Not safe: the process continues. Drop the contender.
    pub async fn contend(
        &mut self,
        times: u32,
        hold: Duration,
        within: Duration,
    ) -> anyhow::Result<Vec<Held>> {
        let deadline = Instant::now() + within;
        let left = || deadline.saturating_duration_since(Instant::now());
        self.tell(&format!("contend {times} {}", hold.as_millis()))
            .await?;
        let mut all = Vec::new();
        for time in 1..=times {
            let what = format!("the lock for the {time}. time of {times}");
            let acquired = match self.answer(&what, left()).await? {
                Answer::Acquired(at) => at,
                other => bail!("a contender that acquires said {other}"),
            };
            let released = self.released("the release", left()).await?;
            all.push(Held { acquired, released });
        }
        Ok(all)
    }

    /// Ends the session, and with it the node of a lock that is held, and waits until the process is gone.
    ///
    /// # Errors
    ///
    /// The process failed or has not ended after 30 s.
    ///
    /// # Cancel safety
    ///
    /// The process is killed; its session may end later.
    pub async fn quit(mut self) -> anyhow::Result<()> {
        self.tell("quit").await?;
        match self.answer("the end of the session", MAX_WAIT).await? {
            Answer::Bye => {}
            other => bail!("a contender that ends said {other}"),
        }
        let status = self.dialogue.ended().await?;
        anyhow::ensure!(status.success(), "a contender ended with {status}");
        Ok(())
    }

    async fn released(&mut self, what: &str, within: Duration) -> anyhow::Result<Duration> {
        match self.answer(what, within).await? {
            Answer::Released(at) => Ok(at),
            other => bail!("a contender that releases said {other}"),
        }
    }

    async fn tell(&mut self, command: &str) -> anyhow::Result<()> {
        self.dialogue.tell(command).await
    }

    async fn answer(&mut self, what: &str, within: Duration) -> anyhow::Result<Answer> {
        let line = self.dialogue.line(what, within).await?;
        Answer::parse(&line)
            .with_context(|| format!("a contender that waited for {what} said {line:?}"))
    }
}

impl Answer {
    fn parse(line: &str) -> Option<Self> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let moment = || rest.parse().ok().map(Duration::from_nanos);
        Some(match word {
            "ready" => Self::Ready(u64::from_str_radix(rest, 16).ok()?.cast_signed()),
            "acquired" => Self::Acquired(moment()?),
            "timeout" => Self::TimedOut,
            "released" => Self::Released(moment()?),
            "participants" => Self::Participants(rest.to_owned()),
            "bye" => Self::Bye,
            _ => return None,
        })
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_understood() {
        for (line, expected) in [
            ("ready 100a2b", Some(Answer::Ready(0x0010_0a2b))),
            ("ready ffffffffffffffff", Some(Answer::Ready(-1))),
            (
                "acquired 12",
                Some(Answer::Acquired(Duration::from_nanos(12))),
            ),
            (
                "released 13",
                Some(Answer::Released(Duration::from_nanos(13))),
            ),
            ("timeout 14", Some(Answer::TimedOut)),
            (
                "participants a*,b",
                Some(Answer::Participants("a*,b".into())),
            ),
            ("bye", Some(Answer::Bye)),
            ("acquired", None),
            ("acquired x", None),
            ("SLF4J: no", None),
            ("", None),
        ] {
            assert_eq!(Answer::parse(line), expected, "{line}");
        }
    }
}
