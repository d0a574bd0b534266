//! The data that a command writes: an argument, standard input or a file.

use std::fs::File;
use std::io;
use std::io::Read;
use std::path::Path;

use crate::context::Context;
use crate::failure::Failure;

/// Returns the data: that of `file` if there is one, otherwise `argument`, which may stand for standard input.
pub(super) fn read(
    context: &Context,
    argument: Option<&str>,
    file: Option<&Path>,
) -> Result<Vec<u8>, Failure> {
    match (file, argument) {
        (Some(file), _) => {
            let name = file.display().to_string();
            let opened = File::open(file).map_err(|error| unreadable(&name, &error))?;
            read_all(opened, &name)
        }
        (None, Some(STANDARD_INPUT)) => {
            context.take_stdin()?;
            read_all(io::stdin().lock(), "standard input")
        }
        (None, argument) => Ok(argument.unwrap_or_default().as_bytes().to_vec()),
    }
}

/// Returns the text of a file, or of standard input if its name is `-`.
pub(super) fn read_text(context: &Context, file: &Path) -> Result<String, Failure> {
    let (name, read) = if file.as_os_str() == STANDARD_INPUT {
        context.take_stdin()?;
        ("standard input".to_owned(), io::read_to_string(io::stdin()))
    } else {
        (file.display().to_string(), std::fs::read_to_string(file))
    };
    read.map_err(|error| Failure::operation(format!("cannot read {name}: {error}"), None))
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
