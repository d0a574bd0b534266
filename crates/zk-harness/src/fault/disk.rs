//! A disk that takes no more data.

use crate::error::Error;
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
    /// disk is full.
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
}

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
