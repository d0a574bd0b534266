//! Reads and writes files on other threads, so that a slow disk or an empty pipe delays neither the session nor a signal.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Runs work that may block on another thread. If the caller is dropped, the work goes on, and its result is lost.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let done = tokio::task::spawn_blocking(work).await;
    done.expect("the work does not panic, and the runtime ends after its callers")
}

/// Replaces the content of a file as a whole: readers see the old one or the new one. A pipe or a device is written to.
///
/// A new file is readable for this user alone: it may contain what others may not read on the servers.
pub(crate) fn replace(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let (target, mode) = match fs::metadata(file) {
        Ok(metadata) if !metadata.is_file() => return fs::write(file, bytes),
        // The file that a link leads to, and as readable as before.
        Ok(metadata) => (fs::canonicalize(file)?, Some(metadata.permissions())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => (file.to_owned(), None),
        Err(error) => return Err(error),
    };
    let mut builder = tempfile::Builder::new();
    builder
        .prefix(TEMPORARY)
        .permissions(fs::Permissions::from_mode(0o600));
    let mut temporary = builder.tempfile_in(parent(&target))?;
    temporary.write_all(bytes)?;
    if let Some(mode) = mode {
        temporary.as_file().set_permissions(mode)?;
    }
    temporary.as_file().sync_all()?;
    temporary.persist(&target)?;
    sync_directory(&parent(&target))
}

/// Returns the directory of a file.
pub(crate) fn parent(file: &Path) -> PathBuf {
    match file.parent() {
        Some(parent) if parent != Path::new("") => parent.to_owned(),
        Some(_) => PathBuf::from("."),
        None => PathBuf::from("/"),
    }
}

/// Has the names in a directory written to its disk.
pub(crate) fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

/// What the names of unfinished files begin with, which a killed program leaves.
pub(crate) const TEMPORARY: &str = ".zk-unfinished-";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_as_a_whole_and_stays_as_readable_as_it_was() {
        let directory = tempfile::tempdir().unwrap();
        let (file, link) = (directory.path().join("file"), directory.path().join("link"));
        replace(&file, b"first").unwrap();
        let opened = fs::read_to_string(&file).unwrap();
        assert_eq!(opened, "first");
        let mode = fs::metadata(&file).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600);
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink("file", &link).unwrap();
        let before = File::open(&file).unwrap();
        replace(&link, b"second").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "second");
        // A reader that has opened the old one reads all of it.
        assert_eq!(io::read_to_string(before).unwrap(), "first");
        let mode = fs::metadata(&file).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o640);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
        assert!(replace(&directory.path().join("none/file"), b"").is_err());
    }

    #[test]
    fn a_file_without_a_directory_is_in_the_current_one() {
        for (file, expected) in [
            ("a", "."),
            ("a/", "."),
            ("./a", "."),
            ("x/a", "x"),
            ("/a", "/"),
        ] {
            assert_eq!(parent(Path::new(file)), Path::new(expected), "{file}");
        }
    }
}
