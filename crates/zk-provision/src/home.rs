//! Detects a ZooKeeper in a directory, and builds its class path.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::distribution::Logging;
use crate::version::Version;

/// A ZooKeeper found in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) version: Version,
    pub(super) classpath: Vec<PathBuf>,
    pub(super) logging: Logging,
    pub(super) home: PathBuf,
}

/// The class path that the jars of a directory form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Jars {
    pub(super) version: Version,
    pub(super) logging: Logging,
    /// File names in class path order.
    pub(super) names: Vec<String>,
}

/// Where below a home the jars may be: a release, Homebrew, Debian's directory itself, a tree of Debian packages.
const BELOW: [&str; 5] = ["lib", "libexec/lib", "", "usr/share/java", "share/java"];

/// Jars of a directory shared with other programs that a server needs, in class path order.
///
/// A short class path starts faster, so the list is explicit. Netty and Jackson are only needed for TLS and the admin
/// server. The manifests of Debian's `zookeeper.jar` and `jackson-databind.jar` name absolute paths that may belong to
/// another version, and Java searches those before what follows on the class path: nothing that they name may follow.
const SHARED: [&str; 17] = [
    "zookeeper-jute",
    "slf4j-api",
    "metrics-core",
    "snappy-java",
    "commons-cli",
    "commons-io",
    "jackson-annotations",
    "jackson-core",
    "netty-buffer",
    "netty-codec",
    "netty-common",
    "netty-handler",
    "netty-resolver",
    "netty-transport",
    "netty-transport-native-epoll",
    "netty-transport-native-unix-common",
    "netty-tcnative-classes",
];

/// Comes after [`SHARED`] and the logging binding, in this order.
const NAMING_OTHERS: [&str; 2] = ["jackson-databind", "zookeeper"];

const REQUIRED: [&str; 4] = ["zookeeper-jute", "slf4j-api", "metrics-core", "snappy-java"];

/// What the rest of Netty requires. Newer releases of Debian have them in packages of their own.
const REQUIRED_BY_NETTY: [&str; 2] = ["netty-buffer", "netty-common"];

/// What releases before [`FIRST_WITH_JUTE`] require: Jute is in their own jar, and they register log4j's JMX beans with
/// any logging binding.
const REQUIRED_BEFORE: [&str; 2] = ["slf4j-api", "log4j-1.2"];

/// The first release with Jute in a jar of its own.
const FIRST_WITH_JUTE: Version = Version::new(3, 5, 5);

/// Bindings of slf4j with the jars each needs, best first.
const BINDINGS: [(&[&str], Logging); 4] = [
    (&["slf4j-simple"], Logging::SlfSimple),
    (&["logback-classic", "logback-core"], Logging::Logback),
    (&["slf4j-log4j12", "log4j-1.2"], Logging::Log4j1),
    (&["slf4j-reload4j", "reload4j"], Logging::Log4j1),
];

/// Finds a ZooKeeper in a home of any known layout.
pub(super) fn inspect(home: &Path) -> Result<Found, String> {
    let home = std::path::absolute(home).map_err(|error| error.to_string())?;
    if !home.exists() {
        return Err("no such directory".to_owned());
    }
    if !home.is_dir() {
        return Err("not a directory".to_owned());
    }
    for below in BELOW {
        let dir = home.join(below);
        let names = match names(&dir) {
            Ok(names) => names,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(format!("cannot list {}: {error}", dir.display())),
        };
        if !names.iter().any(|name| is_jar_of(name, "zookeeper")) {
            continue;
        }
        let own = below.ends_with("lib");
        let link = fs::read_link(dir.join("zookeeper.jar")).ok();
        let target = link
            .as_deref()
            .and_then(Path::file_name)
            .map(|name| name.to_string_lossy().into_owned());
        let jars = if own {
            release(&names)
        } else {
            shared(&names, target.as_deref())
        }?;
        return Ok(Found {
            version: jars.version,
            classpath: jars.names.iter().map(|name| dir.join(name)).collect(),
            logging: jars.logging,
            home,
        });
    }
    Err("no zookeeper jar there, nor in its lib, libexec/lib or usr/share/java".to_owned())
}

/// Returns all jars of a directory with a single release, ZooKeeper's own first.
pub(super) fn release(names: &BTreeSet<String>) -> Result<Jars, String> {
    let version = version(names, None)?;
    let logging = binding(names)?.1;
    require(names, required(version, &["zookeeper-jute", "slf4j-api"]))?;
    let rank = |name: &String| match name {
        _ if is_jar_of(name, "zookeeper") => 0,
        _ if is_jar_of(name, "zookeeper-jute") => 1,
        _ if is_jar_of(name, "slf4j-api") => 2,
        _ if name.starts_with("logback") => 3,
        _ if name.starts_with("metrics-core") || name.starts_with("snappy") => 4,
        _ => 5,
    };
    let mut jars: Vec<String> = names.iter().cloned().collect();
    jars.sort_by_key(rank);
    Ok(Jars {
        version,
        logging,
        names: jars,
    })
}

/// Returns the needed jars of a directory that many programs share, as on Debian.
pub(super) fn shared(
    names: &BTreeSet<String>,
    zookeeper_link: Option<&str>,
) -> Result<Jars, String> {
    let version = version(names, zookeeper_link)?;
    let required = required(version, &REQUIRED);
    require(names, required)?;
    if jar(names, "netty-handler").is_some() {
        require(names, &REQUIRED_BY_NETTY)?;
    }
    let (binding, logging) = binding(names)?;
    let more = required
        .iter()
        .filter(|artifact| !SHARED.contains(artifact));
    let more = more.filter(|artifact| !binding.contains(artifact));
    let jars = SHARED
        .iter()
        .chain(more)
        .chain(binding)
        .chain(&NAMING_OTHERS)
        .filter_map(|artifact| jar(names, artifact))
        .cloned()
        .collect();
    Ok(Jars {
        version,
        logging,
        names: jars,
    })
}

fn names(dir: &Path) -> io::Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(dir)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        // A dangling link counts as missing.
        if Path::new(&name)
            .extension()
            .is_some_and(|extension| extension == "jar")
            && dir.join(&name).is_file()
        {
            names.insert(name);
        }
    }
    Ok(names)
}

/// Returns whether it is `artifact.jar` or `artifact-1.2.3.jar`; `zookeeper-jute.jar` is not a jar of `zookeeper`.
fn is_jar_of(name: &str, artifact: &str) -> bool {
    let Some(rest) = name
        .strip_prefix(artifact)
        .and_then(|rest| rest.strip_suffix(".jar"))
    else {
        return false;
    };
    rest.is_empty()
        || rest
            .strip_prefix('-')
            .is_some_and(|version| version.starts_with(|c: char| c.is_ascii_digit()))
}

/// The jar of an artifact, the one without a version in its name first.
fn jar<'a>(names: &'a BTreeSet<String>, artifact: &str) -> Option<&'a String> {
    names
        .get(&format!("{artifact}.jar"))
        .or_else(|| names.iter().find(|name| is_jar_of(name, artifact)))
}

fn version(names: &BTreeSet<String>, link: Option<&str>) -> Result<Version, String> {
    let of = |name: &str| Version::parse(name.strip_prefix("zookeeper-")?.strip_suffix(".jar")?);
    if let Some(version) = link.and_then(of) {
        return Ok(version);
    }
    let versions: BTreeSet<Version> = names.iter().filter_map(|name| of(name)).collect();
    match (versions.first(), versions.len()) {
        (Some(&version), 1) => Ok(version),
        (None, _) => {
            Err("the version is unknown without a jar named zookeeper-X.Y.Z.jar".to_owned())
        }
        (Some(_), _) => {
            let all: Vec<String> = versions.iter().map(ToString::to_string).collect();
            Err(format!(
                "it has jars of several versions ({}); keep those of one",
                all.join(", ")
            ))
        }
    }
}

/// Returns the artifacts that a release requires, given those of later ones.
fn required<'a>(version: Version, later: &'a [&'static str]) -> &'a [&'static str] {
    if version < FIRST_WITH_JUTE {
        &REQUIRED_BEFORE
    } else {
        later
    }
}

fn require(names: &BTreeSet<String>, artifacts: &[&str]) -> Result<(), String> {
    let absent: Vec<String> = artifacts
        .iter()
        .filter(|artifact| jar(names, artifact).is_none())
        .map(|a| format!("{a}.jar"))
        .collect();
    if absent.is_empty() {
        Ok(())
    } else {
        Err(format!("incomplete: {} is missing", absent.join(", ")))
    }
}

fn binding(names: &BTreeSet<String>) -> Result<(&'static [&'static str], Logging), String> {
    BINDINGS
        .iter()
        .find(|(jars, _)| jars.iter().all(|artifact| jar(names, artifact).is_some()))
        .copied()
        .ok_or_else(|| {
            "incomplete: no logging binding (slf4j-simple.jar, logback-classic.jar or slf4j-log4j12.jar), \
             so a server would say nothing"
                .to_owned()
        })
}

#[cfg(test)]
mod tests;
