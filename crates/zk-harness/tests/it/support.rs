//! What several tests need.

use std::path::{Path, PathBuf};
use std::process::Command;

use zk_harness::{DataStore, Ensemble, EnsembleBuilder};

pub(crate) mod raw;

#[path = "../common/eventually.rs"]
mod waiting;

pub(crate) use waiting::eventually;

/// An ensemble whose writes cost no disk flush.
pub(crate) fn in_memory(servers: usize) -> EnsembleBuilder {
    Ensemble::builder().servers(servers).data(DataStore::Memory)
}

/// How many processes carry the directory of an ensemble on their command line.
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

/// Runs one test function of this binary in a process of its own, with `directory` in its environment.
pub(crate) fn in_child(test: &str, directory: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args([test, "--exact", "--nocapture"])
        .env(CHILD_DIRECTORY, directory);
    command
}

/// The directory that [`in_child`] passed, if this is such a process.
pub(crate) fn child_directory() -> Option<PathBuf> {
    std::env::var_os(CHILD_DIRECTORY).map(PathBuf::from)
}

const CHILD_DIRECTORY: &str = "ZK_HARNESS_TEST_CHILD_DIRECTORY";

/// Runs a test on servers that are processes, then on servers in containers.
pub(crate) async fn on_each_backend(servers: usize, test: impl AsyncFn(Ensemble)) {
    test(in_memory(servers).start().await.unwrap()).await;
    #[cfg(feature = "containers")]
    if let Some(builder) = in_containers(servers).await {
        test(builder.start().await.unwrap()).await;
    }
}

/// An ensemble in containers; nothing, and a line that says so, where there is no container engine.
#[cfg(feature = "containers")]
pub(crate) async fn in_containers(servers: usize) -> Option<EnsembleBuilder> {
    use zk_harness::container::{ContainerImage, probe, require};

    require(probe().await).unwrap()?;
    Some(
        Ensemble::builder()
            .servers(servers)
            .containers(ContainerImage::Debian),
    )
}
