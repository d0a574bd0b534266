//! What a process tells the person who runs it: one line each, beginning with who says it.

use std::fmt;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;

/// Tells lines in the name of a process; clones tell in the same name.
#[derive(Clone)]
pub struct Reporter {
    name: Arc<str>,
    tell: Arc<dyn Fn(&str) + Send + Sync>,
    last: Arc<Mutex<String>>,
}

impl Reporter {
    /// Tells on standard output.
    ///
    /// A line is written by whichever part of the process has something to tell, and waits until the output takes it: a
    /// terminal that is stopped with Ctrl-S, or a pipe that nobody reads, stops the process, and in the end costs it its
    /// session. What is more than an example writes its lines on a thread of its own, from a channel that is bounded.
    pub fn to_stdout(name: &str) -> Self {
        Self::new(name, |line| {
            // Who runs this may have closed the output, which is no reason to stop.
            drop(writeln!(std::io::stdout(), "{line}"));
        })
    }

    /// Tells by `tell`.
    pub fn new(name: &str, tell: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self {
            name: name.into(),
            tell: Arc::new(tell),
            last: Arc::default(),
        }
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the line that was told last.
    pub fn last(&self) -> String {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.clone()
    }

    /// Tells a line.
    pub fn report(&self, line: fmt::Arguments<'_>) {
        let line = format!("{}: {line}", self.name);
        (self.tell)(&line);
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = line;
    }
}

impl fmt::Debug for Reporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Reporter").field(&self.name).finish()
    }
}
