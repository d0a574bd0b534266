//! Prints results to standard output and notes to standard error.

use std::io::{self, Write as _};
use std::process::ExitCode;

use anyhow::Context as _;

/// Prints to standard output. A closed pipe is not an error, so that the command completes.
pub(crate) fn print(text: &str) -> anyhow::Result<ExitCode> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to standard output")
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// Prints to standard error, and ignores errors.
pub(crate) fn note(text: &str) {
    drop(writeln!(io::stderr(), "{text}"));
}
