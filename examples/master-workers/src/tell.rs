//! What a process tells the person who runs it: one line each, beginning with who says it.

use std::fmt;
use std::io::Write as _;
use std::sync::Arc;

/// Tells lines in the name of a process; clones tell in the same name.
#[derive(Clone)]
pub struct Teller {
    name: Arc<str>,
    tell: Arc<dyn Fn(&str) + Send + Sync>,
}

impl Teller {
    /// Tells on standard output.
    pub fn of_process(name: &str) -> Self {
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
        }
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Tells a line.
    pub fn say(&self, line: fmt::Arguments<'_>) {
        (self.tell)(&format!("{}: {line}", self.name));
    }
}

impl fmt::Debug for Teller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Teller").field(&self.name).finish()
    }
}
