//! Simulates a full disk, and repairs the files that a server leaves after one or after a kill.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::process::ProcessState;
use crate::server::Server;

/// The limit in bytes. It is not zero, because no write would succeed then, which never happens on a real disk.
const FULL: u64 = 1;

impl Server {
    /// Makes every write to a file fail, as on a full disk: transaction log, snapshots, epochs and the server's own log.
    ///
    /// It sets a file size limit for the server's process, which does not require root. Writes fail with `EFBIG` ("File
    /// too large") instead of `ENOSPC`; ZooKeeper treats both alike.
    /// A leader steps down at its next write and another server leads; a follower leaves and rejoins the quorum
    /// repeatedly. A server that cannot write its epoch may exit, as servers of 3.9 sometimes do.
    ///
    /// A server that keeps running when there is space again loses acknowledged writes. Its log has a torn record, and
    /// the server appends and acknowledges further writes after it; but its next start reads only up to the torn record.
    /// On 3.9.3, with three servers, a full disk at one and a kill of each in turn twenty seconds later, one server lost
    /// committed writes permanently. To avoid that, [kill](Self::kill) the server while its disk is full, call
    /// [`discard_torn_logs`](Self::discard_torn_logs), because it may otherwise refuse to start, and
    /// [start](Self::start) it.
    ///
    /// The fault ends with [`free_disk`](Self::free_disk) or with the process.
    ///
    /// # Errors
    ///
    /// [`Error::WrongState`] if the server does not run, [`Error::Unavailable`] on systems other than Linux,
    /// [`Error::Io`] if the system refuses.
    pub fn fill_disk(&self) -> Result<(), Error> {
        limit(self, "fill the disk of", Some(FULL))
    }

    /// Lets writes to files succeed again after [`fill_disk`](Self::fill_disk).
    ///
    /// # Errors
    ///
    /// As for [`fill_disk`](Self::fill_disk); [start](Self::start) a server that has exited because of the full disk.
    /// A disk that is not full is not an error.
    pub fn free_disk(&self) -> Result<(), Error> {
        limit(self, "free the disk of", None)
    }

    /// Removes transaction logs with an incomplete header, and returns their paths. Call it before the
    /// [start](Self::start) of a server whose disk was full or that was killed.
    ///
    /// A server creates a new log at its first write after a start. If it cannot write the header, or is killed before
    /// that, every later start fails with an `EOFException` until the file is removed (seen on 3.9.3). Such a log
    /// contains no acknowledged write.
    ///
    /// # Errors
    ///
    /// [`Error::WrongState`] if the server is not stopped, [`Error::Unavailable`] for a server in a container,
    /// [`Error::Io`] if the system refuses.
    pub fn discard_torn_logs(&self) -> Result<Vec<PathBuf>, Error> {
        self.expect_process("a torn log")?;
        if self.process_state() != ProcessState::Stopped {
            return Err(self.wrong_state("discard torn logs of", "it runs; stop it first".into()));
        }
        let directory = self.log_directory();
        torn(&directory)
            .and_then(|torn| {
                torn.iter().try_for_each(fs::remove_file)?;
                Ok(torn)
            })
            .map_err(|error| Error::io("discard torn logs in", &directory, error))
    }

    /// Writes the epoch of a server's last transaction if it is missing, and returns whether it was. Call it before the
    /// [start](Self::start) of a server that was killed or exited while starting.
    ///
    /// A follower writes the transactions of a new leader before it writes the leader's epoch. If it is killed in
    /// between, every later start fails: *The current epoch, 1, is older than the last zxid, 8589934639* (seen on
    /// 3.9.6). Its transactions are a prefix of the leader's, so the epoch is what it would have written next.
    /// Only the end of the server's own log shows this state.
    ///
    /// # Errors
    ///
    /// [`Error::WrongState`] if the server is not stopped, [`Error::Unavailable`] for a server in a container,
    /// [`Error::Io`] if the system refuses.
    pub fn write_missing_epoch(&self) -> Result<bool, Error> {
        self.expect_process("a missing epoch")?;
        if self.process_state() != ProcessState::Stopped {
            return Err(self.wrong_state("write the epoch of", "it runs; stop it first".into()));
        }
        let Some(epoch) = missing_epoch(&self.log_tail(END_OF_LOG)) else {
            return Ok(false);
        };
        let file = self.epoch_file();
        fs::write(&file, epoch.to_string())
            .map_err(|error| Error::io("write the epoch to", &file, error))?;
        Ok(true)
    }
}

/// Returns the epoch that a server misses, from the end of its log.
fn missing_epoch(log: &str) -> Option<u64> {
    let (_, zxid) = log.rsplit_once("is older than the last zxid, ")?;
    let end = zxid.find(|letter: char| !letter.is_ascii_digit());
    let zxid: u64 = zxid[..end.unwrap_or(zxid.len())].parse().ok()?;
    Some(zxid >> 32)
}

/// The maximum number of lines that a server logs between this error and its exit.
const END_OF_LOG: usize = 20;

/// Returns the transaction logs in a directory with an incomplete header.
fn torn(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let files = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        files => files?,
    };
    let mut torn = Vec::new();
    for file in files {
        let file = file?;
        let is_log = file.file_name().as_encoded_bytes().starts_with(b"log.");
        if is_log && file.metadata()?.len() < HEADER {
            torn.push(file.path());
        }
    }
    Ok(torn)
}

/// The length of a log's header: a magic number, a version, and a database id.
const HEADER: u64 = 16;

#[cfg(target_os = "linux")]
fn limit(server: &Server, action: &'static str, bytes: Option<u64>) -> Result<(), Error> {
    use rustix::process::{Resource, Rlimit, getrlimit, prlimit};

    server.expect_process("a full disk")?;
    let Some((pid, _)) = server.find() else {
        return Err(server.wrong_state(action, "it does not run; start it first".into()));
    };
    // The server has inherited our hard limit. Only the soft limit changes, so that it can be raised again.
    let maximum = getrlimit(Resource::Fsize).maximum;
    let new = Rlimit {
        current: bytes.or(maximum),
        maximum,
    };
    prlimit(Some(pid), Resource::Fsize, new)
        .map(|_before| ())
        .map_err(|errno| Error::io(action, &server.directory(), errno.into()))
}

#[cfg(not(target_os = "linux"))]
fn limit(_server: &Server, _action: &'static str, _bytes: Option<u64>) -> Result<(), Error> {
    Err(crate::unavailable::Unavailable {
        fault: "a full disk",
        reason: "it requires Linux, which can limit the file size of another process".into(),
    }
    .into())
}
