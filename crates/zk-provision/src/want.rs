//! What a search looks for, and the packages of Debian and Ubuntu that it can look for. Pure.

use std::fmt;
use std::path::PathBuf;

use crate::distribution::Source;
use crate::error::{SettingError, Tried};
use crate::java;
use crate::version::Request;

/// One thing that a search looks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Want {
    ZooKeeper(Request),
    Java,
    Package(Package),
}

/// A wanted thing, where it is, and where it is not.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) want: Want,
    /// The home of ZooKeeper, the `java` program, or the directory with a package's files.
    pub(super) found: Option<(PathBuf, Source)>,
    pub(super) tried: Vec<Tried>,
}

/// A requested package with its alternatives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Package {
    /// Never empty, the preferred one first.
    pub(super) alternatives: Vec<String>,
}

impl Item {
    pub(super) fn new(want: Want) -> Self {
        Self {
            want,
            found: None,
            tried: Vec::new(),
        }
    }

    pub(super) fn tried(&mut self, what: impl Into<String>, outcome: impl Into<String>) {
        self.tried.push(Tried {
            what: what.into(),
            outcome: outcome.into(),
        });
    }
}

/// The items that were not found yet.
pub(super) fn missing(items: &mut [Item]) -> impl Iterator<Item = &mut Item> {
    items.iter_mut().filter(|item| item.found.is_none())
}

impl Package {
    pub(super) fn parse(text: &str) -> Result<Self, SettingError> {
        const RULE: &str = "names of packages like libguava-java, or several with | between them";
        let alternatives: Vec<String> = text.split('|').map(|name| name.trim().into()).collect();
        if alternatives.iter().all(|name: &String| is_name(name)) {
            Ok(Self { alternatives })
        } else {
            Err(SettingError::new("a wanted package", text, RULE))
        }
    }
}

impl fmt::Display for Want {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ZooKeeper(Request::Any) => f.write_str("ZooKeeper"),
            Self::ZooKeeper(request) => write!(f, "ZooKeeper {request}"),
            Self::Java => write!(f, "Java {} or newer", java::OLDEST),
            Self::Package(package) => write!(f, "the package {package}"),
        }
    }
}

impl fmt::Display for Package {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.alternatives.join(" | "))
    }
}

/// Applies the rule of Debian's policy, which excludes options and paths.
fn is_name(name: &str) -> bool {
    name.len() >= 2
        && name.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
        && name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "+-.".contains(c))
}

#[cfg(test)]
mod tests;
