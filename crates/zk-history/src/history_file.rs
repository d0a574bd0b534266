//! The file that one process writes its history to, line by line.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::clock::now;
use super::line::{FORMAT_VERSION, Line};
use super::outcome::Outcome;

/// The history of one process.
///
/// # Dropping
///
/// Records that the process ended normally.
#[derive(Debug)]
pub(super) struct HistoryFile {
    process: String,
    file: File,
    next_id: AtomicU64,
    /// The first write error.
    failure: Mutex<Option<io::Error>>,
}

impl HistoryFile {
    /// Opens the file, and records the begin of the process at its end.
    pub(super) fn open(file: &Path, process: &str) -> io::Result<Self> {
        let mut file = File::options().append(true).create(true).open(file)?;
        let line = Line::Begin {
            process: process.to_owned(),
            at: now(),
            version: FORMAT_VERSION,
            pid: std::process::id(),
        };
        file.write_all(line.to_text().as_bytes())?;
        Ok(Self::new(file, process))
    }

    /// Takes a file that is open for appending.
    pub(super) fn new(file: File, process: &str) -> Self {
        Self {
            process: process.to_owned(),
            file,
            next_id: AtomicU64::new(1),
            failure: Mutex::new(None),
        }
    }

    /// Returns the name of the process.
    pub(super) fn process(&self) -> &str {
        &self.process
    }

    /// Returns an id that no other operation or fault of the process has.
    pub(super) fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns the first write error, once.
    pub(super) fn take_failure(&self) -> Option<io::Error> {
        let failure = self.failure.lock();
        failure.unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(super) fn returned(&self, id: u64, outcome: Outcome) {
        self.write(&Line::returned(&self.process, now(), id, outcome));
    }

    pub(super) fn believed_until(&self, id: u64, until: u64, reason: &str) {
        self.write(&Line::Until {
            process: self.process.clone(),
            at: now(),
            id,
            until,
            reason: reason.to_owned(),
        });
    }

    pub(super) fn write(&self, line: &Line) {
        // A single write to a file opened for appending: lines of threads and processes do not mix.
        if let Err(error) = (&self.file).write_all(line.to_text().as_bytes()) {
            let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
            failure.get_or_insert(error);
        }
    }
}

impl Drop for HistoryFile {
    fn drop(&mut self) {
        // A panic is not a normal end.
        if !std::thread::panicking() {
            self.write(&Line::End {
                process: self.process.clone(),
                at: now(),
            });
        }
    }
}
