//! What a server needs so that its wall clock can be moved: a library, and a file with the shift.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use zk_provision::Search;

use crate::unavailable::Unavailable;

/// The offset of a server's wall clock from the machine's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClockShift {
    /// The machine's time.
    None,
    /// Ahead by this number of seconds.
    Ahead(u32),
    /// Behind by this number of seconds.
    Behind(u32),
}

/// The library that is loaded into a server to move its clock: the multithreaded variant of libfaketime.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct ClockLibrary(PathBuf);

impl ClockLibrary {
    /// Finds the installed library, or downloads Debian's package.
    pub(crate) fn find(search: &Search) -> Result<Self, Unavailable> {
        if let Some(installed) = find_below(Path::new("/")) {
            return Ok(Self(installed));
        }
        let roots = search.packages(["libfaketime"]).map_err(|error| Unavailable {
            fault: CLOCK_FAULT,
            reason: format!(
                "there is no {NAME} below /usr/lib, /usr/lib64 and /usr/local/lib, and {error}; install libfaketime"
            ),
        })?;
        let found = roots.iter().find_map(|root| find_below(root));
        found.map(Self).ok_or_else(|| Unavailable {
            fault: CLOCK_FAULT,
            reason: format!("the package libfaketime has no {NAME}"),
        })
    }

    /// Returns the lines of a start script that load the library, with the shift in `file`.
    ///
    /// The monotonic clock, which servers use for session timeouts, is not shifted, as on a machine whose clock is set.
    pub(crate) fn exports(&self, file: &str, quote: impl Fn(&str) -> String) -> String {
        format!(
            "export FAKETIME_TIMESTAMP_FILE={file}\n\
             export FAKETIME_DONT_FAKE_MONOTONIC=1 DONT_FAKE_MONOTONIC=1 FAKETIME_CACHE_DURATION=1\n\
             # Without these two, reading the clock takes several times as long.\n\
             export FAKETIME_DISABLE_SHM=1 FAKETIME_FORCE_MONOTONIC_FIX=0\n\
             # Older releases use shared memory anyway and leave it behind when they are killed; the guard removes it.\n\
             echo $$ >> clock.pids\n\
             export LD_PRELOAD={library}\n",
            file = quote(file),
            library = quote(&self.0.to_string_lossy()),
        )
    }
}

impl ClockShift {
    /// Returns the shift in the format of libfaketime.
    pub(crate) fn text(self) -> String {
        match self {
            Self::None => "+0\n".to_owned(),
            Self::Ahead(seconds) => format!("+{seconds}\n"),
            Self::Behind(seconds) => format!("-{seconds}\n"),
        }
    }
}

/// Finds the library in the usual directories below the root of a file system.
fn find_below(root: &Path) -> Option<PathBuf> {
    let mut candidates = Vec::new();
    for lib in ["usr/lib", "usr/lib64", "usr/local/lib"] {
        let lib = root.join(lib);
        candidates.push(lib.join("faketime"));
        // Debian has a directory per architecture.
        let inner = fs::read_dir(&lib).into_iter().flatten().flatten();
        candidates.extend(inner.map(|entry| entry.path().join("faketime")));
    }
    candidates
        .into_iter()
        .map(|directory| directory.join(NAME))
        .find(|library| library.exists())
}

/// The file with the shift in a server's directory.
pub(crate) const CLOCK_FILE: &str = "clock";
/// The fault, in errors.
pub(crate) const CLOCK_FAULT: &str = "a clock that jumps";
const NAME: &str = "libfaketimeMT.so.1";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_found_in_the_usual_directories() {
        for directory in [
            "usr/lib/faketime",
            "usr/lib64/faketime",
            "usr/lib/x86_64-linux-gnu/faketime",
        ] {
            let root = tempfile::tempdir().unwrap();
            assert_eq!(find_below(root.path()), None);
            let directory = root.path().join(directory);
            fs::create_dir_all(&directory).unwrap();
            assert_eq!(find_below(root.path()), None);
            fs::write(directory.join(NAME), "").unwrap();
            assert_eq!(find_below(root.path()), Some(directory.join(NAME)));
        }
    }
}
