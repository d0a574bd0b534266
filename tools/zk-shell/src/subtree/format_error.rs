//! Why an exported subtree cannot be read.
//!
//! Pure: no I/O and no clock.

use std::io;

/// An exported subtree is damaged, incomplete, or no such file.
#[derive(Debug)]
pub(crate) struct FormatError {
    /// Such as `line 3` or `entry tree/a/=data`; empty for the file as a whole.
    location: String,
    problem: String,
}

impl FormatError {
    pub(crate) fn new(location: impl Into<String>, problem: impl Into<String>) -> Self {
        Self {
            location: location.into(),
            problem: problem.into(),
        }
    }

    pub(crate) fn whole(problem: impl Into<String>) -> Self {
        Self::new("", problem)
    }

    pub(crate) fn io(location: impl Into<String>, error: &io::Error) -> Self {
        Self::new(location, format!("cannot be read: {error}"))
    }

    /// The end is missing: the export was interrupted, or the file was cut.
    pub(crate) fn cut() -> Self {
        Self::whole("its end is missing: the export was interrupted, or the file was cut")
    }
}

impl std::fmt::Display for FormatError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.location.is_empty() {
            f.write_str(&self.problem)
        } else {
            // A name in a hostile file must not reach the terminal as it is, nor fill it.
            let location: String = self.location.chars().take(MAX_LOCATION).collect();
            let cut = if location.len() < self.location.len() {
                "…"
            } else {
                ""
            };
            write!(f, "{}{cut}: {}", location.escape_debug(), self.problem)
        }
    }
}

/// How many characters of a location are shown.
const MAX_LOCATION: usize = 300;
