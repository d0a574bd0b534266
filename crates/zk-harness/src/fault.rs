//! Faults on demand: what breaks in a data centre, as calls.
//!
//! | fault | call | undone by | needs |
//! |---|---|---|---|
//! | a server's process dies | [`Server::kill`], [`Server::stop`] | [`Server::start`] | nothing |
//! | a long garbage collection | [`Server::pause`] | [`Server::resume`] | nothing |
//! | a rolling upgrade | [`Ensemble::restart_rolling`] | by itself | nothing |
//! | a full disk | [`Server::fill_disk`] | [`Server::free_disk`] | Linux |
//! | a clock that jumps | [`Server::shift_clock`] | [`Server::shift_clock`] by zero | [`Spec::movable_clock`], which needs libfaketime |
//! | an expired session | [`Ensemble::expire`] | nothing can | nothing |
//!
//! None of them needs root.
//! What a fault needs and is not there is an error that says what would help, never a fault that silently did not
//! happen. A test that can do without uses [`require`].
//!
//! [`Spec::movable_clock`]: crate::Spec::movable_clock

mod clock;
mod disk;
mod expire;
mod java;
mod rolling;

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::Path;

#[cfg(doc)]
use crate::{Ensemble, Server};

pub use clock::{ClockShift, probe_clock};
pub(crate) use clock::{FILE as CLOCK_FILE, Library as ClockLibrary, UNMOVED};

/// A fault cannot be made on this machine.
#[derive(Debug, thiserror::Error)]
#[error("{fault} cannot be made here: {reason}")]
#[non_exhaustive]
pub struct Unavailable {
    /// The fault, such as "a clock that jumps".
    pub fault: &'static str,
    /// What is missing, and what would help.
    pub reason: String,
}

/// Answers whether a fault can be made here, for a test that goes on without it.
///
/// A fault that cannot is told as not run: on standard error, which test runners hide from those who only look whether
/// all is well, and as a line that is added to the file `ZK_HARNESS_NOT_RUN`, if that is set.
/// With `ZK_HARNESS_REQUIRE_FAULTS` set to anything but `0` or nothing it is an error instead: set it where faults that
/// are skipped would go unnoticed, such as in CI.
///
/// # Errors
///
/// `probed`, where the variable says that faults are required.
pub fn require<T>(probed: Result<T, Unavailable>) -> Result<Option<T>, Unavailable> {
    decide(probed, is_set(REQUIRE))
}

/// Whether a switch in the environment is on.
pub(crate) fn is_set(variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|value| !value.is_empty() && value != "0")
}

pub(crate) fn decide<T>(
    probed: Result<T, Unavailable>,
    required: bool,
) -> Result<Option<T>, Unavailable> {
    match probed {
        Ok(there) => Ok(Some(there)),
        Err(missing) if required => Err(missing),
        Err(missing) => {
            // Nobody is left to tell if standard error is closed.
            drop(writeln!(io::stderr(), "not run: {missing}"));
            if let Some(path) = std::env::var_os(NOT_RUN) {
                drop(note(Path::new(&path), &missing));
            }
            Ok(None)
        }
    }
}

/// Adds a line to the file where a test runner collects what was not run.
fn note(path: &Path, missing: &Unavailable) -> io::Result<()> {
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    // One write, so that the lines of several processes stay whole.
    file.write_all(format!("{missing}\n").as_bytes())
}

const NOT_RUN: &str = "ZK_HARNESS_NOT_RUN";
const REQUIRE: &str = "ZK_HARNESS_REQUIRE_FAULTS";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_run_is_collected() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lines");
        let missing = Unavailable {
            fault: "a full disk",
            reason: "no limit".into(),
        };
        note(&path, &missing).unwrap();
        note(&path, &missing).unwrap();
        let line = "a full disk cannot be made here: no limit\n";
        assert_eq!(std::fs::read_to_string(&path).unwrap(), line.repeat(2));
    }

    // covers: H7
    #[test]
    fn a_fault_that_cannot_be_made_is_an_error_only_where_it_is_required() {
        let missing = || {
            Err::<(), _>(Unavailable {
                fault: "a clock that jumps",
                reason: "no library".into(),
            })
        };
        assert!(matches!(decide(missing(), false), Ok(None)));
        let error = decide(missing(), true).unwrap_err();
        assert_eq!(
            error.to_string(),
            "a clock that jumps cannot be made here: no library"
        );
        assert!(matches!(decide(Ok(3), true), Ok(Some(3))));
    }
}
