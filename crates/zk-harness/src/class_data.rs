//! Finds, checks and names class-data archives, with which servers start in two thirds of the processor time.
//!
//! Java otherwise reads and verifies the same classes from the same jars at each start.
//! The file is a dynamic archive ([JEP 350]), which Java writes when it is stopped with SIGTERM. Java ignores one that does
//! not fit its version or its jars.
//!
//! [JEP 350]: https://openjdk.org/jeps/350

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use zk_provision::{Distribution, Source};

use crate::error::Error;

/// An archive that has to be written.
///
/// Processes may write it concurrently: each writes a file of its own and then renames it.
#[derive(Debug)]
pub(crate) struct MissingArchive {
    file: PathBuf,
    /// The file that Java writes.
    new: PathBuf,
}

/// Returns the archive of this distribution, if there is one.
pub(crate) fn find(distribution: &Distribution) -> Option<PathBuf> {
    file(distribution).filter(|file| file.is_file())
}

/// Returns the archive that this distribution lacks; `None` if there is one, or if the distribution has no place for it.
pub(crate) fn missing(distribution: &Distribution) -> Option<MissingArchive> {
    let file = file(distribution).filter(|file| !file.exists())?;
    let new = file.with_extension(format!("{}.new", std::process::id()));
    Some(MissingArchive { file, new })
}

impl MissingArchive {
    /// Returns the flag with which Java writes the archive.
    pub(crate) fn flag(&self) -> String {
        format!("-XX:ArchiveClassesAtExit={}", self.new.display())
    }

    /// Gives the written archive its name, if Java starts with it.
    pub(crate) fn publish(&self, java: &Path) -> Result<(), Error> {
        // Java ignores an archive that does not fit, but crashes on one that was cut short, as by a full disk.
        let loaded = Command::new(java)
            .arg(format!("-XX:SharedArchiveFile={}", self.new.display()))
            .arg("-version")
            .output();
        let published = loaded.and_then(|loaded| {
            if loaded.status.success() {
                return fs::rename(&self.new, &self.file);
            }
            fs::remove_file(&self.new)?;
            let status = loaded.status;
            Err(io::Error::other(format!(
                "Java does not start with it ({status})"
            )))
        });
        published.map_err(|error| Error::io("write", &self.file, error))
    }
}

/// Returns the path of the archive: beside the jars in the harness's cache, with the Java it is for in its name.
///
/// Returns `None` for a distribution outside the cache, and if Java is older than 13.
fn file(distribution: &Distribution) -> Option<PathBuf> {
    let in_cache = matches!(distribution.source, Source::Cached | Source::Provisioned);
    if !in_cache || distribution.java_feature()? < FIRST_WITH_DYNAMIC_ARCHIVES {
        return None;
    }
    let java = fs::canonicalize(&distribution.java).ok()?;
    let built = java.metadata().ok()?.modified().ok()?;
    let built = built.duration_since(std::time::UNIX_EPOCH).ok()?.as_secs();
    let home = java
        .parent()
        .and_then(Path::parent)?
        .file_name()?
        .to_str()?;
    let file = distribution
        .home
        .join(format!("classes-{home}-{built}.jsa"));
    // A colon separates two archives.
    (!file.to_str()?.contains(':')).then_some(file)
}

const FIRST_WITH_DYNAMIC_ARCHIVES: u32 = 13;
