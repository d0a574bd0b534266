//! The file: it keeps the highest token in its first line.
//!
//! Two processes may access it at the same time, since one of them may not know yet that it has lost the lock.
//! The comparison and the write are therefore one step, under an advisory lock of the operating system, and a rename
//! replaces the content atomically.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use zk_lock::FencingToken;

/// A holder with a newer token has read or written the file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) token: u64,
    pub(crate) highest: u64,
}

/// Replaces the content, unless a holder with a newer token has read or written it.
///
/// `change` receives the content and returns the new one; it is not called for a late writer.
pub(crate) fn update(
    path: &Path,
    token: FencingToken,
    change: impl FnOnce(&str) -> String,
) -> io::Result<Result<(), Refused>> {
    let token = token.as_u64();
    // The lock is not on the file itself, which is replaced.
    let gate = File::create(path.with_extension("gate"))?;
    flock(&gate, FlockOperation::LockExclusive)?;
    let text = match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => "0\n".to_owned(),
        read => read?,
    };
    let (highest, content) = text.split_once('\n').unwrap_or((&text, ""));
    let highest = highest.parse().map_err(io::Error::other)?;
    if token < highest {
        return Ok(Err(Refused { token, highest }));
    }
    let new = path.with_extension("new");
    let mut file = File::create(&new)?;
    write!(file, "{token}\n{}", change(content))?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    // The new name is on the disk as well before the call returns.
    let directory = path.parent().filter(|parent| *parent != Path::new(""));
    File::open(directory.unwrap_or_else(|| Path::new(".")))?.sync_all()?;
    Ok(Ok(()))
}
