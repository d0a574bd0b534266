//! Finds a Java runtime and its version.

use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::process::Stdio;
use std::time::Duration;

use super::machine::Machine;
use super::machine::is_program;
use super::places;
use super::wait;

/// ZooKeeper 3.5 to 3.9 are compiled for Java 8.
pub(super) const OLDEST: u32 = 8;

const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// Programs that may be an installed Java, with what to call them in messages.
pub(super) fn candidates(machine: &Machine) -> Vec<(String, Option<PathBuf>)> {
    let mut all = vec![
        match machine.path_var("JAVA_HOME") {
            Some(home) => (
                format!("$JAVA_HOME ({})", home.display()),
                Some(home.join("bin/java")),
            ),
            None => ("$JAVA_HOME".to_owned(), None),
        },
        ("java on PATH".to_owned(), machine.program("java")),
    ];
    let mut homes: Vec<PathBuf> = ["/usr/lib/jvm", "/usr/java", "/opt/java"]
        .iter()
        .flat_map(|parent| places::children(&machine.below_root(parent), ""))
        .collect();
    for prefix in ["/opt/homebrew", "/usr/local", "/home/linuxbrew/.linuxbrew"] {
        homes.extend(places::children(
            &machine.below_root(format!("{prefix}/opt")),
            "openjdk",
        ));
    }
    let machines = machine.below_root("/Library/Java/JavaVirtualMachines");
    homes.extend(
        places::children(&machines, "")
            .into_iter()
            .map(|dir| dir.join("Contents/Home")),
    );
    all.extend(
        homes
            .into_iter()
            .map(|home| home.join("bin/java"))
            .filter(|java| java.is_file())
            .map(|java| {
                let label = java.display().to_string();
                (label, Some(java))
            }),
    );
    all
}

/// Checks that a program is a Java that is new enough, and returns its feature release (8, 11, 17 …).
///
/// Reads the runtime's `release` file; starts only a runtime without one.
pub(super) fn check(java: &Path) -> Result<u32, String> {
    if !is_program(java) {
        return Err(if java.exists() {
            "not a program".to_owned()
        } else {
            "no such file".to_owned()
        });
    }
    let real = fs::canonicalize(java).map_err(|error| error.to_string())?;
    let release = real
        .parent()
        .and_then(Path::parent)
        .map(|home| home.join("release"));
    let text = release.and_then(|path| fs::read_to_string(path).ok());
    let feature = match text.as_deref().and_then(feature_of_release_file) {
        Some(feature) => feature,
        None => ask(java)?,
    };
    if feature < OLDEST {
        return Err(format!(
            "Java {feature}, but Java {OLDEST} or newer is needed"
        ));
    }
    Ok(feature)
}

/// Runs `java -version`.
pub(super) fn ask(java: &Path) -> Result<u32, String> {
    let mut child = Command::new(java)
        .arg("-version")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot be started: {error}"))?;
    let ended =
        wait::until(ANSWER_LIMIT, || child.try_wait()).map_err(|error| error.to_string())?;
    if ended.is_none() {
        let killed = child.kill().and_then(|()| child.wait());
        return Err(format!(
            "`java -version` did not end within {ANSWER_LIMIT:?} ({killed:?} after it was killed)"
        ));
    }
    let output = child
        .wait_with_output()
        .map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stderr);
    let said = text.lines().next().unwrap_or("nothing").to_owned();
    if !output.status.success() {
        return Err(format!(
            "`java -version` failed ({}): {said}",
            output.status
        ));
    }
    feature_of_answer(&text).ok_or_else(|| format!("`java -version` said {said}"))
}

pub(super) fn feature_of_release_file(text: &str) -> Option<u32> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("JAVA_VERSION="))?;
    feature(line.trim_matches('"'))
}

pub(super) fn feature_of_answer(text: &str) -> Option<u32> {
    let line = text.lines().find(|line| line.contains(" version \""))?;
    feature(line.split('"').nth(1)?)
}

/// `1.8.0_392` is Java 8, `17.0.1` is Java 17, `21-ea` is Java 21.
fn feature(version: &str) -> Option<u32> {
    let rest = version.strip_prefix("1.").unwrap_or(version);
    rest.split(|c: char| !c.is_ascii_digit())
        .next()?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests;
