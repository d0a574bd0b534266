//! Parses versions, and decides which ones match a request.
//!
//! Pure: no I/O and no clock.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// The value of `--zookeeper VERSION|HOME`.
///
/// What has only digits and dots is a version, everything else a directory; `./3` names a directory called `3`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "a search takes each of them by a method of its own"
)]
pub enum Wanted {
    /// A series (`3.9`) or an exact version (`3.9.6`).
    Version(String),
    /// The home of an installation.
    Home(PathBuf),
}

/// Why a text is neither a version nor a directory.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{value:?} is neither a ZooKeeper version (3.9 or 3.9.6) nor a directory ({hint})")]
pub struct ParseWantedError {
    value: String,
    hint: String,
}

impl FromStr for Wanted {
    type Err = ParseWantedError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = |hint: String| ParseWantedError {
            value: text.to_owned(),
            hint,
        };
        if text.is_empty() {
            return Err(wrong("it is empty".to_owned()));
        }
        if !text
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'.')
            || text.bytes().all(|byte| byte == b'.')
        {
            return Ok(Self::Home(PathBuf::from(text)));
        }
        match Request::parse(text) {
            Some(_) => Ok(Self::Version(text.to_owned())),
            None => Err(wrong(format!("a directory of that name is ./{text}"))),
        }
    }
}

/// The requested versions.
///
/// Of the series that is provisioned by default, only releases with [no known loss](Version::known_loss) will do, unless
/// one is asked for by its exact version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Request {
    Any,
    Series(u32, u32),
    Exact(Version),
}

impl Request {
    /// The series that is provisioned when any version will do.
    pub(super) const PROVISIONED: Self = Self::Series(3, 9);

    pub(super) fn parse(text: &str) -> Option<Self> {
        let numbers: Vec<u32> = text.split('.').map(number).collect::<Option<_>>()?;
        match numbers[..] {
            [major, minor] => Some(Self::Series(major, minor)),
            [major, minor, patch] => Some(Self::Exact(Version::new(major, minor, patch))),
            _ => None,
        }
    }

    pub(super) fn accepts(self, version: Version) -> bool {
        match self {
            Self::Any => !version.is_superseded(),
            Self::Series(major, minor) => {
                (version.major, version.minor) == (major, minor) && !version.is_superseded()
            }
            Self::Exact(exact) => version == exact,
        }
    }

    /// Returns why a version does not match, as the end of a sentence about its place.
    pub(super) fn refusal(self, version: Version) -> Option<String> {
        if self.accepts(version) {
            return None;
        }
        let named = Self::Exact(version);
        let only_superseded = match self {
            Self::Any => true,
            Self::Series(major, minor) => (version.major, version.minor) == (major, minor),
            Self::Exact(_) => false,
        };
        Some(if only_superseded {
            format!(
                "ZooKeeper {version}, which can lose acknowledged writes; {SOUND} or later is wanted \
                 ({named} is taken only if it is asked for by its exact version)"
            )
        } else {
            format!("ZooKeeper {version}, but {self} is wanted")
        })
    }

    /// Major and minor number of what to provision.
    #[cfg(feature = "download")]
    pub(super) fn series(self) -> (u32, u32) {
        match self {
            Self::Any => Self::PROVISIONED.series(),
            Self::Series(major, minor) => (major, minor),
            Self::Exact(version) => (version.major, version.minor),
        }
    }

    /// What to provision, or to take from the cache: any version stands for the default series.
    pub(super) fn or_default(self) -> Self {
        match self {
            Self::Any => Self::PROVISIONED,
            other => other,
        }
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("any version"),
            Self::Series(major, minor) => write!(f, "{major}.{minor}"),
            Self::Exact(version) => version.fmt(f),
        }
    }
}

/// A released version of ZooKeeper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Version {
    pub(super) major: u32,
    pub(super) minor: u32,
    pub(super) patch: u32,
}

/// The first release of 3.9 without a known loss of acknowledged writes while servers synchronise.
const SOUND: Version = Version::new(3, 9, 4);

impl Version {
    pub(super) const fn new(major: u32, minor: u32, patch: u32) -> Self {
        Self {
            major,
            minor,
            patch,
        }
    }

    /// Returns how a release loses acknowledged writes, if it is known to; `docs/compatibility.md` has the sources.
    pub(super) fn known_loss(self) -> Option<&'static str> {
        if self >= SOUND {
            None
        } else if (self.major, self.minor, self.patch) == (3, 9, 3) {
            Some(
                "ZooKeeper 3.9.3 can lose acknowledged writes (ZOOKEEPER-4925, fixed in 3.9.4); \
                 see docs/compatibility.md",
            )
        } else {
            Some(
                "ZooKeeper releases before 3.9.3 can lose acknowledged writes when a server stops while it \
                 synchronises (ZOOKEEPER-4394, 4643, 4646 and 4685); see docs/compatibility.md",
            )
        }
    }

    /// Whether it has a known loss that a later release of the default series has not.
    fn is_superseded(self) -> bool {
        (self.major, self.minor) == (SOUND.major, SOUND.minor) && self < SOUND
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        match Request::parse(text)? {
            Request::Exact(version) => Some(version),
            _ => None,
        }
    }

    /// The upstream part of a Debian package version: `1:3.9.3-1+deb13u1` is 3.9.3.
    #[cfg(feature = "download")]
    pub(super) fn of_package(text: &str) -> Option<Self> {
        let without_epoch = text.split_once(':').map_or(text, |(_, rest)| rest);
        let upstream = without_epoch.split(['-', '+', '~']).next()?;
        Self::parse(upstream)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// Digits only: `u32::from_str` would take a sign as well.
fn number(text: &str) -> Option<u32> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        text.parse().ok()
    } else {
        None
    }
}

#[cfg(test)]
mod tests;
