//! The data that a command writes: an argument, standard input or a file.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use crate::context::Context;
use crate::failure::{Failure, TOO_LARGE};
use crate::file_io::blocking;

/// Returns the data: that of `file` if there is one, otherwise `argument`, which may stand for standard input.
pub(super) async fn read(
    context: &Context,
    argument: Option<&str>,
    file: Option<&Path>,
) -> Result<Vec<u8>, Failure> {
    match (file, argument) {
        (Some(file), _) => {
            let file = file.to_owned();
            let most = context.max_buffer();
            let read = move || read_all(|| File::open(&file), &file.display().to_string(), most);
            blocking(read).await
        }
        (None, Some(STANDARD_INPUT)) => read_stdin(context).await,
        (None, argument) => Ok(argument.unwrap_or_default().as_bytes().to_vec()),
    }
}

/// Returns the data of a file, or of standard input if its name is `-`.
pub(super) async fn read_file(context: &Context, file: &Path) -> Result<Vec<u8>, Failure> {
    if file.as_os_str() == STANDARD_INPUT {
        read_stdin(context).await
    } else {
        read(context, None, Some(file)).await
    }
}

/// Returns the text of a file, or of standard input if its name is `-`. It may be longer than data.
pub(super) async fn read_text(context: &Context, file: &Path) -> Result<String, Failure> {
    let is_stdin = file.as_os_str() == STANDARD_INPUT;
    if is_stdin {
        context.take_stdin()?;
    }
    let file = file.to_owned();
    let read = move || {
        let (name, read) = if is_stdin {
            let stdin = io::stdin().lock();
            ("standard input".to_owned(), read_limited(stdin))
        } else {
            let file_read = File::open(&file).and_then(read_limited);
            (file.display().to_string(), file_read)
        };
        match read {
            Ok(text) if text.len() as u64 > MOST_TEXT => Err(Failure::operation(
                format!("{name} goes on beyond {MOST_TEXT} bytes"),
                Some("split it into several files"),
            )),
            Ok(text) => Ok(text),
            Err(error) => Err(Failure::operation(
                format!("cannot read {name}: {error}"),
                None,
            )),
        }
    };
    blocking(read).await
}

/// Reads a text, and one byte more than it may have if it is longer.
fn read_limited(input: impl Read) -> io::Result<String> {
    io::read_to_string(input.take(MOST_TEXT + 1))
}

async fn read_stdin(context: &Context) -> Result<Vec<u8>, Failure> {
    context.take_stdin()?;
    let most = context.max_buffer();
    blocking(move || read_all(|| Ok(io::stdin().lock()), "standard input", most)).await
}

/// Reads data of at most this many bytes. A node holds a little less; it is refused with the exact number.
fn read_all<R: Read>(
    open: impl FnOnce() -> io::Result<R>,
    name: &str,
    most: usize,
) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let read = open().and_then(|input| input.take(most as u64 + 1).read_to_end(&mut bytes));
    match read {
        Ok(read) if read > most => Err(Failure::operation(
            format!("{name} goes on beyond {most} bytes, the limit of a request"),
            Some(TOO_LARGE),
        )),
        Ok(_) => Ok(bytes),
        Err(error) => Err(Failure::operation(
            format!("cannot read the data from {name}: {error}"),
            None,
        )),
    }
}

/// The argument that stands for standard input.
pub(super) const STANDARD_INPUT: &str = "-";
/// The longest text of commands or operations, in bytes.
const MOST_TEXT: u64 = 64 << 20;
