//! Runs `zk-ensemble` with a separate directory for each test.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

#[path = "../common/eventually.rs"]
mod waiting;

pub(crate) use waiting::eventually;

/// A directory for ensembles, which takes them down when it is dropped.
pub(crate) struct EnsembleDir {
    root: tempfile::TempDir,
    backend: Backend,
}

/// How the servers run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Backend {
    Processes,
    #[cfg(feature = "containers")]
    Containers,
}

/// Defines two tests for a function that takes an [`EnsembleDir`]: one for each backend.
///
/// `cargo xtask test` skips and reports tests with `in_containers` in their names if there is no container engine.
macro_rules! on_each_backend {
    ($($test:ident),+ $(,)?) => {$(
        mod $test {
            use crate::support::{Backend, EnsembleDir};

            #[test]
            fn in_processes() {
                super::$test(&EnsembleDir::on(Backend::Processes));
            }

            #[cfg(feature = "containers")]
            #[test]
            fn in_containers() {
                super::$test(&EnsembleDir::on(Backend::Containers));
            }
        }
    )+};
}

pub(crate) use on_each_backend;

/// The output and exit code of a command.
#[derive(Debug)]
pub(crate) struct Printed {
    pub(crate) out: String,
    pub(crate) err: String,
    pub(crate) code: Option<i32>,
}

impl EnsembleDir {
    pub(crate) fn new() -> Self {
        Self::on(Backend::Processes)
    }

    pub(crate) fn on(backend: Backend) -> Self {
        Self {
            root: tempfile::tempdir().unwrap(),
            backend,
        }
    }

    pub(crate) fn backend(&self) -> Backend {
        self.backend
    }

    /// Runs `up` with the backend of this directory.
    #[track_caller]
    pub(crate) fn up(&self, args: &[&str]) -> Printed {
        let backend = match self.backend {
            Backend::Processes => "processes",
            #[cfg(feature = "containers")]
            Backend::Containers => "containers",
        };
        let printed = self.run(&[&["up", "--backend", backend], args].concat());
        assert_eq!(printed.code, Some(0), "{args:?}: {printed:?}");
        printed
    }

    /// Counts the processes or containers of its ensembles, including stopped containers.
    pub(crate) fn left(&self) -> usize {
        let processes = processes_below(&self.ensembles());
        match self.backend {
            Backend::Processes => processes,
            #[cfg(feature = "containers")]
            Backend::Containers => processes + crate::in_containers::of(&self.ensembles()).len(),
        }
    }

    /// Returns the directory with one directory per ensemble; it need not exist.
    pub(crate) fn ensembles(&self) -> PathBuf {
        self.root.path().join("ensembles")
    }

    pub(crate) fn file(&self, name: &str, text: &str) -> PathBuf {
        let file = self.root.path().join(name);
        std::fs::write(&file, text).unwrap();
        file
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zk-ensemble"));
        command
            .args(args)
            .env("ZK_ENSEMBLE_DIR", self.ensembles())
            .env_remove("ZK_ENSEMBLE");
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Printed {
        self.command(args).output().unwrap().into()
    }

    /// Runs a command that must succeed and returns its output.
    #[track_caller]
    pub(crate) fn ok(&self, args: &[&str]) -> String {
        let printed = self.run(args);
        assert_eq!(printed.code, Some(0), "{args:?}: {printed:?}");
        printed.out
    }

    /// Runs a command that must fail and returns its standard error.
    #[track_caller]
    pub(crate) fn fails(&self, args: &[&str]) -> String {
        let printed = self.run(args);
        assert_eq!(printed.code, Some(1), "{args:?}: {printed:?}");
        printed.err
    }

    pub(crate) fn status(&self, name: &str) -> serde_json::Value {
        let printed = self.run(&["status", "--json", "--name", name]);
        serde_json::from_str(&printed.out).unwrap_or_else(|error| panic!("{error}: {printed:?}"))
    }
}

impl Drop for EnsembleDir {
    fn drop(&mut self) {
        drop(self.command(&["down", "--all", "--remove"]).output());
    }
}

impl From<Output> for Printed {
    fn from(output: Output) -> Self {
        Self {
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
            code: output.status.code(),
        }
    }
}

/// Counts the processes of ensembles below a directory.
pub(crate) fn processes_below(root: &Path) -> usize {
    pids_below(root).len()
}

/// Returns the ids of the processes of ensembles below a directory.
pub(crate) fn pids_below(root: &Path) -> Vec<i32> {
    let needle = format!("-Dzk.harness.ensemble={}/", root.display());
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap() {
        let entry = entry.unwrap();
        let Ok(arguments) = std::fs::read(entry.path().join("cmdline")) else {
            continue;
        };
        if String::from_utf8_lossy(&arguments).contains(&needle) {
            found.extend(entry.file_name().to_string_lossy().parse::<i32>());
        }
    }
    found
}
