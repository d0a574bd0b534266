//! `srvr`: version, zxid and role.
//!
//! Pure: no I/O and no clock.

use std::fmt;
use std::str::FromStr;

use super::AdminError;
use super::text::AnswerText;

/// The role that a server reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mode {
    /// Orders the writes of the ensemble.
    Leader,
    /// Serves, with a vote.
    Follower,
    /// Serves, without a vote.
    Observer,
    /// The only server of its ensemble.
    Standalone,
    /// Without a quorum; serves reads to clients that accept that.
    ReadOnly,
}

/// The answer to `srvr`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Srvr {
    /// The release, such as `3.9.3`.
    pub version: String,
    /// Packets received.
    pub received: u64,
    /// The newest transaction this server has applied.
    ///
    /// A follower that has applied nothing since it joined reports 0, while the leader already reports its new epoch.
    pub zxid: u64,
    /// The server's role.
    pub mode: Mode,
}

impl Srvr {
    /// Returns the epoch of the last transaction: the upper half of the zxid.
    pub const fn epoch(&self) -> u64 {
        self.zxid >> 32
    }
}

impl FromStr for Srvr {
    type Err = AdminError;

    /// Skips lines that are not known, so that a newer server may say more.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let answer = AnswerText::new("srvr", text)?;
        let mut version = None;
        let mut received = None;
        let mut zxid = None;
        let mut mode = None;
        for line in answer.lines() {
            let Some((key, value)) = line.split_once(':') else {
                return Err(answer.unexpected(line, "a line of the form `key: value`"));
            };
            match key {
                "Zookeeper version" => version = Some(release_of(value.trim()).to_owned()),
                "Received" => {
                    received = Some(answer.value(value, line, "a number after the colon")?);
                }
                "Zxid" => zxid = Some(answer.hex(value, line, "a hexadecimal zxid")?),
                "Mode" => mode = Some(answer.value(value, line, MODES)?),
                _ => {}
            }
        }
        let missing = |wanted| answer.unexpected("", wanted);
        Ok(Self {
            version: version.ok_or_else(|| missing("the line `Zookeeper version: …`"))?,
            received: received.ok_or_else(|| missing("the line `Received: …`"))?,
            zxid: zxid.ok_or_else(|| missing("the line `Zxid: …`"))?,
            mode: mode.ok_or_else(|| missing("the line `Mode: …`"))?,
        })
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Leader => "leader",
            Self::Follower => "follower",
            Self::Observer => "observer",
            Self::Standalone => "standalone",
            Self::ReadOnly => "read-only",
        })
    }
}

impl FromStr for Mode {
    type Err = AdminError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "leader" => Ok(Self::Leader),
            "follower" => Ok(Self::Follower),
            "observer" => Ok(Self::Observer),
            "standalone" => Ok(Self::Standalone),
            "read-only" => Ok(Self::ReadOnly),
            other => Err(AnswerText::new("srvr", other)?.unexpected(other, MODES)),
        }
    }
}

/// Cuts `3.9.3` out of `3.9.3-c26634f3, built on 2024-10-17 23:21 UTC`.
fn release_of(build: &str) -> &str {
    build.split(['-', ',', ' ']).next().unwrap_or(build)
}

const MODES: &str = "leader, follower, observer, standalone or read-only";
