//! Writes a process's status lines, each prefixed with the name of the process.

use std::fmt;
use std::io::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

/// Writes status lines with the name of a process; clones share the name.
#[derive(Clone)]
pub struct Reporter {
    name: Arc<str>,
    write: Arc<dyn Fn(&str) + Send + Sync>,
    last: Arc<Mutex<String>>,
}

impl Reporter {
    /// Writes to standard output.
    ///
    /// Each write blocks its caller until the output accepts the line: a terminal stopped with Ctrl-S, or a pipe
    /// without a reader, stops the process, and finally costs it its session. A production program writes its lines on
    /// a separate thread, fed by a bounded channel.
    pub fn to_stdout(name: &str) -> Self {
        Self::new(name, |line| {
            // A closed output is no reason to stop.
            drop(writeln!(std::io::stdout(), "{line}"));
        })
    }

    /// Writes with `write`.
    pub fn new(name: &str, write: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self {
            name: name.into(),
            write: Arc::new(write),
            last: Arc::default(),
        }
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the last line.
    pub fn last(&self) -> String {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.clone()
    }

    /// Writes a line.
    pub fn report(&self, line: fmt::Arguments<'_>) {
        let line = format!("{}: {line}", self.name);
        (self.write)(&line);
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = line;
    }
}

impl fmt::Debug for Reporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Reporter").field(&self.name).finish()
    }
}
