//! A disk that takes no more data, and what it leaves.

use std::fs;
use std::io;
use std::path::Path;
use std::path::PathBuf;

use crate::error::Error;
use crate::process::ProcessState;
use crate::server::Server;

/// The first byte may be written, so that the limit is a limit and not "nothing allowed", which the JVM never meets.
const FULL: u64 = 1;

impl Server {
    /// Has every write to a file fail from now on, as on a full disk: transaction log, snapshots, epochs and the
    /// server's own log.
    ///
    /// The server's process is given a file size limit, for which no root is needed; its writes end with `EFBIG` ("File
    /// too large") where a full disk says `ENOSPC`, which ZooKeeper treats alike.
    /// A leader steps down at its next write and another server leads; a follower drops out and comes back, again and
    /// again. A server that cannot even write its epoch may end, as those of 3.9 sometimes do.
    ///
    /// A server that runs on when there is room again has lost more than it says. Its log has a torn record, it goes on
    /// writing behind it, and acknowledges what it writes; but at its next start it reads no further than the torn
    /// record (seen on 3.9.3: three servers, a full disk at one and, twenty seconds later, a kill of each in turn lost
    /// committed writes at one server for good). To be safe, [kill](Self::kill) and [start](Self::start) it while its
    /// disk is full; [`discard_torn_logs`](Self::discard_torn_logs) before the start, or it may refuse to.
    ///
    /// It ends with [`free_disk`](Self::free_disk) or with the process.
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
    /// As for [`fill_disk`](Self::fill_disk): a server that has ended for want of room is to be
    /// [started](Self::start). A disk that is not full is none.
    pub fn free_disk(&self) -> Result<(), Error> {
        limit(self, "free the disk of", None)
    }

    /// Removes transaction logs that are too short to have their header, and returns which; to be called before a
    /// server [starts](Self::start) that had no room or was killed.
    ///
    /// A server opens a new log at its first write after a start. If it cannot write the header, or is killed before it
    /// has, it refuses every later start with an `EOFException` until somebody removes the file (seen on 3.9.3). Nothing
    /// that was acknowledged is in there.
    ///
    /// # Errors
    ///
    /// [`Error::WrongState`] if the server is not stopped, [`Error::Unavailable`] for one in a container, [`Error::Io`] if
    /// the system refuses.
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

    /// Writes down the epoch of a server's last transaction where it was killed before it had, and answers whether that
    /// was so; to be called before a server [starts](Self::start) that was killed, or has ended at its start.
    ///
    /// A follower writes what a new leader sends it before it writes down the leader's epoch. Killed in between, it
    /// refuses every later start: *The current epoch, 1, is older than the last zxid, 8589934639* (seen on 3.9.6). What it
    /// has is the beginning of what that leader has, so the epoch is what it would have written next.
    /// Only the end of the server's own log says that this is so.
    ///
    /// # Errors
    ///
    /// [`Error::WrongState`] if the server is not stopped, [`Error::Unavailable`] for one in a container, [`Error::Io`] if
    /// the system refuses.
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

/// The epoch that a server misses at its start, as the end of its log says.
fn missing_epoch(log: &str) -> Option<u64> {
    let (_, zxid) = log.rsplit_once("is older than the last zxid, ")?;
    let end = zxid.find(|letter: char| !letter.is_ascii_digit());
    let zxid: u64 = zxid[..end.unwrap_or(zxid.len())].parse().ok()?;
    Some(zxid >> 32)
}

/// Lines that a server writes at most from the refusal to its end.
const END_OF_LOG: usize = 20;

/// The transaction logs in there without a whole header.
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

/// Bytes of a log's header: a magic number, a version, and the number of a database.
const HEADER: u64 = 16;

#[cfg(target_os = "linux")]
fn limit(server: &Server, action: &'static str, bytes: Option<u64>) -> Result<(), Error> {
    use rustix::process::{Resource, Rlimit, getrlimit, prlimit};

    server.expect_process("a full disk")?;
    let Some((pid, _)) = server.find() else {
        return Err(server.wrong_state(action, "it does not run; start it first".into()));
    };
    // The server has inherited our hard limit. Only the soft one is moved, so that it can be taken back.
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
    Err(super::Unavailable {
        fault: "a full disk",
        reason: "the limit on another process's files is a call of Linux".into(),
    }
    .into())
}
