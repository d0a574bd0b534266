//! Reads the machine's environment variables, programs and operating system.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::Access;

/// A view of the machine that a test can replace: variables are a map, paths are below a root.
#[derive(Debug, Clone)]
pub(super) struct Machine {
    pub(super) root: PathBuf,
    vars: BTreeMap<OsString, OsString>,
}

/// The needed contents of `/etc/os-release`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct System {
    /// `ID` and then the words of `ID_LIKE`.
    pub(super) ids: Vec<String>,
    /// The release whose packages the system uses, for example `bookworm`.
    pub(super) codename: Option<String>,
}

impl Machine {
    pub(super) fn new(vars: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        Self {
            root: PathBuf::from("/"),
            vars: vars.into_iter().collect(),
        }
    }

    /// Returns a variable; an empty one counts as unset.
    pub(super) fn var(&self, name: &str) -> Option<&OsString> {
        self.vars
            .get(&OsString::from(name))
            .filter(|value| !value.is_empty())
    }

    pub(super) fn path_var(&self, name: &str) -> Option<PathBuf> {
        self.var(name).map(PathBuf::from)
    }

    /// Returns an absolute path below the root.
    pub(super) fn below_root(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// Finds a program on `PATH`.
    pub(super) fn program(&self, name: &str) -> Option<PathBuf> {
        let path = self.var("PATH")?;
        std::env::split_paths(path)
            .filter(|dir| dir.is_absolute())
            .map(|dir| dir.join(name))
            .find(|candidate| is_program(candidate))
    }

    pub(super) fn system(&self) -> System {
        let text = ["/etc/os-release", "/usr/lib/os-release"]
            .iter()
            .find_map(|path| fs::read_to_string(self.below_root(path)).ok());
        let mut system = text.as_deref().map(System::parse).unwrap_or_default();
        if system.ids.is_empty() && cfg!(target_os = "macos") {
            system.ids.push("macos".to_owned());
        }
        system
    }
}

impl System {
    pub(super) fn parse(os_release: &str) -> Self {
        let field = |name: &str| {
            os_release.lines().find_map(|line| {
                let value = line.trim().strip_prefix(name)?.strip_prefix('=')?;
                Some(value.trim_matches(['"', '\'']).to_owned())
            })
        };
        let mut ids = Vec::new();
        for value in ["ID", "ID_LIKE"].iter().filter_map(|name| field(name)) {
            ids.extend(value.split_whitespace().map(str::to_owned));
        }
        // A derivative also names the release of its parent, whose packages it uses.
        let codename = ["UBUNTU_CODENAME", "DEBIAN_CODENAME", "VERSION_CODENAME"]
            .iter()
            .find_map(|name| field(name).filter(|value| !value.is_empty()));
        Self { ids, codename }
    }

    pub(super) fn is(&self, id: &str) -> bool {
        self.ids.iter().any(|own| own == id)
    }
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
fn numbers(name: &str) -> Vec<u64> {
    name.split(|c: char| !c.is_ascii_digit())
        .filter_map(|digits| digits.parse().ok())
        .collect()
}

pub(super) fn is_program(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path, Access::EXEC_OK).is_ok()
}

#[cfg(test)]
mod tests;
