//! Parses versions, and decides which ones match a request.
//!
//! Pure: no I/O and no clock.

use std::fmt;

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
            Self::Exact(exact) => version == exact,
            _ => self.covers(version) && !version.is_superseded(),
        }
    }

    /// Returns why a version does not match, as the end of a sentence about its place.
    pub(super) fn refusal(self, version: Version) -> Option<String> {
        if self.accepts(version) {
            None
        } else if self.covers(version) {
            Some(format!(
                "ZooKeeper {version}, which can lose acknowledged writes; {SOUND} or later is wanted \
                 ({version} is taken only if it is asked for by its exact version)"
            ))
        } else {
            Some(format!("ZooKeeper {version}, but {self} is wanted"))
        }
    }

    /// Returns whether only a known loss can be a reason against a version.
    fn covers(self, version: Version) -> bool {
        match self {
            Self::Any => true,
            Self::Series(major, minor) => (version.major, version.minor) == (major, minor),
            Self::Exact(exact) => version == exact,
        }
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
