//! Helpers for several tests.

use std::path::{Path, PathBuf};
use std::process::Command;

use zk_harness::{DataStore, Ensemble, EnsembleBuilder};

pub(crate) mod java_shell;
pub(crate) mod raw;

#[path = "../common/eventually.rs"]
mod waiting;

pub(crate) use waiting::eventually;

/// Returns a builder for an ensemble without disk flushes, whose quorum outlasts pauses of the machine of up to 5 s.
pub(crate) fn in_memory(servers: usize) -> EnsembleBuilder {
    let builder = Ensemble::builder().servers(servers).sync_limit(25);
    builder.data(DataStore::Memory)
}

/// Runs the test for both releases at the same time.
pub(crate) async fn for_each_release(test: impl AsyncFn(&'static str)) {
    // Together they are too large for a stack.
    tokio::join!(Box::pin(test("3.8")), Box::pin(test("3.9")));
}

/// Counts the processes with the marker of the ensemble in `directory`.
pub(crate) fn processes_of(directory: &Path) -> usize {
    let needle = format!("-Dzk.harness.ensemble={}/", directory.display());
    let mut found = 0;
    for entry in std::fs::read_dir("/proc").unwrap() {
        let Ok(arguments) = std::fs::read(entry.unwrap().path().join("cmdline")) else {
            continue;
        };
        found += usize::from(String::from_utf8_lossy(&arguments).contains(&needle));
    }
    found
}

/// Returns a command that runs one test of this binary, with `directory` in its environment.
pub(crate) fn in_child(test: &str, directory: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args([test, "--exact", "--nocapture"])
        .env(CHILD_DIRECTORY, directory);
    command
}

/// Returns the directory that [`in_child`] passed, if this is such a process.
pub(crate) fn child_directory() -> Option<PathBuf> {
    std::env::var_os(CHILD_DIRECTORY).map(PathBuf::from)
}

const CHILD_DIRECTORY: &str = "ZK_HARNESS_TEST_CHILD_DIRECTORY";

/// Defines two tests for a function that takes an ensemble: with processes and with containers.
macro_rules! on_each_backend {
    ($($test:ident: $servers:literal,)+) => {$(
        mod $test {
            use crate::support;

            #[tokio::test]
            async fn in_processes() {
                super::$test(support::in_memory($servers).start().await.unwrap()).await;
            }

            #[cfg(feature = "containers")]
            #[tokio::test]
            async fn in_containers() {
                super::$test(support::in_containers($servers).start().await.unwrap()).await;
            }
        }
    )+};
}

pub(crate) use on_each_backend;

/// Returns a builder for an ensemble in containers, which needs a container engine.
///
/// Tests that use it have `in_containers` in their names: `cargo xtask test` skips and reports them if there is no
/// engine.
#[cfg(feature = "containers")]
pub(crate) fn in_containers(servers: usize) -> EnsembleBuilder {
    Ensemble::builder()
        .servers(servers)
        .containers(zk_harness::container::ContainerImage::Debian)
}
