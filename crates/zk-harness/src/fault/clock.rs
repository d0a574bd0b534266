//! A wall clock that jumps.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use zk_provision::Search;

use super::Unavailable;
use crate::error::Error;
use crate::server::Server;

/// How far a server's wall clock is from the machine's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClockShift {
    /// The machine's time.
    None,
    /// Ahead of the machine's time by so many seconds.
    Ahead(u32),
    /// Behind the machine's time by so many seconds.
    Behind(u32),
}

/// The library that is loaded into a server to move its clock: libfaketime, in its variant for threads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Library(PathBuf);

impl Library {
    /// Finds the library where distributions install it, or fetches Debian's package of it.
    pub(crate) fn find(search: &Search) -> Result<Self, Unavailable> {
        if let Some(installed) = below(Path::new("/")) {
            return Ok(Self(installed));
        }
        let roots = search.packages(["libfaketime"]).map_err(|error| Unavailable {
            fault: FAULT,
            reason: format!(
                "there is no {NAME} below /usr/lib, /usr/lib64 and /usr/local/lib, and {error}; install libfaketime"
            ),
        })?;
        let found = roots.iter().find_map(|root| below(root));
        found.map(Self).ok_or_else(|| Unavailable {
            fault: FAULT,
            reason: format!("the package libfaketime has no {NAME}"),
        })
    }

    /// The lines of a start script that load the library, with the shift in `file`.
    ///
    /// The monotonic clock stays: servers count the timeouts of sessions on it, and a machine whose clock is set does
    /// not stop that one either.
    pub(crate) fn exports(&self, file: &str, quote: impl Fn(&str) -> String) -> String {
        format!(
            "export FAKETIME_TIMESTAMP_FILE={file}\n\
             export FAKETIME_DONT_FAKE_MONOTONIC=1 DONT_FAKE_MONOTONIC=1 FAKETIME_CACHE_DURATION=1\n\
             # Without these two, a look at the clock costs several times as much.\n\
             export FAKETIME_DISABLE_SHM=1 FAKETIME_FORCE_MONOTONIC_FIX=0\n\
             # Older releases share memory all the same, and leave it behind when they are killed; the guard removes it.\n\
             echo $$ >> clock.pids\n\
             export LD_PRELOAD={library}\n",
            file = quote(file),
            library = quote(&self.0.to_string_lossy()),
        )
    }
}

impl Server {
    /// Moves the server's wall clock; the machine's and the other servers' stay.
    ///
    /// The server sees it within a second. Its monotonic clock goes on as before: sessions do not expire by it, as
    /// servers count their timeouts on that one, but the times of nodes jump.
    /// The shift outlives a restart of the server.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] unless the ensemble was started with
    /// [`movable_clock`](crate::EnsembleBuilder::movable_clock), [`Error::Io`] if the file with the shift cannot be
    /// written.
    pub fn shift_clock(&self, shift: ClockShift) -> Result<(), Error> {
        self.expect_process(FAULT)?;
        let file = self.directory().join(FILE);
        if !file.exists() {
            return Err(Unavailable {
                fault: FAULT,
                reason: "the ensemble was started without movable clocks; start it with them"
                    .into(),
            }
            .into());
        }
        // Complete or absent: the server never reads half of it.
        let draft = self.directory().join(format!("{FILE}.new"));
        fs::write(&draft, shift.text())
            .and_then(|()| fs::rename(&draft, &file))
            .map_err(|source| Error::io("write", &file, source))
    }
}

impl ClockShift {
    /// The shift as libfaketime reads it.
    pub(crate) fn text(self) -> String {
        match self {
            Self::None => "+0\n".to_owned(),
            Self::Ahead(seconds) => format!("+{seconds}\n"),
            Self::Behind(seconds) => format!("-{seconds}\n"),
        }
    }
}

/// The library below the root of a file system, wherever distributions put it.
fn below(root: &Path) -> Option<PathBuf> {
    let mut places = Vec::new();
    for lib in ["usr/lib", "usr/lib64", "usr/local/lib"] {
        let lib = root.join(lib);
        places.push(lib.join("faketime"));
        // Debian has a directory for each architecture.
        let inner = fs::read_dir(&lib).into_iter().flatten().flatten();
        places.extend(inner.map(|entry| entry.path().join("faketime")));
    }
    places
        .into_iter()
        .map(|place| place.join(NAME))
        .find(|library| library.exists())
}

/// The file in a server's directory that holds the shift.
pub(crate) const FILE: &str = "clock";
const NAME: &str = "libfaketimeMT.so.1";
const FAULT: &str = "a clock that jumps";
/// Where a clock stands at first.
pub(crate) const UNMOVED: ClockShift = ClockShift::None;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_found_where_distributions_put_it() {
        for place in [
            "usr/lib/faketime",
            "usr/lib64/faketime",
            "usr/lib/x86_64-linux-gnu/faketime",
        ] {
            let root = tempfile::tempdir().unwrap();
            assert_eq!(below(root.path()), None);
            let place = root.path().join(place);
            fs::create_dir_all(&place).unwrap();
            assert_eq!(below(root.path()), None);
            fs::write(place.join(NAME), "").unwrap();
            assert_eq!(below(root.path()), Some(place.join(NAME)));
        }
    }
}
