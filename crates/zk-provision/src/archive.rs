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

/// Fetches a release and unpacks it into `dir`; returns its home there.
pub(super) fn provision(
    version: Version,
    expected: &str,
    url: &str,
    dir: &Path,
    progress: &dyn Fn(&Progress),
) -> Result<PathBuf, String> {
    let name = format!("{}.tar.gz", stem(version));
    let archive = dir.join(&name);
    let report = |what: String, done, total| progress(&Progress { what, done, total });
    fetch(url, &archive, &|done, total| {
        report(format!("downloading {name}"), done, total);
    })?;
    let actual =
        sha512(&archive).map_err(|error| format!("cannot read {}: {error}", archive.display()))?;
    if actual != expected {
        return Err(format!("its SHA-512 is {actual}, expected {expected}"));
    }
    report(format!("unpacking {name}"), 0, None);
    unpack(&archive, dir).map_err(|error| format!("it cannot be unpacked: {error}"))?;
    let home = dir.join(stem(version));
    let found =
        home::inspect(&home).map_err(|reason| format!("its content is not a release: {reason}"))?;
    if found.version != version {
        return Err(format!(
            "it contains ZooKeeper {}, expected {version}",
            found.version
        ));
    }
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
