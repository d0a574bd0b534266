//! Finds complete directories in the harness's cache, whose layout is:
//!
//! ```text
//! <cache>/lock                      held by the process that provisions
//! <cache>/zookeeper-3.9.6/          complete from the moment it has this name
//!         zookeeper-3.9.6/distribution.json
//! <cache>/java-17-bookworm-x86_64/  a runtime for this release of the system
//! <cache>/package-bookworm-x86_64-libguava-java/   one package, unpacked
//! <cache>/tmp-*/                    work of a live process, or left by a dead one
//! ```

#[cfg(feature = "download")]
mod locked;

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

#[cfg(feature = "download")]
pub(super) use self::locked::Locked;
use crate::machine::children;
use crate::version::Version;
use crate::want::{Item, Want};
use crate::{home, java};

const RECORD: &str = "distribution.json";
/// Since 2, no jar names others in its manifest.
const FORMAT: u32 = 2;

/// The cache directory, which need not exist.
#[derive(Debug, Clone)]
pub(super) struct Cache {
    pub(super) dir: PathBuf,
    /// Names the systems that a Java runtime or a package in the cache fits.
    pub(super) system: String,
}

/// The files of a complete directory, to detect one that lost some.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    format: u32,
    /// Its source, for people.
    origin: String,
    files: Vec<RecordedFile>,
}

#[derive(Debug, Serialize, Deserialize)]
struct RecordedFile {
    path: PathBuf,
    bytes: u64,
}

impl Cache {
    /// Finds the newest ZooKeeper that matches, a Java, or the first of a package's alternatives.
    pub(super) fn find(&self, item: &mut Item) -> Option<PathBuf> {
        for dir in self.candidates(&item.want) {
            match verify(&dir).and_then(|()| content(&item.want, &dir)) {
                Ok(found) => return Some(found),
                Err(reason) => item.tried(dir.display().to_string(), format!("damaged: {reason}")),
            }
        }
        let wanted = match &item.want {
            Want::ZooKeeper(request) => request.or_default().to_string(),
            Want::Java => "Java".to_owned(),
            Want::Package(package) => package.to_string(),
        };
        item.tried(
            format!("cache {}", self.dir.display()),
            format!("nothing for {wanted}"),
        );
        None
    }

    fn candidates(&self, want: &Want) -> Vec<PathBuf> {
        let named = |prefix, matches: &dyn Fn(&str) -> bool| {
            let mut dirs = children(&self.dir, prefix);
            dirs.retain(|dir| {
                let name = dir.file_name().unwrap_or_default().to_string_lossy();
                name.strip_prefix(prefix).is_some_and(matches)
            });
            dirs
        };
        match want {
            Want::ZooKeeper(request) => named("zookeeper-", &|rest| {
                Version::parse(rest).is_some_and(|version| request.or_default().accepts(version))
            }),
            Want::Java => {
                let end = format!("-{}", self.system);
                named("java-", &|rest| {
                    let feature = rest.strip_suffix(&end);
                    feature.is_some_and(|feature| feature.parse::<u32>().is_ok())
                })
            }
            Want::Package(package) => {
                let dirs = package.alternatives.iter().map(|name| {
                    let name = format!("package-{}-{name}", self.system);
                    self.dir.join(name)
                });
                dirs.filter(|dir| dir.exists()).collect()
            }
        }
    }
}

/// Finds in a directory of the cache what it is for.
pub(super) fn content(want: &Want, dir: &Path) -> Result<PathBuf, String> {
    match want {
        Want::ZooKeeper(_) => home::inspect(dir).map(|found| found.home),
        Want::Java => {
            let java = java_of(dir).ok_or("no bin/java in it")?;
            java::check(&java).map(|_| java)
        }
        Want::Package(_) => Ok(dir.to_owned()),
    }
}

/// The `java` of a runtime in the cache: a tree of Debian packages.
pub(super) fn java_of(dir: &Path) -> Option<PathBuf> {
    children(&dir.join("usr/lib/jvm"), "java-")
        .into_iter()
        .filter(|home| !home.is_symlink())
        .map(|home| home.join("bin/java"))
        .find(|java| java.is_file())
}

fn verify(dir: &Path) -> Result<(), String> {
    let in_record = |error: &dyn std::fmt::Display| format!("{RECORD}: {error}");
    let text = fs::read_to_string(dir.join(RECORD)).map_err(|error| in_record(&error))?;
    let record: Record = serde_json::from_str(&text).map_err(|error| in_record(&error))?;
    if record.format != FORMAT {
        let format = record.format;
        return Err(format!(
            "{RECORD} has format {format}, this version reads {FORMAT}"
        ));
    }
    for RecordedFile { path, bytes } in &record.files {
        let path_shown = path.display();
        match fs::metadata(dir.join(path)) {
            Ok(found) if found.len() == *bytes => {}
            Ok(found) => {
                let len = found.len();
                return Err(format!("{path_shown} has {len} bytes instead of {bytes}"));
            }
            Err(error) => return Err(format!("{path_shown}: {error}")),
        }
    }
    Ok(())
}
