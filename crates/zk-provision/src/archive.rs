//! Downloads, verifies and unpacks an official release archive.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use sha2::{Digest, Sha512};
use tar::Archive;

use crate::distribution::Progress;
use crate::fetch::fetch;
use crate::home;
use crate::release::stem;
use crate::version::Version;

/// Fetches a release into `downloads` and unpacks it into `dir`; returns its home there.
pub(super) fn provision(
    version: Version,
    expected: &str,
    url: &str,
    downloads: &Path,
    dir: &Path,
    progress: &dyn Fn(&Progress),
) -> Result<PathBuf, String> {
    let io = |error: io::Error| format!("cannot write below {}: {error}", downloads.display());
    fs::create_dir_all(downloads).map_err(io)?;
    let name = format!("{}.tar.gz", stem(version));
    let part = downloads.join(format!("{name}.part"));
    let report = |what: String, done, total| progress(&Progress { what, done, total });
    let mut fresh = !part.exists();
    loop {
        fetch(url, &part, &|done, total| {
            report(format!("downloading {name}"), done, total);
        })?;
        let actual =
            sha512(&part).map_err(|error| format!("cannot read {}: {error}", part.display()))?;
        if actual == expected {
            break;
        }
        fs::remove_file(&part).map_err(io)?;
        if fresh {
            return Err(format!(
                "its SHA-512 is {actual}, expected {expected}; it was deleted"
            ));
        }
        // The first part may belong to another file: start over.
        tracing::info!(
            actual,
            "a resumed download has the wrong checksum, starting over"
        );
        fresh = true;
    }
    report(format!("unpacking {name}"), 0, None);
    unpack(&part, dir).map_err(|error| format!("it cannot be unpacked: {error}"))?;
    let home = dir.join(stem(version));
    let found =
        home::inspect(&home).map_err(|reason| format!("its content is not a release: {reason}"))?;
    if found.version != version {
        return Err(format!(
            "it contains ZooKeeper {}, expected {version}",
            found.version
        ));
    }
    fs::remove_file(&part).map_err(io)?;
    Ok(home)
}

/// Unpacks an archive without the documentation, which no server needs.
fn unpack(archive: &Path, dir: &Path) -> io::Result<()> {
    let mut archive = Archive::new(GzDecoder::new(File::open(archive)?));
    for entry in archive.entries()? {
        let mut entry = entry?;
        if entry.path()?.iter().nth(1) != Some("docs".as_ref()) {
            // It writes nothing outside of the directory.
            entry.unpack_in(dir)?;
        }
    }
    Ok(())
}

/// The checksum of a file, in lower case.
fn sha512(path: &Path) -> io::Result<String> {
    let digest = Sha512::digest(fs::read(path)?);
    Ok(digest
        .iter()
        .fold(String::new(), |text, byte| text + &format!("{byte:02x}")))
}
