//! Builds the tests of the copy.

use std::process::Stdio;

use anyhow::{Context as _, ensure};

use crate::copy::Copy;
use crate::errors::{self, Error};

/// What is built: packages with their unit tests and some test binaries.
#[derive(Clone, Debug)]
pub(crate) struct Tests {
    pub(crate) packages: Vec<String>,
    pub(crate) binaries: Vec<String>,
}

impl Tests {
    /// Returns the arguments of cargo that choose them.
    pub(crate) fn args(&self) -> Vec<String> {
        let mut args = vec!["--all-features".to_owned(), "--lib".to_owned()];
        for package in &self.packages {
            args.extend(["--package".to_owned(), package.clone()]);
        }
        for binary in &self.binaries {
            args.extend(["--test".to_owned(), binary.clone()]);
        }
        args
    }
}

/// Builds the libraries and the tests; returns the errors of the compiler.
pub(crate) fn build(copy: &Copy, tests: &Tests) -> anyhow::Result<Vec<Error>> {
    let mut cargo = copy.cargo(&["build", "--locked", "--keep-going", "--quiet"]);
    cargo.args(["--message-format", "json"]).args(tests.args());
    // The compiler's messages are on stdout, too.
    cargo.stdin(Stdio::null()).stderr(Stdio::piped());
    let output = cargo.output().context("cannot run cargo")?;
    let errors = errors::read(&String::from_utf8_lossy(&output.stdout));
    ensure!(
        output.status.success() || !errors.is_empty(),
        "the copy does not build: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(errors)
}
