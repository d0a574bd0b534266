//! Creates class-data archives, with which servers start in two thirds of the processor time.
//!
//! Java otherwise reads and verifies the same classes from the same jars at each start.
//! The file is a dynamic archive ([JEP 350]). Java ignores one that does not fit its version or its jars.
//!
//! [JEP 350]: https://openjdk.org/jeps/350

use std::fs;
use std::io;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;

use zk_provision::Distribution;
use zk_provision::Search;
use zk_provision::Source;

use crate::ensemble::Ensemble;
use crate::error::Error;

/// Returns the archive of this distribution, if there is one.
pub(crate) fn find(distribution: &Distribution) -> Option<PathBuf> {
    file(distribution).filter(|file| file.is_file())
}

/// Creates the archive of this distribution, unless there is one or the distribution has no place for it.
///
/// It starts three servers, because a server of a quorum loads more classes than a standalone one. Java writes the
/// archive when it is stopped with SIGTERM.
/// Processes may do this concurrently: each writes a file of its own and then renames it.
pub(crate) async fn make(distribution: &Distribution) -> Result<(), Error> {
    let Some(file) = file(distribution).filter(|file| !file.exists()) else {
        return Ok(());
    };
    let new = file.with_extension(format!("{}.new", std::process::id()));
    let flags = crate::config::QUICK_JVM_FLAGS
        .map(str::to_owned)
        .into_iter();
    // Flags of the caller's own also keep `start` from using class data.
    let ensemble = Ensemble::builder()
        .servers(3)
        .search(
            Search::new()
                .home(&distribution.home)
                .java(&distribution.java),
        )
        .jvm_flags(flags.chain([format!("-XX:ArchiveClassesAtExit={}", new.display())]))
        .start()
        .await?;
    ensemble.servers()[0].stop().await?;
    ensemble.down().await?;
    // Java ignores an archive that does not fit, but crashes on one that was cut short, as by a full disk.
    let loaded = Command::new(&distribution.java)
        .arg(format!("-XX:SharedArchiveFile={}", new.display()))
        .arg("-version")
        .output();
    let kept = loaded.and_then(|loaded| {
        if loaded.status.success() {
            fs::rename(&new, &file)
        } else {
            fs::remove_file(&new)?;
            Err(io::Error::other(format!(
                "Java does not start with it ({})",
                loaded.status
            )))
        }
    });
    kept.map_err(|error| Error::io("write", &file, error))
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
