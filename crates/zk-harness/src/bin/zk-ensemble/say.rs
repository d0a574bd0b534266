//! Printing, where it is a courtesy and where it is the point.

use std::io::{self, Write as _};
use std::process::ExitCode;

use anyhow::Context as _;

/// Prints to standard output. That nobody reads it any more is no reason to leave a command half done.
pub(crate) fn print(text: &str) -> anyhow::Result<ExitCode> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to standard output")
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// Prints to standard error, which may be closed or full.
pub(crate) fn note(text: &str) {
    drop(writeln!(io::stderr(), "{text}"));
}
