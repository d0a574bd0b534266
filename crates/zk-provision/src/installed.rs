//! Finds what is installed on the machine. The first match wins.

use std::path::{Path, PathBuf};

use crate::machine::{Machine, children};
use crate::version::Request;
use crate::want::{Item, Want};
use crate::{home, java};

/// Where Homebrew keeps what it installs.
const HOMEBREW: [&str; 3] = ["/opt/homebrew", "/usr/local", "/home/linuxbrew/.linuxbrew"];

/// Finds ZooKeeper's home or the `java` program. Packages are always unpacked into the cache.
pub(super) fn find(machine: &Machine, item: &mut Item) -> Option<PathBuf> {
    match item.want.clone() {
        Want::ZooKeeper(request) => zookeeper(machine, request, item),
        Want::Java => installed_java(machine, item),
        Want::Package(_) => None,
    }
}

/// Checks that a home has a ZooKeeper that matches.
pub(super) fn suitable(home: &Path, request: Request) -> Result<(), String> {
    let found = home::inspect(home)?;
    match request.refusal(found.version) {
        None => Ok(()),
        Some(refusal) => Err(format!("it is {refusal}")),
    }
}

fn zookeeper(machine: &Machine, request: Request, item: &mut Item) -> Option<PathBuf> {
    match machine.path_var("ZOOKEEPER_HOME") {
        Some(home) => match suitable(&home, request) {
            Ok(()) => return Some(home),
            Err(reason) => item.tried(format!("$ZOOKEEPER_HOME ({})", home.display()), reason),
        },
        None => item.tried("$ZOOKEEPER_HOME", "not set"),
    }
    let mut absent = Vec::new();
    for home in zookeeper_homes(machine) {
        if !home.is_dir() {
            absent.push(home.display().to_string());
            continue;
        }
        match suitable(&home, request) {
            Ok(()) => return Some(home),
            Err(reason) => item.tried(home.display().to_string(), reason),
        }
    }
    if !absent.is_empty() {
        item.tried(absent.join(", "), "no such directory");
    }
    None
}

/// Debian's jars, Homebrew, and where unpacked releases usually are.
fn zookeeper_homes(machine: &Machine) -> Vec<PathBuf> {
    let mut homes = vec![machine.below_root("/usr/share/java")];
    let other = machine.path_var("HOMEBREW_PREFIX");
    let usual = HOMEBREW.map(|prefix| machine.below_root(prefix));
    for prefix in other.into_iter().chain(usual) {
        homes.push(prefix.join("opt/zookeeper"));
        homes.extend(children(&prefix.join("Cellar/zookeeper"), ""));
    }
    for parent in ["/opt", "/usr/local", "/usr/share", "/usr/lib", "/srv"] {
        let parent = machine.below_root(parent);
        homes.push(parent.join("zookeeper"));
        homes.extend(children(&parent, "apache-zookeeper-"));
        homes.extend(children(&parent, "zookeeper-"));
    }
    if let Some(home) = machine.path_var("HOME") {
        homes.push(home.join("zookeeper"));
        homes.extend(children(&home, "apache-zookeeper-"));
    }
    homes
}

fn installed_java(machine: &Machine, item: &mut Item) -> Option<PathBuf> {
    let named = match machine.path_var("JAVA_HOME") {
        Some(home) => {
            let label = format!("$JAVA_HOME ({})", home.display());
            (label, Ok(home.join("bin/java")))
        }
        None => ("$JAVA_HOME".to_owned(), Err("not set")),
    };
    let on_path = machine.program("java").ok_or("none there");
    let usual = java_homes(machine)
        .into_iter()
        .map(|home| home.join("bin/java"))
        .filter(|java| java.is_file())
        .map(|java| (java.display().to_string(), Ok(java)));
    let candidates = [named, ("java on PATH".to_owned(), on_path)];
    for (label, java) in candidates.into_iter().chain(usual) {
        let checked = java
            .map_err(str::to_owned)
            .and_then(|java| java::check(&java).map(|_| java));
        match checked {
            Ok(java) => return Some(java),
            Err(reason) => item.tried(label, reason),
        }
    }
    None
}

fn java_homes(machine: &Machine) -> Vec<PathBuf> {
    let mut homes = Vec::new();
    for parent in ["/usr/lib/jvm", "/usr/java", "/opt/java"] {
        homes.extend(children(&machine.below_root(parent), ""));
    }
    for prefix in HOMEBREW {
        let kegs = machine.below_root(format!("{prefix}/opt"));
        homes.extend(children(&kegs, "openjdk"));
    }
    let machines = machine.below_root("/Library/Java/JavaVirtualMachines");
    for bundle in children(&machines, "") {
        homes.push(bundle.join("Contents/Home"));
    }
    homes
}
