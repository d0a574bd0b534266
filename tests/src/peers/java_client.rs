//! A Java program that performs every operation of ZooKeeper's own client.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, bail};
use tempfile::TempDir;
use zk_provision::Distribution;

use super::compiler::Compiler;
use super::dialogue::{Dialogue, MAX_WAIT};
use super::{jars, run};

/// ZooKeeper's own client, which performs one operation after the other.
///
/// # Dropping
///
/// The process is killed; its sessions expire.
#[derive(Debug)]
pub struct JavaClient {
    program: Dialogue,
    /// The host names that it may look up.
    _hosts: TempDir,
}

/// What the client did, or wants to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "who drives the client handles each step"
)]
pub enum JavaStep {
    /// It performed the operations of this name, and has their results.
    Performed(String),
    /// It wants its connection to be cut.
    Cut,
    /// It has performed all operations.
    End,
}

const SOURCES: [(&str, &str); 2] = [
    (
        "Operations.java",
        include_str!("../../java/Operations.java"),
    ),
    (
        "NewerOperations.java",
        include_str!("../../java/NewerOperations.java"),
    ),
];

impl JavaClient {
    /// Starts the client of a distribution, with the address of a server: `127.0.0.1:2181`.
    ///
    /// It performs the operations of 3.4, and from 3.5 on also those that were added until 3.8.
    ///
    /// # Errors
    ///
    /// There is no Java compiler and none can be provisioned, or the program cannot be compiled or started.
    ///
    /// # Cancel safety
    ///
    /// Safe: the process is killed.
    pub async fn start(distribution: &Distribution, server: &str) -> anyhow::Result<Self> {
        let (sources, main) = if distribution.version.starts_with("3.4.") {
            (&SOURCES[..1], "Operations")
        } else {
            (&SOURCES[..], "NewerOperations")
        };
        let mut classpath = distribution.classpath.clone();
        classpath.retain(|jar| !jars::is_chatty(jar));
        let compiler = Compiler::find().await?;
        let classes = compiler.compile(sources, &classpath).await?;
        classpath.insert(0, classes);
        let hosts = hosts()?;
        let mut command = run::java(&distribution.java);
        command
            .args(run::QUICK)
            .arg(hosts_flag(hosts.path()))
            .arg("-classpath")
            .arg(jars::joined(&classpath)?)
            .args([main, server]);
        Ok(Self {
            program: Dialogue::start(&mut command)?,
            _hosts: hosts,
        })
    }

    /// Waits for the next step. The program waits at its end, until [`proceed`](Self::proceed).
    ///
    /// # Errors
    ///
    /// An operation failed or takes longer than half a minute; the error says which.
    ///
    /// # Cancel safety
    ///
    /// Not safe: the step may be lost. Drop it.
    pub async fn step(&mut self) -> anyhow::Result<JavaStep> {
        let line = self.program.line("its next step", MAX_WAIT).await?;
        match line.split_once(' ') {
            Some(("did", name)) => Ok(JavaStep::Performed(name.to_owned())),
            None if line == "cut" => Ok(JavaStep::Cut),
            None if line == "end" => Ok(JavaStep::End),
            _ => bail!("the Java client said {line:?}, which is no step"),
        }
    }

    /// Lets it go on with the next step.
    ///
    /// # Errors
    ///
    /// The process has ended.
    ///
    /// # Cancel safety
    ///
    /// Not safe: it may go on or not. Drop it.
    pub async fn proceed(&mut self) -> anyhow::Result<()> {
        self.program.tell("go").await
    }
}

/// Writes the host names that the program may look up.
///
/// The client of 3.4 takes the name out of the text of an address, which since Java 14 is `127.0.0.1/<unresolved>:2181`
/// (ZOOKEEPER-3779).
fn hosts() -> anyhow::Result<TempDir> {
    let dir = tempfile::tempdir().context("there is no room for a list of host names")?;
    let text = "127.0.0.1 localhost 127.0.0.1/<unresolved>\n";
    fs::write(dir.path().join(HOSTS), text).context("a list of host names cannot be written")?;
    Ok(dir)
}

fn hosts_flag(dir: &Path) -> String {
    format!("-Djdk.net.hosts.file={}", dir.join(HOSTS).display())
}

const HOSTS: &str = "hosts";
