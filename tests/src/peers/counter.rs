//! Servers whose counter for sequential nodes, or whose version of a node, is about to end.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use zk_harness::{Ensemble, ProcessState, Server};

use super::compiler::Compiler;
use super::{jars, run};

const SOURCE: (&str, &str) = (
    "SeedCounter.java",
    include_str!("../../java/SeedCounter.java"),
);

const VERSION_SOURCE: (&str, &str) = (
    "SeedVersion.java",
    include_str!("../../java/SeedVersion.java"),
);

const WITHIN: Duration = Duration::from_secs(60);

/// Lets the next sequential child of `parent` get the number `next`, on an ensemble of one server that is stopped.
///
/// The server counts the children that a node ever had in 32 bits, and would need two thousand million of them to show
/// what happens at the end. So this reads the server's files with the server's own code, changes the number, and writes
/// a snapshot, from which the server starts the next time. The counter only goes forwards; `parent` must exist.
///
/// # Errors
///
/// The ensemble has more than one server, or it runs; `parent` does not exist or had more children already; there is no
/// compiler and none can be provisioned.
///
/// # Cancel safety
///
/// Safe: the server's files are as before, or the snapshot is there.
pub async fn seed_counter(ensemble: &Ensemble, parent: &str, next: i32) -> anyhow::Result<()> {
    seed(ensemble, SOURCE, parent, next).await
}

/// Sets the version of the data of the node at `path`, on an ensemble of one server that is stopped.
///
/// Two thousand million writes would be needed otherwise. It works as [`seed_counter`] does.
///
/// # Errors
///
/// Those of [`seed_counter`], except that the version may go anywhere.
///
/// # Cancel safety
///
/// Safe: the server's files are as before, or the snapshot is there.
pub async fn seed_version(ensemble: &Ensemble, path: &str, version: i32) -> anyhow::Result<()> {
    seed(ensemble, VERSION_SOURCE, path, version).await
}

/// Runs a program over the files of the only server, which is stopped.
async fn seed(
    ensemble: &Ensemble,
    source: (&str, &str),
    path: &str,
    number: i32,
) -> anyhow::Result<()> {
    let [server] = ensemble.servers() else {
        anyhow::bail!(
            "the files of an ensemble of several servers cannot be changed in one of them"
        );
    };
    ensure!(
        server.process_state() == ProcessState::Stopped,
        "server {} runs; stop it first",
        server.id()
    );
    let compiler = Compiler::find().await?;
    let distribution = ensemble.distribution();
    let mut classpath = distribution.classpath.clone();
    classpath.retain(|jar| !jars::is_chatty(jar));
    let classes = compiler.compile(&[source], &classpath).await?;
    classpath.insert(0, classes);
    let [data, log] = directories(server)?;
    let mut command = run::java(&distribution.java);
    command
        .args(run::QUICK)
        .arg("-classpath")
        .arg(jars::joined(&classpath)?)
        .arg(source.0.trim_end_matches(".java"))
        .args([data, log])
        .args([path, &number.to_string()]);
    let what = format!("changing the number of {path}");
    run::output(&mut command, &what, WITHIN).await.map(drop)
}

/// Where the server has its snapshots and its transaction log, as its configuration says.
fn directories(server: &Server) -> anyhow::Result<[PathBuf; 2]> {
    let file = server.directory().join(format!("zoo-{}.cfg", server.id()));
    let text =
        fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let property = |name: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
            .map(PathBuf::from)
            .with_context(|| format!("{} has no {name}", file.display()))
    };
    Ok([property("dataDir")?, property("dataLogDir")?])
}
