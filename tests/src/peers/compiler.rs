//! Compiles Java with nothing but a Java runtime.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use sha2::{Digest as _, Sha256};
use zk_provision::Search;

use super::{jars, run};

/// Eclipse's compiler, and the Java that runs it and what it compiles.
#[derive(Debug, Clone)]
pub struct Compiler {
    java: PathBuf,
    jar: PathBuf,
}

/// The compiler's package; the name before the bar is that of Debian 13 and later.
const PACKAGE: &str = "libeclipse-jdt-core-compiler-batch-java | libeclipse-jdt-core-java";

/// Names of the compiler's jar: on its own, in either package.
const JARS: [&str; 4] = [
    "ecj",
    "eclipse-jdt-core-compiler-batch",
    "org.eclipse.jdt.core.compiler.batch",
    "eclipse-jdt-core",
];

const MAIN: &str = "org.eclipse.jdt.internal.compiler.batch.Main";

/// The language and the class files: what the oldest Java that runs the compiler understands.
const RELEASE: &str = "-11";

const WITHIN: Duration = Duration::from_secs(60);

impl Compiler {
    /// Finds the compiler and a Java, or provisions them as the harness does; see [`Search::from_env`] for the
    /// settings.
    ///
    /// # Errors
    ///
    /// It was not found; the error says what was tried.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a download continues, and its result is kept for the next time.
    pub async fn find() -> anyhow::Result<Self> {
        tokio::task::spawn_blocking(Self::look).await?
    }

    fn look() -> anyhow::Result<Self> {
        let search = Search::from_env()?;
        let dirs = match jars::home() {
            Some(home) => vec![home],
            None => packaged(&search, &[PACKAGE])?,
        };
        let jar = JARS.iter().find_map(|artifact| jars::find(&dirs, artifact));
        Ok(Self {
            java: search.find()?.java,
            jar: jar.map_or_else(|| jars::need(&dirs, JARS[0]), Ok)?,
        })
    }

    /// The `java` program.
    pub fn java(&self) -> &Path {
        &self.java
    }

    /// Compiles sources, given as file name and content, and answers the directory with the classes.
    ///
    /// What was compiled before with the same content and class path is used again. The classes are kept beside the
    /// running program, in the target directory; two processes may compile the same concurrently, and one result stays.
    ///
    /// # Errors
    ///
    /// What the compiler says.
    ///
    /// # Cancel safety
    ///
    /// Safe: the compiler is killed and nothing is kept.
    pub async fn compile(
        &self,
        sources: &[(&str, &str)],
        classpath: &[PathBuf],
    ) -> anyhow::Result<PathBuf> {
        let base = std::env::current_exe()
            .ok()
            .and_then(|program| Some(program.parent()?.join("zk-tests-java")))
            .context("this program's own directory is not known")?;
        let classes = base.join(self.key(sources, classpath));
        if classes.is_dir() {
            return Ok(classes);
        }
        let staging = fs::create_dir_all(&base)
            .and_then(|()| tempfile::tempdir_in(&base))
            .with_context(|| format!("cannot write below {}", base.display()))?;
        let made = staging.path().join("classes");
        let mut command = run::java(&self.java);
        command
            .args(run::QUICK)
            .arg("-classpath")
            .arg(&self.jar)
            .arg(MAIN)
            .args([RELEASE, "-encoding", "UTF-8", "-nowarn", "-proc:none"])
            .arg("-d")
            .arg(&made)
            .arg("-classpath")
            .arg(jars::joined(classpath)?);
        for (name, content) in sources {
            let file = staging.path().join(name);
            fs::write(&file, content)?;
            command.arg(file);
        }
        let names: Vec<&str> = sources.iter().map(|(name, _)| *name).collect();
        run::output(
            &mut command,
            &format!("compiling {}", names.join(", ")),
            WITHIN,
        )
        .await?;
        match fs::rename(&made, &classes) {
            // Another process has written the same classes.
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(classes),
            renamed => renamed
                .map(|()| classes)
                .with_context(|| format!("cannot keep classes in {}", base.display())),
        }
    }

    /// Depends on everything that the classes depend on.
    fn key(&self, sources: &[(&str, &str)], classpath: &[PathBuf]) -> String {
        let mut hash = Sha256::new();
        let mut add = |bytes: &[u8]| {
            hash.update(bytes.len().to_le_bytes());
            hash.update(bytes);
        };
        for (name, content) in sources {
            add(name.as_bytes());
            add(content.as_bytes());
        }
        for jar in classpath.iter().chain([&self.jar]) {
            add(jar.as_os_str().as_encoded_bytes());
            let bytes = fs::metadata(jar).map_or(0, |metadata| metadata.len());
            add(&bytes.to_le_bytes());
        }
        let digest = hash.finalize();
        digest[..8]
            .iter()
            .fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
    }
}

/// The directories with the jars of packages.
pub(super) fn packaged(search: &Search, packages: &[&str]) -> anyhow::Result<Vec<PathBuf>> {
    let roots = search.packages(packages).with_context(|| {
        format!(
            "without packages, {} can name a directory with the jars of Curator, guava and ecj",
            jars::HOME
        )
    })?;
    Ok(roots
        .into_iter()
        .map(|root| root.join("usr/share/java"))
        .collect())
}
