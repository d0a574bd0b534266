//! Reserves the ports of an ensemble against the user's other ensembles.
//!
//! A port from binding port 0 is free again when the socket is closed: two ensembles that start together could get the
//! same port, and a third one the port of a server that is down for a moment.
//! So an ensemble's ports, chosen or configured, are reserved as long as its directory exists, by a file with the ports
//! and the directory in a registry of the user. A reservation is void when its directory is removed.
//! Every reservation has a unique file name, so that a late removal cannot affect another one.

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
use crate::spec::Warning;
use crate::unique_name::unique_name;
use crate::wait::until_blocking;

/// Ports that are reserved by a file.
#[derive(Debug)]
pub(crate) struct Reservation {
    /// The chosen ports.
    pub(crate) chosen: Vec<u16>,
    /// The reservation's file, which is removed with the ensemble or when a later reservation finds it void.
    pub(crate) file: PathBuf,
    /// Why the ports are not reserved where all processes of the user look.
    pub(crate) warning: Option<Warning>,
}

/// The reason why ports could not be reserved.
#[derive(Debug)]
pub(crate) enum ReserveError {
    /// A requested port is reserved by the ensemble in `by`.
    Taken { port: u16, by: PathBuf },
    /// The registry cannot be used, or too few ports are free.
    Failed(Error),
}

/// The contents of a reservation's file.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Reserved {
    directory: PathBuf,
    ports: BTreeSet<u16>,
}

/// Reserves the `requested` ports and `count` free ones for the ensemble in `directory`.
pub(crate) fn reserve(
    directory: &Path,
    count: usize,
    requested: &BTreeSet<u16>,
) -> Result<Reservation, ReserveError> {
    let (registry, warning) = registry()?;
    let reserved = reserve_in(&registry, directory, count, requested)?;
    Ok(Reservation {
        warning,
        ..reserved
    })
}

fn reserve_in(
    registry: &Path,
    directory: &Path,
    count: usize,
    requested: &BTreeSet<u16>,
) -> Result<Reservation, ReserveError> {
    let failed = |source| ReserveError::Failed(Error::io("reserve ports in", registry, source));
    let _lock = lock(registry).map_err(failed)?;
    let file = registry.join(unique_name(PREFIX));
    let mut taken = requested.clone();
    for other in others(registry, &file).map_err(failed)? {
        check_not_reserved(requested, &other)?;
        taken.extend(other.ports);
    }
    let start = fastrand::u16(FIRST..=LAST);
    let all = (start..=LAST).chain(FIRST..start);
    let free = all.filter(|port| !taken.contains(port) && is_free(*port));
    let chosen: Vec<u16> = free.take(count).collect();
    if chosen.len() < count {
        let found = chosen.len();
        return Err(failed(io::Error::other(format!(
            "{found} ports from {FIRST} to {LAST} are free instead of {count}"
        ))));
    }
    let ports = requested.iter().chain(&chosen).copied().collect();
    write(&file, directory, ports).map_err(failed)?;
    Ok(Reservation {
        chosen,
        file,
        warning: None,
    })
}

/// Reserves the `ports` of an ensemble again, in case its `file` was removed, for example by a reboot.
pub(crate) fn renew(
    file: &Path,
    directory: &Path,
    ports: BTreeSet<u16>,
) -> Result<(), ReserveError> {
    let registry = file.parent().unwrap_or(file);
    let failed = |source| ReserveError::Failed(Error::io("reserve ports in", registry, source));
    create_registry(registry).map_err(failed)?;
    let _lock = lock(registry).map_err(failed)?;
    for other in others(registry, file).map_err(failed)? {
        check_not_reserved(&ports, &other)?;
    }
    write(file, directory, ports).map_err(failed)
}

fn check_not_reserved(ports: &BTreeSet<u16>, other: &Reserved) -> Result<(), ReserveError> {
    ports
        .intersection(&other.ports)
        .next()
        .map_or(Ok(()), |port| {
            Err(ReserveError::Taken {
                port: *port,
                by: other.directory.clone(),
            })
        })
}

/// Locks the registry for reading and writing reservations. The lock is on the directory itself.
fn lock(registry: &Path) -> io::Result<File> {
    let lock = File::open(registry)?;
    until_blocking(LOCK_WITHIN, Duration::from_millis(5), || {
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)
    })?;
    Ok(lock)
}

/// Returns all reservations except the one in `own`, and removes void ones.
fn others(registry: &Path, own: &Path) -> io::Result<Vec<Reserved>> {
    let mut reservations = Vec::new();
    for entry in fs::read_dir(registry)? {
        let entry = entry?;
        let file = entry.path();
        let is_reservation = entry
            .file_name()
            .to_str()
            .is_some_and(|name| name.starts_with(PREFIX));
        if !is_reservation || file == own || !entry.file_type()?.is_file() {
            continue;
        }
        // A process that was killed under the lock may leave an incomplete file.
        let reserved = fs::read(&file)
            .ok()
            .and_then(|text| serde_json::from_slice::<Reserved>(&text).ok());
        match reserved {
            // A directory that cannot be accessed may still exist.
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

/// Returns whether a server can listen on the port.
pub(crate) fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

/// Creates and returns the user's registry.
///
/// All processes of the user use the same directory, regardless of `TMPDIR`, unless another user has taken its name or it
/// cannot be written.
fn registry() -> Result<(PathBuf, Option<Warning>), ReserveError> {
    registry_in(&[Path::new("/tmp"), &temp_dir()], &temp_dir())
}

/// Creates and returns the registry in the first of the `shared` directories in which that is possible, otherwise in a
/// directory of its own in `last`.
fn registry_in(shared: &[&Path], last: &Path) -> Result<(PathBuf, Option<Warning>), ReserveError> {
    let name = format!("zk-harness-{}", rustix::process::getuid().as_raw());
    let mut warning = None;
    for parent in shared {
        let registry = parent.join(&name).join("ports");
        match create_registry(&registry) {
            Ok(()) => return Ok((registry, warning)),
            Err(error) => {
                warning.get_or_insert_with(|| Warning::PortsReservedElsewhere {
                    reason: error.to_string(),
                });
            }
        }
    }
    let own = last.join(unique_name(&format!("{name}-"))).join("ports");
    create_registry(&own)
        .map_err(|source| ReserveError::Failed(Error::io("reserve ports in", &own, source)))?;
    Ok((own, warning))
}

/// Creates the registry and the directory above, both of which this user alone may access.
///
/// The directory above that one may belong to another user, or be writable by all.
fn create_registry(registry: &Path) -> io::Result<()> {
    let above = registry.parent().unwrap_or(registry);
    for directory in [above, registry] {
        match fs::DirBuilder::new().mode(0o700).create(directory) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => check_private(directory)?,
        }
    }
    Ok(())
}

/// Refuses what is no directory of this user alone: another user could have it removed or written elsewhere by us.
fn check_private(directory: &Path) -> io::Result<()> {
    // Not that of what a link leads to.
    let found = fs::symlink_metadata(directory)?;
    let (owner, us) = (found.uid(), rustix::process::getuid().as_raw());
    let directory = directory.display();
    let problem = if found.is_symlink() {
        format!("{directory} is a link of user {owner}")
    } else if !found.is_dir() {
        format!("{directory} of user {owner} is no directory")
    } else if owner != us {
        format!("{directory} belongs to user {owner}, and this is user {us}")
    } else if found.mode() & 0o077 != 0 {
        let mode = found.mode() & 0o777;
        format!(
            "{directory} has the mode {mode:o}, and other users may not access it; `chmod 700` it"
        )
    } else {
        return Ok(());
    };
    Err(io::Error::new(io::ErrorKind::PermissionDenied, problem))
}

/// Returns the absolute path of the directory for temporary files.
pub(crate) fn temp_dir() -> PathBuf {
    absolute_temp_dir(&std::env::temp_dir())
}

/// Makes the path absolute, because the guard process has another working directory.
fn absolute_temp_dir(directory: &Path) -> PathBuf {
    // It fails only for an empty path.
    std::path::absolute(directory).unwrap_or_else(|_| PathBuf::from("/tmp"))
}

fn ignore_missing(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::NotFound {
        Ok(())
    } else {
        Err(error)
    }
}

/// Below the ephemeral ports of Linux and macOS, which outgoing connections could take at any time.
const FIRST: u16 = 20_000;
const LAST: u16 = 32_000;

const PREFIX: &str = "reserved-";

const LOCK_WITHIN: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests;
