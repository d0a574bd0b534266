//! Ports that no other ensemble of this user will take.
//!
//! Binding port 0, closing the socket and passing the number on lets two ensembles that start together get the same
//! port, and lets a third one take the port of a server that is down for a moment.
//! So the ports of an ensemble, chosen or asked for, are reserved as long as its directory exists: by a file that
//! names ports and directory, in a folder of the user's own. A reservation whose directory is gone is void.
//! No two reservations ever have the same file name: whoever removes one late cannot remove another's.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::wait::until_blocking;

/// Ports that are reserved by a file.
#[derive(Debug)]
pub(crate) struct Reservation {
    /// The first of the ports that were chosen; the others follow it.
    pub(crate) first: u16,
    /// It stays until somebody removes it or finds that its ensemble is gone.
    pub(crate) file: PathBuf,
}

/// Why ports could not be reserved.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// A port that was asked for is reserved for the ensemble in `by`.
    Taken { port: u16, by: PathBuf },
    /// Something else.
    Failed(Error),
}

/// What the file holds.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Reserved {
    directory: PathBuf,
    ports: BTreeSet<u16>,
}

/// Reserves the ports `asked` for and `count` adjacent free ones for the ensemble in `directory`.
pub(crate) fn reserve(
    directory: &Path,
    count: u16,
    asked: &BTreeSet<u16>,
) -> Result<Reservation, Refusal> {
    reserve_in(&registry()?, directory, count, asked)
}

fn reserve_in(
    registry: &Path,
    directory: &Path,
    count: u16,
    asked: &BTreeSet<u16>,
) -> Result<Reservation, Refusal> {
    let failed = |source| Refusal::Failed(Error::io("reserve ports in", registry, source));
    let _lock = lock(registry).map_err(failed)?;
    let file = registry.join(format!("{PREFIX}{:016x}", fastrand::u64(..)));
    let mut taken = asked.clone();
    for other in others(registry, &file).map_err(failed)? {
        refuse_taken(asked, &other)?;
        taken.extend(other.ports);
    }
    let first = choose(count, &taken, fastrand::u16(..), is_free).ok_or_else(|| {
        failed(io::Error::other(format!(
            "no {count} adjacent ports from {FIRST} to {LAST} are free"
        )))
    })?;
    let ports = asked.iter().copied().chain(first..first + count).collect();
    write(&file, directory, ports).map_err(failed)?;
    Ok(Reservation { first, file })
}

/// Reserves the `ports` of an ensemble again if its `file` is gone, as temporary files are after a reboot.
pub(crate) fn renew(file: &Path, directory: &Path, ports: BTreeSet<u16>) -> Result<(), Refusal> {
    let registry = file.parent().unwrap_or(file);
    let failed = |source| Refusal::Failed(Error::io("reserve ports in", registry, source));
    make(registry).map_err(failed)?;
    let _lock = lock(registry).map_err(failed)?;
    for other in others(registry, file).map_err(failed)? {
        refuse_taken(&ports, &other)?;
    }
    write(file, directory, ports).map_err(failed)
}

fn refuse_taken(ports: &BTreeSet<u16>, other: &Reserved) -> Result<(), Refusal> {
    ports
        .intersection(&other.ports)
        .next()
        .map_or(Ok(()), |port| {
            Err(Refusal::Taken {
                port: *port,
                by: other.directory.clone(),
            })
        })
}

/// Takes the lock under which reservations are read and written. It is on the folder itself.
fn lock(registry: &Path) -> io::Result<File> {
    let lock = File::open(registry)?;
    until_blocking(LOCK_WITHIN, Duration::from_millis(5), || {
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)
    })?;
    Ok(lock)
}

/// All reservations but that in `own`. Those that are void are removed.
fn others(registry: &Path, own: &Path) -> io::Result<Vec<Reserved>> {
    let mut reservations = Vec::new();
    for entry in fs::read_dir(registry)? {
        let entry = entry?;
        let file = entry.path();
        let is_reservation = entry
            .file_name()
            .to_str()
            .is_some_and(|name| name.starts_with(PREFIX));
        if !is_reservation || file == own {
            continue;
        }
        // Half a file is that of a process that was killed under the lock.
        let reserved = fs::read(&file)
            .ok()
            .and_then(|text| serde_json::from_slice::<Reserved>(&text).ok());
        match reserved {
            // A directory that cannot be looked at is no directory that is gone.
            Some(reserved) if !matches!(reserved.directory.try_exists(), Ok(false)) => {
                reservations.push(reserved);
            }
            // Void. Its guard process may have removed the file already.
            _ => fs::remove_file(&file).or_else(ignore_missing)?,
        }
    }
    Ok(reservations)
}

fn write(file: &Path, directory: &Path, ports: BTreeSet<u16>) -> io::Result<()> {
    let directory = directory.to_owned();
    let text = serde_json::to_vec(&Reserved { directory, ports })?;
    fs::write(file, text).inspect_err(|_| drop(fs::remove_file(file)))
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

/// The user's folder, which it makes.
///
/// It is in the same place for all processes of the user, whatever their `TMPDIR` is, unless nothing can be written
/// there.
fn registry() -> Result<PathBuf, Refusal> {
    let name = format!("zk-harness-{}", rustix::process::getuid().as_raw());
    let shared = Path::new("/tmp").join(&name).join("ports");
    if make(&shared).is_ok() {
        return Ok(shared);
    }
    let own = temp_dir().join(name).join("ports");
    make(&own).map_err(|source| Refusal::Failed(Error::io("reserve ports in", &own, source)))?;
    Ok(own)
}

fn make(registry: &Path) -> io::Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(registry)?;
    if fs::metadata(registry)?.uid() == rustix::process::getuid().as_raw() {
        Ok(())
    } else {
        Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "the directory belongs to another user",
        ))
    }
}

/// The directory for temporary files, as an absolute path.
pub(crate) fn temp_dir() -> PathBuf {
    absolute_temp_dir(&std::env::temp_dir())
}

/// A relative one means something else to the guard process, which works elsewhere.
fn absolute_temp_dir(directory: &Path) -> PathBuf {
    // Only an empty path has no absolute one: a variable that is set to nothing.
    std::path::absolute(directory).unwrap_or_else(|_| PathBuf::from("/tmp"))
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

const PREFIX: &str = "reserved-";

const LOCK_WITHIN: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests;
