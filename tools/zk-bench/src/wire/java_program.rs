//! The program of the Java client.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use tokio::process::Command;
use zk_harness::Distribution;
use zk_tests::peers::Compiler;

/// The compiled program, with ZooKeeper's own client of the servers' version.
#[derive(Debug)]
pub(super) struct JavaProgram {
    java: PathBuf,
    classpath: OsString,
}

const SOURCE: (&str, &str) = (
    "ClientLoad.java",
    include_str!("../../java/ClientLoad.java"),
);

impl JavaProgram {
    /// Compiles the program.
    pub(super) async fn compile(distribution: &Distribution) -> anyhow::Result<Self> {
        let mut jars = distribution.classpath.clone();
        // Without a binding nothing is logged, which is the fastest.
        jars.retain(|jar| !is_logging_binding(jar));
        let classes = Compiler::find().await?.compile(&[SOURCE], &jars).await?;
        jars.insert(0, classes);
        Ok(Self {
            java: distribution.java.clone(),
            classpath: std::env::join_paths(jars).context("a path has a colon in it")?,
        })
    }

    /// Returns the command that runs it, with the flags that Java has by itself.
    pub(super) fn command(&self, server: &str) -> Command {
        let mut command = Command::new(&self.java);
        command
            .env_remove("JAVA_TOOL_OPTIONS")
            .env_remove("JDK_JAVA_OPTIONS")
            .arg("-classpath")
            .arg(&self.classpath)
            .args(["ClientLoad", server]);
        command
    }
}

fn is_logging_binding(jar: &Path) -> bool {
    let name = jar.file_name().unwrap_or_default().to_string_lossy();
    let is_slf4j = name.starts_with("slf4j-") && !name.starts_with("slf4j-api");
    is_slf4j || name.starts_with("logback-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bindings_for_logs_are_left_out() {
        for (jar, expected) in [
            ("slf4j-api-2.0.13.jar", false),
            ("slf4j-reload4j.jar", true),
            ("logback-classic-1.3.15.jar", true),
            ("zookeeper-3.9.4.jar", false),
        ] {
            assert_eq!(is_logging_binding(&Path::new("/x").join(jar)), expected);
        }
    }
}
