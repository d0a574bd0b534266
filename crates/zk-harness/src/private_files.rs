//! Creates files and directories that only this user may access: some contain passwords and private keys.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

use crate::error::Error;

/// Writes a file.
pub(crate) fn write(file: &Path, text: &str) -> Result<(), Error> {
    write_with_mode(file, text, 0o600)
}

/// Writes a program that this user may run.
pub(crate) fn write_program(file: &Path, text: &str) -> Result<(), Error> {
    write_with_mode(file, text, 0o700)
}

/// Creates a directory and its missing parents.
pub(crate) fn create_directory(directory: &Path) -> Result<(), Error> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
        .map_err(|source| Error::io("create the directory", directory, source))
}

/// Renames the file when it is complete, so that a reader never sees a part of it, nor the mode of an older file.
fn write_with_mode(file: &Path, text: &str, mode: u32) -> Result<(), Error> {
    let mut draft = file.as_os_str().to_owned();
    draft.push(".new");
    // One that was left behind has the mode that it was created with.
    drop(fs::remove_file(&draft));
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(mode)
        .open(&draft)
        .and_then(|mut opened| opened.write_all(text.as_bytes()))
        .and_then(|()| fs::rename(&draft, file))
        .map_err(|source| Error::io("write", file, source))
}
