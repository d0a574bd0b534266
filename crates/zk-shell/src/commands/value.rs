//! The data that a command writes: an argument, standard input or a file.

use std::fs::File;
use std::io;
use std::io::Read;
use std::path::Path;

use crate::failure::Failure;

/// Returns the data: that of `file` if there is one, otherwise `argument`, which may stand for standard input.
pub(super) fn read(argument: Option<&str>, file: Option<&Path>) -> Result<Vec<u8>, Failure> {
    match (file, argument) {
        (Some(file), _) => {
            let name = file.display().to_string();
            let opened = File::open(file).map_err(|error| unreadable(&name, &error))?;
            read_all(opened, &name)
        }
        (None, Some(STANDARD_INPUT)) => read_all(io::stdin().lock(), "standard input"),
        (None, argument) => Ok(argument.unwrap_or_default().as_bytes().to_vec()),
    }
}

fn read_all(input: impl Read, name: &str) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    match input.take(MOST_INPUT + 1).read_to_end(&mut bytes) {
        Ok(read) if read as u64 > MOST_INPUT => Err(Failure::operation(
            format!("{name} goes on beyond {MOST_INPUT} bytes, and no node holds that much"),
            Some("store it in pieces, or elsewhere and its place in the node"),
        )),
        Ok(_) => Ok(bytes),
        Err(error) => Err(unreadable(name, &error)),
    }
}

fn unreadable(name: &str, error: &io::Error) -> Failure {
    Failure::operation(format!("cannot read the data from {name}: {error}"), None)
}

/// The argument that stands for standard input.
pub(super) const STANDARD_INPUT: &str = "-";
/// A node holds a little less; it is refused with the exact number.
const MOST_INPUT: u64 = 1 << 20;
