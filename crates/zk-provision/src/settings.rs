//! Parses the settings of a search from the environment. Pure.

use std::ffi::OsStr;

use crate::error::SettingError;
use crate::version::Request;

/// When a search may put something into the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Provisioning {
    /// When nothing suitable is installed or cached (the default).
    #[default]
    WhenMissing,
    /// Never: the search uses only what is installed or cached.
    Never,
    /// Whenever the cache has nothing suitable: installed packages, ZooKeeper's among them, are ignored.
    /// An installed Java is used, as it only runs what was provisioned.
    Always,
}

/// Whether a search uses installed packages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Installed {
    /// Uses installed packages and an installed Java (the default).
    #[default]
    Use,
    /// Behaves as if nothing were installed.
    Ignore,
}

pub(super) const HOME: &str = "ZK_HARNESS_HOME";
pub(super) const CACHE: &str = "ZK_HARNESS_CACHE";
pub(super) const PROVISION: &str = "ZK_HARNESS_PROVISION";
pub(super) const MIRROR: &str = "ZK_HARNESS_MIRROR";
pub(super) const VERSION: &str = "ZK_HARNESS_VERSION";

/// The archive of every release ever made; mirrors keep the newest only.
pub(super) const DEFAULT_MIRROR: &str = "https://archive.apache.org/dist/zookeeper";

const VERSION_RULE: &str = "a series like 3.9 or an exact version like 3.9.6";

pub(super) fn provisioning(
    name: &'static str,
    value: &OsStr,
) -> Result<Provisioning, SettingError> {
    match value.to_str() {
        Some("when-missing") => Ok(Provisioning::WhenMissing),
        Some("never") => Ok(Provisioning::Never),
        Some("always") => Ok(Provisioning::Always),
        _ => Err(SettingError::new(
            name,
            value.to_string_lossy(),
            "when-missing, never or always",
        )),
    }
}

pub(super) fn version(name: &'static str, value: &OsStr) -> Result<Request, SettingError> {
    value
        .to_str()
        .and_then(Request::parse)
        .ok_or_else(|| SettingError::new(name, value.to_string_lossy(), VERSION_RULE))
}

/// The mirror without its trailing slashes.
pub(super) fn mirror(name: &'static str, value: &OsStr) -> Result<String, SettingError> {
    let text = value.to_str().map(|text| text.trim_end_matches('/'));
    let host = text.and_then(|text| {
        text.strip_prefix("https://")
            .or_else(|| text.strip_prefix("http://"))
    });
    match (text, host) {
        (Some(text), Some(host)) if !host.is_empty() && !text.contains(char::is_whitespace) => {
            Ok(text.to_owned())
        }
        _ => {
            let rule =
                "an http:// or https:// URL under which zookeeper-3.9.6/ and its like are found";
            Err(SettingError::new(name, value.to_string_lossy(), rule))
        }
    }
}
