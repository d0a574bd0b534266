//! Parses the names of Debian and Ubuntu packages, and decides whether they are installed. Pure.

use std::fmt;

use super::error::SettingError;

const RULE: &str = "names of packages like libguava-java, or several with | between them";

/// A requested package with its alternatives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Package {
    /// Never empty, the preferred one first.
    pub(super) alternatives: Vec<String>,
}

impl Package {
    pub(super) fn parse(text: &str) -> Result<Self, SettingError> {
        let alternatives: Vec<String> = text.split('|').map(|name| name.trim().into()).collect();
        if alternatives.iter().all(|name: &String| is_name(name)) {
            Ok(Self { alternatives })
        } else {
            Err(SettingError::new("a wanted package", text, RULE))
        }
    }

    /// Returns whether one of the alternatives is installed, according to dpkg's status file.
    pub(super) fn is_installed(&self, dpkg_status: &str) -> bool {
        dpkg_status.split("\n\n").any(|paragraph| {
            let field = |name: &str| {
                paragraph
                    .lines()
                    .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
            };
            field("Package").is_some_and(|name| self.alternatives.iter().any(|own| own == name))
                && field("Status").is_some_and(|status| status.ends_with(" ok installed"))
        })
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
