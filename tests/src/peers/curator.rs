//! Curator's jars, and the programs that use them.

use std::path::Path;
use std::path::PathBuf;

use anyhow::Context as _;
use tokio::process::Command;
use zk_harness::dist::Search;

use super::compiler::Compiler;
use super::compiler::packaged;
use super::jars;
use super::run;

/// Apache Curator, ready to run: a Java, a class path, and the compiled programs of `tests/java`.
#[derive(Debug, Clone)]
pub struct Curator {
    java: PathBuf,
    classpath: Vec<PathBuf>,
}

const PACKAGES: [&str; 4] = [
    "libcurator-client-java",
    "libcurator-framework-java",
    "libcurator-recipes-java",
    "libguava-java",
];

const JARS: [&str; 4] = [
    "curator-client",
    "curator-framework",
    "curator-recipes",
    "guava",
];

/// Debian's guava has it inside, guava's own release has not.
const OPTIONAL: &str = "failureaccess";

const SOURCES: [(&str, &str); 2] = [
    ("Contender.java", include_str!("../../java/Contender.java")),
    ("Bench.java", include_str!("../../java/Bench.java")),
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
    /// Safe: a download that has begun goes on, and its result is kept for the next time.
    pub async fn find() -> anyhow::Result<Self> {
        let mut classpath = tokio::task::spawn_blocking(look)
            .await?
            .context("Curator was not found")?;
        let compiler = Compiler::find()
            .await
            .context("no Java compiler was found")?;
        let classes = compiler.compile(&SOURCES, &classpath).await?;
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

fn look() -> anyhow::Result<Vec<PathBuf>> {
    let search = Search::from_env()?;
    let zookeeper = search.find()?;
    let dirs = match jars::home() {
        Some(home) => vec![home],
        None => packaged(&search, &PACKAGES)?,
    };
    let mut classpath = Vec::new();
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
