//! A resource outside of ZooKeeper that checks fencing tokens.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::PathBuf;

use rustix::fs::{FlockOperation, flock};

/// A file that accepts a text only with a token that is at least as high as all before.
///
/// It models a database or a storage service: the comparison and the write are one step, regardless of what the lock's
/// holders believe.
#[derive(Debug)]
pub struct Register {
    path: PathBuf,
}

/// A write with a token that is too low.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refused {
    /// The highest token so far.
    pub highest: u64,
}

impl Register {
    /// Creates a register in this file, which the first write creates.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Replaces the text, unless the token is too low.
    ///
    /// # Errors
    ///
    /// The file cannot be read or written, or is not a register.
    pub fn write(&self, token: u64, text: &str) -> io::Result<Result<(), Refused>> {
        let mut file = self.open()?;
        let highest = contents(&mut file)?.0;
        if token < highest {
            return Ok(Err(Refused { highest }));
        }
        file.set_len(0)?;
        file.rewind()?;
        write!(file, "{token} {text}")?;
        Ok(Ok(()))
    }

    /// Returns the highest token, zero if there was none, and the text written with it.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or is not a register.
    pub fn read(&self) -> io::Result<(u64, String)> {
        contents(&mut self.open()?)
    }

    fn open(&self) -> io::Result<File> {
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&self.path)?;
        flock(&file, FlockOperation::LockExclusive)?;
        Ok(file)
    }
}

fn contents(file: &mut File) -> io::Result<(u64, String)> {
    let mut all = String::new();
    file.read_to_string(&mut all)?;
    if all.is_empty() {
        return Ok((0, all));
    }
    all.split_once(' ')
        .and_then(|(token, text)| Some((token.parse().ok()?, text.to_owned())))
        .ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                format!("{all:?} is no register"),
            )
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lower_token_is_refused_and_changes_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let register = Register::new(directory.path().join("register"));
        assert_eq!(register.read().unwrap(), (0, String::new()));
        assert_eq!(register.write(7, "long text").unwrap(), Ok(()));
        assert_eq!(
            register.write(6, "late").unwrap(),
            Err(Refused { highest: 7 })
        );
        assert_eq!(register.read().unwrap(), (7, "long text".into()));
        assert_eq!(register.write(7, "a b").unwrap(), Ok(()));
        assert_eq!(register.write(8, "").unwrap(), Ok(()));
        assert_eq!(register.read().unwrap(), (8, String::new()));
    }
}
