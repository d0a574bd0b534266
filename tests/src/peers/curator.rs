//! Curator's jars, and the programs that use them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use tokio::process::Command;
use zk_provision::Search;

use super::compiler::{Compiler, packaged};
use super::jars;
use super::run::{self, QUICK};

/// Apache Curator, ready to run: a Java, a class path, and the compiled programs of `tests/java`.
#[derive(Debug, Clone)]
pub struct Curator {
    java: PathBuf,
    classpath: Vec<PathBuf>,
}

const PACKAGES: [&str; 8] = [
    "libcurator-client-java",
    "libcurator-framework-java",
    "libcurator-recipes-java",
    "libguava-java",
    "libcurator-discovery-java",
    "libjackson2-core-java",
    "libjackson2-annotations-java",
    "libjackson2-databind-java",
];

const JARS: [&str; 8] = [
    "curator-client",
    "curator-framework",
    "curator-recipes",
    "guava",
    "curator-x-discovery",
    "jackson-core",
    "jackson-annotations",
    "jackson-databind",
];

/// Debian's guava has it inside, guava's own release has not.
const OPTIONAL: &str = "failureaccess";

/// ZooKeeper's own lock recipe, in the directory of ZooKeeper's jars.
const RECIPE: &str = "zookeeper-recipes-lock";

const SOURCES: &[(&str, &str)] = &[
    ("Peer.java", include_str!("../../java/Peer.java")),
    ("Contender.java", include_str!("../../java/Contender.java")),
    ("Basics.java", include_str!("../../java/Basics.java")),
    (
        "RecipeContender.java",
        include_str!("../../java/RecipeContender.java"),
    ),
    (
        "RwContender.java",
        include_str!("../../java/RwContender.java"),
    ),
    ("Elector.java", include_str!("../../java/Elector.java")),
    (
        "SemaphoreContender.java",
        include_str!("../../java/SemaphoreContender.java"),
    ),
    ("Bench.java", include_str!("../../java/Bench.java")),
    (
        "CacheBench.java",
        include_str!("../../java/CacheBench.java"),
    ),
    ("Melee.java", include_str!("../../java/Melee.java")),
    ("Counter.java", include_str!("../../java/Counter.java")),
    (
        "CounterPeer.java",
        include_str!("../../java/CounterPeer.java"),
    ),
    (
        "BarrierBench.java",
        include_str!("../../java/BarrierBench.java"),
    ),
    (
        "BarrierPeer.java",
        include_str!("../../java/BarrierPeer.java"),
    ),
    (
        "PlainClient.java",
        include_str!("../../java/PlainClient.java"),
    ),
    ("QueuePeer.java", include_str!("../../java/QueuePeer.java")),
    (
        "SharedQueuePeer.java",
        include_str!("../../java/SharedQueuePeer.java"),
    ),
    ("Revocable.java", include_str!("../../java/Revocable.java")),
    (
        "DiscoveryPeer.java",
        include_str!("../../java/DiscoveryPeer.java"),
    ),
    ("GroupPeer.java", include_str!("../../java/GroupPeer.java")),
];

impl Curator {
    /// Finds Curator, ZooKeeper's client, a compiler and a Java, or provisions them, and compiles the programs.
    ///
    /// The first of these that there is counts: the directory named by `ZK_TESTS_CURATOR_HOME`, installed packages,
    /// the harness's cache, the machine's apt. The harness's settings count as they do for ensembles, see
    /// [`Search::from_env`]; ZooKeeper's client is of the version that the harness finds.
    /// Takes milliseconds where everything is there and compiled.
    ///
    /// # Errors
    ///
    /// Something is missing and cannot be provisioned: the error lists what was tried. Or the compiler refused.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a download continues, and its result is kept for the next time.
    pub async fn find() -> anyhow::Result<Self> {
        let mut classpath = tokio::task::spawn_blocking(look)
            .await?
            .context("Curator was not found")?;
        let compiler = Compiler::find()
            .await
            .context("no Java compiler was found")?;
        let classes = compiler.compile(SOURCES, &classpath).await?;
        classpath.insert(0, classes);
        Ok(Self {
            java: compiler.java().to_owned(),
            classpath,
        })
    }

    /// The `java` program.
    pub fn java(&self) -> &Path {
        &self.java
    }

    /// The compiled programs, Curator's jars and those they need.
    pub fn classpath(&self) -> &[PathBuf] {
        &self.classpath
    }

    /// Curator's version, by the name of its jar; a question mark if that tells none.
    pub fn version(&self) -> String {
        let version = self.classpath.iter().find_map(|jar| {
            // A distribution has both, one of them a link to the other.
            if jar.file_stem()? != "curator-recipes" {
                return versioned(jar);
            }
            let mut beside = std::fs::read_dir(jar.parent()?).ok()?;
            beside.find_map(|entry| versioned(&entry.ok()?.path()))
        });
        version.unwrap_or_else(|| "?".to_owned())
    }

    /// Increments the `DistributedAtomicLong` at `path` so many times, and answers what each increment came to.
    ///
    /// # Errors
    ///
    /// Java cannot be started, or is not done after two minutes, or the counter is contended for too long.
    ///
    /// # Cancel safety
    ///
    /// Safe: the process is killed.
    pub async fn increments(
        &self,
        connect: &str,
        path: &str,
        times: u32,
    ) -> anyhow::Result<Vec<i64>> {
        let mut command = self.program(&QUICK, "Counter")?;
        command.args([connect, path, &times.to_string()]);
        let within = Duration::from_secs(120);
        let printed = run::output(&mut command, "incrementing with Curator", within).await?;
        printed
            .lines()
            .map(|line| line.parse().with_context(|| format!("it printed {line:?}")))
            .collect()
    }

    /// The program that takes a lock again and again, to be given its arguments.
    pub(crate) fn melee(&self) -> anyhow::Result<Command> {
        self.program(&QUICK, "Melee")
    }

    /// One of the programs, to be given its arguments.
    pub(super) fn program(&self, flags: &[&str], main: &str) -> anyhow::Result<Command> {
        let mut command = run::java(&self.java);
        command
            .args(flags)
            .arg("-classpath")
            .arg(jars::joined(&self.classpath)?)
            .arg(main);
        Ok(command)
    }
}

/// The version in the name of a jar of Curator's recipes.
fn versioned(jar: &Path) -> Option<String> {
    let name = jar.file_name()?.to_str()?.strip_suffix(".jar")?;
    name.strip_prefix("curator-recipes-").map(str::to_owned)
}

fn look() -> anyhow::Result<Vec<PathBuf>> {
    let search = Search::from_env()?;
    let zookeeper = search.find()?;
    let dirs = match jars::home() {
        Some(home) => vec![home],
        None => packaged(&search, &PACKAGES)?,
    };
    let mut classpath = Vec::new();
    let beside: Vec<PathBuf> = zookeeper
        .classpath
        .iter()
        .filter_map(|jar| Some(jar.parent()?.to_owned()))
        .chain(dirs.iter().cloned())
        .collect();
    classpath.push(jars::need(&beside, RECIPE)?);
    for artifact in JARS {
        classpath.push(jars::need(&dirs, artifact)?);
    }
    classpath.extend(jars::find(&dirs, OPTIONAL));
    classpath.extend(
        zookeeper
            .classpath
            .into_iter()
            .filter(|jar| !jars::is_chatty(jar)),
    );
    Ok(classpath)
}
