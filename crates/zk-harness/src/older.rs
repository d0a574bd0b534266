//! Runs every second process of a test from an older build, as during a rolling upgrade of a service.

use std::env;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Returns the program for the next process of a test.
///
/// It is `present`; if the environment variable `OLDER_PROGRAMS` is set, it is for every second process the program of
/// the same name in that directory.
///
/// # Panics
///
/// If the directory has no such program.
pub fn program_of_next_process(present: &Path) -> PathBuf {
    static PROCESSES: AtomicUsize = AtomicUsize::new(0);
    let process = PROCESSES.fetch_add(1, Ordering::Relaxed);
    match (env::var_os("OLDER_PROGRAMS"), present.file_name()) {
        (Some(older), Some(name)) if process.is_multiple_of(2) => {
            let older = Path::new(&older).join(name);
            assert!(
                older.is_file(),
                "OLDER_PROGRAMS: there is no {}",
                older.display()
            );
            older
        }
        _ => present.to_owned(),
    }
}
