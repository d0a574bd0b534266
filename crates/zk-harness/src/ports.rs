//! Ports that no other ensemble of this user will take.
//!
//! Binding port 0, closing the socket and passing the number on lets two ensembles that start together get the same
//! port, and lets a third one take the port of a server that is down for a moment.
//! So the ports of an ensemble are reserved as long as its directory exists: a file `<first>-<count>` that names
//! the directory, in a folder of the user's own. A reservation whose directory is gone is void.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::FlockOperation;

use crate::error::Error;
use crate::wait::until_blocking;

/// A run of ports, reserved by a file.
#[derive(Debug)]
pub(crate) struct Reservation {
    pub(crate) first: u16,
    pub(crate) file: PathBuf,
}

/// Reserves `count` adjacent free ports, none of them in `taken`, for the ensemble in `directory`.
///
/// The file of the reservation stays until the caller removes it or `directory` is gone.
pub(crate) fn reserve(
    directory: &Path,
    count: u16,
    taken: &BTreeSet<u16>,
) -> Result<Reservation, Error> {
    reserve_in(&registry(), directory, count, taken)
}

fn reserve_in(
    registry: &Path,
    directory: &Path,
    count: u16,
    taken: &BTreeSet<u16>,
) -> Result<Reservation, Error> {
    let failed = |source| Error::io("reserve ports in", registry, source);
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(registry)
        .map_err(failed)?;
    let lock = File::open(registry).map_err(failed)?;
    until_blocking(LOCK_WITHIN, Duration::from_millis(5), || {
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)
    })
    .map_err(|errno| failed(errno.into()))?;
    let mut reserved = taken.clone();
    for entry in fs::read_dir(registry).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let Some(ports) = entry.file_name().to_str().and_then(parse_name) else {
            continue;
        };
        let owner = fs::read_to_string(entry.path()).unwrap_or_default();
        if Path::new(&owner).exists() {
            reserved.extend(ports);
        } else {
            // Void: its ensemble is gone. Somebody else may have removed the file already.
            fs::remove_file(entry.path())
                .or_else(ignore_missing)
                .map_err(failed)?;
        }
    }
    let first = choose(count, &reserved, fastrand::u16(..), is_free).ok_or_else(|| {
        failed(io::Error::other(format!(
            "no {count} adjacent ports from {FIRST} to {LAST} are free"
        )))
    })?;
    let file = registry.join(format!("{first}-{count}"));
    fs::write(&file, directory.to_string_lossy().as_bytes()).map_err(failed)?;
    Ok(Reservation { first, file })
}

/// Finds `count` adjacent ports that are neither reserved nor in use, starting the search at a place given by `start`.
fn choose(
    count: u16,
    reserved: &BTreeSet<u16>,
    start: u16,
    is_free: impl Fn(u16) -> bool,
) -> Option<u16> {
    let places = LAST - FIRST + 2 - count;
    let start = start % places;
    // From there to the end, then from the beginning.
    for range in [start..places, 0..start] {
        let mut at = range.start;
        while at < range.end {
            let first = FIRST + at;
            // Skip past the last port of the run that is in the way.
            match (first..first + count)
                .rev()
                .find(|port| reserved.contains(port) || !is_free(*port))
            {
                None => return Some(first),
                Some(blocked) => at += blocked - first + 1,
            }
        }
    }
    None
}

/// Whether a server could listen on the port.
pub(crate) fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

fn registry() -> PathBuf {
    std::env::temp_dir()
        .join(format!("zk-harness-{}", rustix::process::getuid().as_raw()))
        .join("ports")
}

fn parse_name(name: &str) -> Option<impl Iterator<Item = u16> + use<>> {
    let (first, count) = name.split_once('-')?;
    let (first, count) = (first.parse::<u16>().ok()?, count.parse::<u16>().ok()?);
    Some(first..first.checked_add(count)?)
}

fn ignore_missing(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::NotFound {
        Ok(())
    } else {
        Err(error)
    }
}

/// Below the ports that Linux and macOS give to outgoing connections, which could otherwise take one in between.
const FIRST: u16 = 20_000;
const LAST: u16 = 32_000;

const LOCK_WITHIN: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests;
