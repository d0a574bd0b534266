//! Takes one of our locks in a loop, and checks with file locks in a directory that it is the only holder.
//!
//! ```text
//! melee NAME CONNECT PATH SESSION_TIMEOUT_MS DIRECTORY ROLE LAYOUT
//! ```
//!
//! ROLE is mutex, read, write, or semaphore-N of N leases; LAYOUT is curator or kazoo. The files are those of
//! `Melee.java`. At the end of the standard input the process ends immediately, without closing the session.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::time::Duration;

use anyhow::bail;
use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::io::Errno;
use zk_core::{ErrorClass, Session};
use zk_lock::{AcquireError, FairLock, Layout, LockOptions, RwLock, Semaphore};

/// The lock to take.
enum Lock {
    Mutex(FairLock),
    Read(RwLock),
    Write(RwLock),
    Leases(Semaphore),
}

/// The files that the holders lock.
struct Oracle {
    name: String,
    log: File,
    files: Vec<File>,
    is_shared: bool,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, connect, path, timeout, directory, role, layout] = arguments.as_slice() else {
        bail!("usage: melee NAME CONNECT PATH SESSION_TIMEOUT_MS DIRECTORY ROLE LAYOUT");
    };
    std::thread::spawn(|| {
        // The input has no commands; an error counts as its end.
        drop(std::io::stdin().read_to_end(&mut Vec::new()));
        std::process::exit(2);
    });
    let layout = match layout.as_str() {
        "curator" => Layout::curator(),
        "kazoo" => Layout::kazoo(),
        other => bail!("unknown layout {other:?}: use curator or kazoo"),
    };
    let options = LockOptions::default().with_layout(layout);
    let oracle = Oracle::open(name, Path::new(directory), role)?;
    loop {
        let session = Session::builder(connect.as_str())
            .session_timeout(Duration::from_millis(timeout.parse()?))
            .connect()
            .await?;
        let path = path.as_str();
        let lock = match role.as_str() {
            "mutex" => Lock::Mutex(FairLock::with_options(&session, path, options.clone())?),
            "read" => Lock::Read(RwLock::with_options(&session, path, options.clone())?),
            "write" => Lock::Write(RwLock::with_options(&session, path, options.clone())?),
            other => match other.strip_prefix("semaphore-") {
                Some(leases) => Lock::Leases(Semaphore::new(&session, path, leases.parse()?)?),
                None => bail!("unknown role {other:?}"),
            },
        };
        while let Err(error) = turns(&lock, &oracle).await {
            let acquire = error.downcast_ref().map(AcquireError::class);
            if acquire == Some(ErrorClass::Fatal) {
                break;
            }
        }
    }
}

/// Takes turns until one fails.
async fn turns(lock: &Lock, oracle: &Oracle) -> anyhow::Result<()> {
    loop {
        match lock {
            Lock::Mutex(lock) => {
                let guard = lock.acquire().await?;
                oracle.ask().await?;
                guard.release().await?;
            }
            Lock::Read(lock) => {
                let guard = lock.reader().acquire().await?;
                oracle.ask().await?;
                guard.release().await?;
            }
            Lock::Leases(semaphore) => {
                let lease = semaphore.acquire().await?;
                oracle.ask().await?;
                lease.release().await?;
            }
            Lock::Write(lock) => {
                let guard = lock.writer().acquire().await?;
                oracle.ask().await?;
                guard.release().await?;
            }
        }
    }
}

impl Oracle {
    fn open(name: &str, directory: &Path, role: &str) -> anyhow::Result<Self> {
        let open = |file: &str| {
            let mut options = File::options();
            options.read(true).append(true).create(true);
            options.open(directory.join(file))
        };
        let files = match role.strip_prefix("semaphore-") {
            Some(leases) => (0..leases.parse()?)
                .map(|at: u32| open(&format!("slot-{at}")))
                .collect::<Result<_, _>>()?,
            None => vec![open("lock")?],
        };
        Ok(Self {
            name: name.to_owned(),
            log: open("log")?,
            files,
            is_shared: role == "read",
        })
    }

    /// Locks one of the files briefly, and records whether that was possible.
    async fn ask(&self) -> anyhow::Result<()> {
        let operation = if self.is_shared {
            FlockOperation::NonBlockingLockShared
        } else {
            FlockOperation::NonBlockingLockExclusive
        };
        for file in &self.files {
            match fcntl_lock(file, operation) {
                Ok(()) => {
                    self.say("granted")?;
                    drop(tokio::time::timeout(HOLD, std::future::pending::<()>()).await);
                    fcntl_lock(file, FlockOperation::Unlock)?;
                    return Ok(());
                }
                Err(Errno::AGAIN | Errno::ACCESS) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.say("overlap")
    }

    /// One write, so that lines of several processes do not mix.
    fn say(&self, what: &str) -> anyhow::Result<()> {
        let line = format!("{what} {}\n", self.name);
        (&self.log).write_all(line.as_bytes())?;
        Ok(())
    }
}

const HOLD: Duration = Duration::from_millis(1);
