//! Curator's clients, in a process of their own.

use std::ffi::OsString;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use zk_tests::peers::{Compiler, Curator};

use crate::SESSION_TIMEOUT;
use crate::counters::Process;

/// The compiled program.
#[derive(Debug)]
pub(crate) struct CuratorProgram {
    curator: Curator,
    classpath: OsString,
}

/// A running program, whose sessions are open.
///
/// # Dropping
///
/// The process is killed.
#[derive(Debug)]
pub(crate) struct CuratorFleet {
    id: u32,
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl CuratorProgram {
    /// Finds Curator, and compiles the program.
    pub(crate) async fn compile() -> anyhow::Result<Self> {
        let curator = Curator::find().await?;
        let mut jars = curator.classpath().to_vec();
        let classes = Compiler::find().await?.compile(&[SOURCE], &jars).await?;
        jars.insert(0, classes);
        Ok(Self {
            curator,
            classpath: std::env::join_paths(jars).context("a path has a colon in it")?,
        })
    }

    /// Starts the program with the flags that Java has by itself, and waits until its sessions are open.
    pub(crate) async fn start(&self, connect: &str, sessions: u32) -> anyhow::Result<CuratorFleet> {
        let mut child = Command::new(self.curator.java())
            .env_remove("JAVA_TOOL_OPTIONS")
            .env_remove("JDK_JAVA_OPTIONS")
            .arg("-Dorg.slf4j.simpleLogger.defaultLogLevel=error")
            .arg("-classpath")
            .arg(&self.classpath)
            .args(["CuratorFleet", connect])
            .arg(SESSION_TIMEOUT.as_millis().to_string())
            .arg(sessions.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("cannot start Curator")?;
        let output = child.stdout.take().context("its output is a pipe")?;
        let mut fleet = CuratorFleet {
            id: child.id().context("the process was just started")?,
            input: child.stdin.take().context("its input is a pipe")?,
            output: BufReader::new(output).lines(),
            child,
        };
        fleet.expect("idle").await?;
        Ok(fleet)
    }
}

impl CuratorFleet {
    /// Lets each session acquire a lock of its own.
    pub(crate) async fn hold(&mut self) -> anyhow::Result<()> {
        self.input.write_all(b"hold\n").await?;
        self.expect("holding").await
    }

    /// Returns the process, to measure it.
    pub(crate) const fn process(&self) -> Process {
        Process::Other(self.id)
    }

    /// Ends the process, and waits until it has ended. Its sessions are not closed.
    pub(crate) async fn end(mut self) -> anyhow::Result<()> {
        drop(self.input);
        let ended = tokio::time::timeout(MAX_WAIT, self.child.wait()).await;
        let status =
            ended.with_context(|| format!("Curator did not end within {MAX_WAIT:?}"))??;
        ensure!(status.success(), "Curator ended with {status}");
        Ok(())
    }

    async fn expect(&mut self, state: &str) -> anyhow::Result<()> {
        let line = tokio::time::timeout(MAX_WAIT, self.output.next_line()).await;
        let line =
            line.with_context(|| format!("Curator was not {state} within {MAX_WAIT:?}"))??;
        let line = line.with_context(|| format!("Curator ended before it was {state}"))?;
        ensure!(line == state, "Curator is not {state}: {line}");
        Ok(())
    }
}

const SOURCE: (&str, &str) = (
    "CuratorFleet.java",
    include_str!("../../../java/CuratorFleet.java"),
);

/// For starting Java, and opening all sessions or acquiring all locks.
const MAX_WAIT: Duration = Duration::from_secs(120);
