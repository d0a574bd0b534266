//! Lists the directories of an installed ZooKeeper. Pure except for listing directories.

use std::fs;
use std::path::Path;
use std::path::PathBuf;

use super::machine::Machine;

/// A candidate directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    /// A directory, with its name in messages.
    Home { label: String, path: PathBuf },
    /// A variable that is not set.
    Unset { variable: &'static str },
    /// Children of a directory whose name begins so, newest first.
    Children {
        parent: PathBuf,
        prefix: &'static str,
    },
}

/// Returns the candidates in the order of the search.
pub(super) fn all(machine: &Machine) -> Vec<Place> {
    let at = |path: &str| Place::Home {
        label: path.to_owned(),
        path: machine.below_root(path),
    };
    let in_dir = |parent: PathBuf, prefix| Place::Children { parent, prefix };
    let mut places = vec![match machine.path_var("ZOOKEEPER_HOME") {
        Some(path) => Place::Home {
            label: format!("$ZOOKEEPER_HOME ({})", path.display()),
            path,
        },
        None => Place::Unset {
            variable: "ZOOKEEPER_HOME",
        },
    }];
    places.push(at("/usr/share/java"));
    if let Some(prefix) = machine.path_var("HOMEBREW_PREFIX") {
        let path = prefix.join("opt/zookeeper");
        places.push(Place::Home {
            label: path.display().to_string(),
            path,
        });
        places.push(in_dir(prefix.join("Cellar/zookeeper"), ""));
    }
    for prefix in ["/opt/homebrew", "/usr/local", "/home/linuxbrew/.linuxbrew"] {
        places.push(at(&format!("{prefix}/opt/zookeeper")));
        places.push(in_dir(
            machine.below_root(format!("{prefix}/Cellar/zookeeper")),
            "",
        ));
    }
    for parent in ["/opt", "/usr/local", "/usr/share", "/usr/lib", "/srv"] {
        places.push(at(&format!("{parent}/zookeeper")));
        places.push(in_dir(machine.below_root(parent), "apache-zookeeper-"));
        places.push(in_dir(machine.below_root(parent), "zookeeper-"));
    }
    if let Some(home) = machine.path_var("HOME") {
        let path = home.join("zookeeper");
        places.push(Place::Home {
            label: path.display().to_string(),
            path,
        });
        places.push(in_dir(home, "apache-zookeeper-"));
    }
    places
}

/// Directories below `parent` whose name begins with `prefix`, the highest version first.
pub(super) fn children(parent: &Path, prefix: &str) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(parent) else {
        return Vec::new();
    };
    let mut names: Vec<String> = entries
        .filter_map(Result::ok)
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.starts_with(prefix) && parent.join(name).is_dir())
        .collect();
    names.sort_by_key(|name| std::cmp::Reverse((numbers(name), name.clone())));
    names.into_iter().map(|name| parent.join(name)).collect()
}

/// The numbers in a name, so that 3.10 comes after 3.9.
pub(super) fn numbers(name: &str) -> Vec<u64> {
    name.split(|c: char| !c.is_ascii_digit())
        .filter_map(|digits| digits.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests;
