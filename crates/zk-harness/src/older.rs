//! Older builds of a test's programs beside the present ones, as while services are upgraded one process at a time.

use std::env;
use std::path::Path;
use std::path::PathBuf;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;

/// The program that the next process of a test runs.
///
/// It is `present`, unless the environment has `OLDER_PROGRAMS`: then every second process runs the program of the same
/// name in the directory which that variable names.
///
/// # Panics
///
/// If there is no such program in that directory.
pub fn program_of_next_process(present: &Path) -> PathBuf {
    static PROCESSES: AtomicUsize = AtomicUsize::new(0);
    let process = PROCESSES.fetch_add(1, Ordering::Relaxed);
    match (env::var_os("OLDER_PROGRAMS"), present.file_name()) {
        (Some(older), Some(name)) if process.is_multiple_of(2) => {
            let older = Path::new(&older).join(name);
            assert!(
                older.is_file(),
                "OLDER_PROGRAMS names a directory without {}",
                older.display()
            );
            older
        }
        _ => present.to_owned(),
    }
}
