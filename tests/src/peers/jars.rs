//! Jars by the name of their artifact.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

/// The directory of jars that a caller names instead of packages.
pub(super) const HOME: &str = "ZK_TESTS_CURATOR_HOME";

/// What [`HOME`] says; a variable that is set to nothing counts as not set.
pub(super) fn home() -> Option<PathBuf> {
    std::env::var_os(HOME)
        .filter(|value| !value.is_empty())
        .map(PathBuf::from)
}

/// The jar of an artifact in one of the directories, `guava.jar` before `guava-31.1-jre.jar`.
pub(super) fn find(dirs: &[PathBuf], artifact: &str) -> Option<PathBuf> {
    dirs.iter().find_map(|dir| {
        let plain = dir.join(format!("{artifact}.jar"));
        if plain.is_file() {
            return Some(plain);
        }
        let mut versions: Vec<PathBuf> = fs::read_dir(dir)
            .ok()?
            .filter_map(Result::ok)
            .map(|entry| entry.path())
            .filter(|path| path.is_file() && is_version_of(path, artifact))
            .collect();
        versions.sort();
        versions.pop()
    })
}

/// As [`find`], for a jar that has to be there.
pub(super) fn need(dirs: &[PathBuf], artifact: &str) -> anyhow::Result<PathBuf> {
    find(dirs, artifact).with_context(|| {
        let dirs: Vec<String> = dirs.iter().map(|dir| dir.display().to_string()).collect();
        format!(
            "{artifact}.jar is not in {}; {HOME} can name a directory with all the jars",
            dirs.join(", ")
        )
    })
}

/// The jars as Java's `-classpath` wants them.
pub(super) fn joined(classpath: &[PathBuf]) -> anyhow::Result<OsString> {
    std::env::join_paths(classpath).context("a path on the class path has a colon in it")
}

/// Is it a logging binding that writes to standard output, between a program's lines, unless it is configured?
///
/// slf4j-simple may stay: it writes to standard error. Where there is no binding, libraries are silent.
pub(super) fn is_chatty(jar: &Path) -> bool {
    const BINDINGS: [&str; 5] = [
        "slf4j-log4j12",
        "slf4j-reload4j",
        "logback-classic",
        "logback-core",
        "log4j-1.2",
    ];
    let name = jar.file_name().unwrap_or_default().to_string_lossy();
    BINDINGS.iter().any(|binding| name.starts_with(binding))
}

fn is_version_of(path: &Path, artifact: &str) -> bool {
    path.file_name()
        .and_then(|name| {
            name.to_str()?
                .strip_prefix(artifact)?
                .strip_suffix(".jar")?
                .strip_prefix('-')
        })
        .is_some_and(|version| version.starts_with(|c: char| c.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jar_is_known_by_its_artifact() {
        let dir = tempfile::tempdir().unwrap();
        let dirs = [dir.path().join("none"), dir.path().to_owned()];
        for name in [
            "guava-31.1-jre.jar",
            "ecj-3.32.jar",
            "ecj.jar",
            "curator-client-extra-1.jar",
            "curator-framework-5.4.0.pom",
        ] {
            fs::write(dir.path().join(name), "").unwrap();
        }
        let found = |artifact| {
            let name = find(&dirs, artifact)?.file_name()?.to_owned();
            name.into_string().ok()
        };
        assert_eq!(found("guava").as_deref(), Some("guava-31.1-jre.jar"));
        assert_eq!(found("ecj").as_deref(), Some("ecj.jar"));
        assert_eq!(found("curator-client"), None);
        let error = need(&dirs, "curator-framework").unwrap_err().to_string();
        assert!(
            error.contains("curator-framework.jar") && error.contains(HOME),
            "{error}"
        );
    }

    #[test]
    fn bindings_that_write_to_standard_output_are_left_out() {
        for (name, expected) in [
            ("slf4j-simple.jar", false),
            ("logback-classic-1.2.13.jar", true),
            ("slf4j-api.jar", false),
            ("zookeeper.jar", false),
        ] {
            assert_eq!(is_chatty(&Path::new("/x").join(name)), expected, "{name}");
        }
    }
}
