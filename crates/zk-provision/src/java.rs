//! Checks a Java runtime, and reads its version.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::machine::is_program;
use crate::run;

/// ZooKeeper 3.5 to 3.9 are compiled for Java 8.
pub(super) const OLDEST: u32 = 8;

const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// Checks that a program is a Java that is new enough, and returns its feature release (8, 11, 17 …).
///
/// Reads the runtime's `release` file; starts only a runtime without one.
pub(super) fn check(java: &Path) -> Result<u32, String> {
    if !java.exists() {
        return Err("no such file".to_owned());
    }
    if !is_program(java) {
        return Err("not a program".to_owned());
    }
    let real = fs::canonicalize(java).map_err(|error| error.to_string())?;
    let home = real.parent().and_then(Path::parent);
    let release = home.and_then(|home| fs::read_to_string(home.join("release")).ok());
    let feature = match release.as_deref().and_then(feature_of_release_file) {
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
    let mut command = Command::new(java);
    command.arg("-version").stdin(Stdio::null());
    let output = run::output(&mut command, ANSWER_LIMIT, || {})
        .map_err(|reason| format!("`java -version`: {reason}"))?;
    let answer = String::from_utf8_lossy(&output.stderr);
    feature_of_answer(&answer).ok_or_else(|| {
        let said = answer.lines().next().unwrap_or("nothing");
        format!("`java -version` said {said}")
    })
}

fn feature_of_release_file(text: &str) -> Option<u32> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("JAVA_VERSION="))?;
    feature(line.trim_matches('"'))
}

fn feature_of_answer(text: &str) -> Option<u32> {
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
