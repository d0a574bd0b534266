//! Formats apt's configuration and parses its output.
//!
//! Pure: no I/O and no clock.

use std::path::Path;

use crate::machine::System;
use crate::version::Request;

/// Suites in which Debian has, or had, a series of ZooKeeper, the newest first. `apt-cache policy` has the last word.
const DEBIAN: [((u32, u32), &[&str]); 3] = [
    ((3, 4), &["bullseye"]),
    ((3, 8), &["bookworm"]),
    ((3, 9), &["sid", "trixie"]),
];
const UBUNTU: [((u32, u32), &[&str]); 1] = [((3, 9), &["noble"])];

/// Suite names that follow the distribution instead of a release.
const MOVING: [&str; 7] = [
    "stable",
    "oldstable",
    "testing",
    "unstable",
    "sid",
    "devel",
    "rolling",
];

/// The distribution whose archive the machine uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    Debian,
    Ubuntu,
}

/// An archive that the machine has configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mirror {
    pub(super) uri: String,
    pub(super) components: Vec<String>,
}

impl Family {
    pub(super) fn of(system: &System) -> Option<Self> {
        if system.is("ubuntu") {
            Some(Self::Ubuntu)
        } else if system.is("debian") {
            Some(Self::Debian)
        } else {
            None
        }
    }

    /// The archive's keys, where the distribution installs them.
    pub(super) fn keyring(self) -> &'static str {
        match self {
            Self::Debian => "/usr/share/keyrings/debian-archive-keyring.gpg",
            Self::Ubuntu => "/usr/share/keyrings/ubuntu-archive-keyring.gpg",
        }
    }

    /// Returns the suites that may have a version, the one with the newest first; the machine's own is always included.
    pub(super) fn suites(self, request: Request, own: &str) -> Vec<String> {
        let table: &[((u32, u32), &[&str])] = match self {
            Self::Debian => &DEBIAN,
            Self::Ubuntu => &UBUNTU,
        };
        let known = table
            .iter()
            .find(|(series, _)| *series == request.series())
            .map_or(&[][..], |(_, suites)| suites);
        let mut suites: Vec<String> = known.iter().map(|&suite| suite.to_owned()).collect();
        if self == Self::Ubuntu {
            suites.retain(|suite| suite != own);
            suites.insert(0, own.to_owned());
        } else if !known.contains(&own) {
            suites.push(own.to_owned());
        }
        suites
    }
}

/// The archive of the machine's own release among lines of `URI|release|component`.
pub(super) fn mirror(index_targets: &str, codename: &str) -> Option<Mirror> {
    let targets: Vec<[&str; 3]> = index_targets
        .lines()
        .filter_map(|line| line.split('|').collect::<Vec<_>>().try_into().ok())
        .filter(|[uri, ..]: &[&str; 3]| !uri.starts_with("cdrom:"))
        .collect();
    let wanted = |release: &str| release == codename;
    let moving = |release: &str| MOVING.contains(&release);
    let [uri, release, _] = targets
        .iter()
        .find(|[_, release, _]| wanted(release))
        .or_else(|| targets.iter().find(|[_, release, _]| moving(release)))?;
    let mut components: Vec<String> = Vec::new();
    for [other_uri, other_release, component] in &targets {
        if (other_uri, other_release) == (uri, release)
            && !components.iter().any(|known| known == component)
        {
            components.push((*component).to_owned());
        }
    }
    Some(Mirror {
        uri: (*uri).to_owned(),
        components,
    })
}

/// A line of a sources file.
pub(super) fn source_line(
    mirror: &Mirror,
    suite: &str,
    architecture: &str,
    keyring: Option<&Path>,
) -> String {
    let signed = keyring
        .map(|path| format!(" signed-by={}", path.display()))
        .unwrap_or_default();
    format!(
        "deb [arch={architecture}{signed}] {} {suite} {}\n",
        mirror.uri,
        mirror.components.join(" ")
    )
}

/// Formats the configuration file that replaces the machine's own.
///
/// It keeps the machine's settings for fetching, such as a proxy. It omits scripts that run after an update, and settings
/// that weaken the check of signatures.
pub(super) fn configuration(machines_acquire: &str) -> String {
    const OURS: [&str; 6] = [
        "Acquire::IndexTargets",
        "Acquire::Languages",
        "Acquire::GzipIndexes",
        "Acquire::CompressionTypes",
        "Acquire::Changelogs",
        "Acquire::Allow",
    ];
    let kept = machines_acquire.lines().filter(|line| {
        line.starts_with("Acquire::")
            && !line.ends_with("\"\";")
            && !OURS.iter().any(|ours| line.starts_with(ours))
    });
    let mut text = String::from(
        "Dir::Etc::Parts \"/dev/null\";\n\
         Dir::Etc::Main \"/dev/null\";\n\
         Acquire::Languages \"none\";\n\
         Acquire::AllowInsecureRepositories \"false\";\n\
         Acquire::AllowWeakRepositories \"false\";\n\
         Acquire::AllowDowngradeToInsecureRepositories \"false\";\n\
         APT::Get::AllowUnauthenticated \"false\";\n\
         APT::Sandbox::User \"\";\n\
         APT::Update::Error-Mode \"any\";\n\
         Acquire::Retries \"1\";\n\
         Acquire::http::Timeout \"15\";\n\
         Acquire::https::Timeout \"15\";\n",
    );
    for line in kept {
        text.push_str(line);
        text.push('\n');
    }
    text
}

/// Returns the candidate version in the output of `apt-cache policy`.
pub(super) fn candidate(policy: &str) -> Option<&str> {
    let candidate = policy
        .lines()
        .find_map(|line| line.trim().strip_prefix("Candidate: "))?;
    (candidate != "(none)").then_some(candidate)
}

/// Returns the packages that a simulated installation would install.
pub(super) fn installs(simulation: &str) -> Vec<&str> {
    simulation
        .lines()
        .filter_map(|line| line.strip_prefix("Inst ")?.split_whitespace().next())
        .collect()
}

/// Returns whether it is a package of jars.
pub(super) fn is_jar_package(name: &str) -> bool {
    name.starts_with("lib") && name.ends_with("-java")
}

/// Returns whether it has jars of a server's class path. The other dependencies are for building, for the graphical tools
/// and for the admin server.
pub(super) fn is_on_class_path(name: &str) -> bool {
    const NEEDED: [&str; 12] = [
        "libzookeeper-java",
        "libslf4j-java",
        "libsnappy-java",
        "libdropwizard-metrics-java",
        "libmetrics-java",
        "libnetty-java",
        // Parts of it, in newer releases.
        "libnetty-buffer-java",
        "libnetty-common-java",
        "libcommons-cli-java",
        "libcommons-io-java",
        "liblog4j1.2-java",
        "libreload4j-java",
    ];
    NEEDED.contains(&name) || (name.starts_with("libjackson2-") && name.ends_with("-java"))
}

/// The runtime among the dependencies of `default-jre-headless`, with its feature release.
pub(super) fn runtime(depends: &str) -> Option<(&str, u32)> {
    depends.lines().find_map(|line| {
        let name = line
            .trim()
            .trim_start_matches('|')
            .strip_prefix("Depends: ")?;
        let feature = name
            .strip_prefix("openjdk-")?
            .strip_suffix("-jre-headless")?;
        Some((name, feature.parse().ok()?))
    })
}

/// Bytes to fetch, from lines of `'URI' file bytes hash`.
pub(super) fn bytes_to_fetch(uris: &str) -> u64 {
    uris.lines()
        .filter_map(|line| line.split_whitespace().nth(2)?.parse::<u64>().ok())
        .sum()
}

#[cfg(test)]
mod tests;
