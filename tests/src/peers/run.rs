//! Runs a Java program to its end, with a deadline.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, bail};
use tokio::process::Command;

/// Flags for a program that runs for a moment: it starts quickly and is not made fast.
pub(super) const QUICK: [&str; 3] = [
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-Xshare:auto",
];

/// A `java` that dies with the future or value that runs it.
pub(super) fn java(java: &Path) -> Command {
    let mut command = Command::new(java);
    command
        // It would be announced on standard error, and change what is measured.
        .env_remove("JAVA_TOOL_OPTIONS")
        .env_remove("JDK_JAVA_OPTIONS")
        .arg("-Dorg.slf4j.simpleLogger.defaultLogLevel=error")
        .stdin(Stdio::null())
        .kill_on_drop(true);
    command
}

/// The standard output of a program that succeeded; the error has what it said otherwise.
pub(super) async fn output(
    command: &mut Command,
    what: &str,
    within: Duration,
) -> anyhow::Result<String> {
    let output = tokio::time::timeout(within, command.output())
        .await
        .with_context(|| format!("{what} did not end within {within:?}"))?
        .with_context(|| format!("{what} cannot be started"))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr);
        bail!("{what} failed ({}):\n{said}{complaint}", output.status);
    }
    Ok(said)
}
