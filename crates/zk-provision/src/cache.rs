//! Finds complete directories in the harness's cache, whose layout is:
//!
//! ```text
//! <cache>/lock                      held by the process that provisions
//! <cache>/zookeeper-3.9.6/          complete from the moment it has this name
//!         zookeeper-3.9.6/distribution.json
//! <cache>/java-17-bookworm-x86_64/  a runtime for this release of the system
//! <cache>/package-bookworm-x86_64-libguava-java/   one package, unpacked
//! <cache>/downloads/*.part          partial downloads, resumable
//! <cache>/tmp-<pid>-<n>/            work of a live process, or left by a dead one
//! ```

use std::fs;
#[cfg(feature = "download")]
use std::io;
use std::path::Path;
use std::path::PathBuf;

use serde::Deserialize;
use serde::Serialize;

use super::error::Tried;
use super::home;
use super::home::Found;
use super::java;
use super::packages::Package;
use super::places;
use super::version::Request;
use super::version::Version;

const RECORD: &str = "distribution.json";
/// Since 2, no jar names others in its manifest.
const FORMAT: u32 = 2;

/// The cache directory, which need not exist.
#[derive(Debug, Clone)]
pub(super) struct Cache {
    pub(super) dir: PathBuf,
}

/// The recorded files of a complete directory, to detect one that lost files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    format: u32,
    /// Its source, for people.
    origin: String,
    files: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Part {
    path: PathBuf,
    bytes: u64,
}

impl Cache {
    pub(super) fn new(dir: PathBuf) -> Self {
        Self { dir }
    }

    /// Finds the newest ZooKeeper that matches.
    pub(super) fn zookeeper(&self, request: Request, tried: &mut Vec<Tried>) -> Option<Found> {
        self.complete("zookeeper-", tried, |dir, name| {
            let version = Version::parse(name.strip_prefix("zookeeper-")?)?;
            if !request.accepts(version) {
                return None;
            }
            Some(home::inspect(dir))
        })
        .or_else(|| {
            self.nothing(&request.to_string(), tried);
            None
        })
    }

    /// Finds a Java runtime for this system.
    pub(super) fn java(&self, tag: &str, tried: &mut Vec<Tried>) -> Option<PathBuf> {
        self.complete("java-", tried, |dir, name| {
            let feature = name
                .strip_prefix("java-")?
                .strip_suffix(tag)?
                .strip_suffix('-')?;
            feature.parse::<u32>().ok()?;
            let java = java_of(dir).ok_or_else(|| "no bin/java in it".to_owned());
            Some(java.and_then(|java| java::check(&java).map(|_| java)))
        })
        .or_else(|| {
            self.nothing("Java", tried);
            None
        })
    }

    /// Finds a package, or the first of its alternatives.
    pub(super) fn package(
        &self,
        package: &Package,
        tag: &str,
        tried: &mut Vec<Tried>,
    ) -> Option<PathBuf> {
        for name in &package.alternatives {
            let dir = self.dir.join(package_name(tag, name));
            if !dir.exists() {
                continue;
            }
            match verify(&dir) {
                Ok(()) => return Some(dir),
                Err(reason) => tried.push(Tried::new(
                    dir.display().to_string(),
                    format!("damaged: {reason}"),
                )),
            }
        }
        self.nothing(&package.to_string(), tried);
        None
    }

    fn complete<T>(
        &self,
        prefix: &str,
        tried: &mut Vec<Tried>,
        find: impl Fn(&Path, &str) -> Option<Result<T, String>>,
    ) -> Option<T> {
        for dir in places::children(&self.dir, prefix) {
            let name = dir
                .file_name()
                .map(|name| name.to_string_lossy().into_owned())
                .unwrap_or_default();
            let Some(found) = find(&dir, &name) else {
                continue;
            };
            match verify(&dir).and(found) {
                Ok(found) => return Some(found),
                Err(reason) => tried.push(Tried::new(
                    dir.display().to_string(),
                    format!("damaged: {reason}"),
                )),
            }
        }
        None
    }

    fn nothing(&self, wanted: &str, tried: &mut Vec<Tried>) {
        tried.push(Tried::new(
            format!("cache {}", self.dir.display()),
            format!("nothing for {wanted}"),
        ));
    }
}

/// The name of a package's directory; not every package fits every system.
pub(super) fn package_name(tag: &str, name: &str) -> String {
    format!("package-{tag}-{name}")
}

/// The `java` of a runtime in the cache: a tree of Debian packages.
pub(super) fn java_of(dir: &Path) -> Option<PathBuf> {
    places::children(&dir.join("usr/lib/jvm"), "java-")
        .into_iter()
        .filter(|home| !home.is_symlink())
        .map(|home| home.join("bin/java"))
        .find(|java| java.is_file())
}

/// Records the files of `tree`.
#[cfg(feature = "download")]
pub(super) fn write_record(tree: &Path, origin: String, essential: &[PathBuf]) -> io::Result<()> {
    let files = essential
        .iter()
        .map(|path| {
            let bytes = fs::metadata(path)?.len();
            let path = path
                .strip_prefix(tree)
                .map_err(io::Error::other)?
                .to_owned();
            Ok(Part { path, bytes })
        })
        .collect::<io::Result<_>>()?;
    let record = Record {
        format: FORMAT,
        origin,
        files,
    };
    let text = serde_json::to_string_pretty(&record).map_err(io::Error::other)?;
    fs::write(tree.join(RECORD), text)
}

fn verify(dir: &Path) -> Result<(), String> {
    let path = dir.join(RECORD);
    let text = fs::read_to_string(&path).map_err(|error| format!("{RECORD}: {error}"))?;
    let record: Record =
        serde_json::from_str(&text).map_err(|error| format!("{RECORD}: {error}"))?;
    if record.format != FORMAT {
        return Err(format!(
            "{RECORD} has format {}, this version reads {FORMAT}",
            record.format
        ));
    }
    for part in &record.files {
        match fs::metadata(dir.join(&part.path)) {
            Ok(found) if found.len() == part.bytes => {}
            Ok(found) => {
                return Err(format!(
                    "{} has {} bytes instead of {}",
                    part.path.display(),
                    found.len(),
                    part.bytes
                ));
            }
            Err(error) => return Err(format!("{}: {error}", part.path.display())),
        }
    }
    Ok(())
}
