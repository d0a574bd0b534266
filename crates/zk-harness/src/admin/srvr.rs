//! `srvr`: version, latency, zxid and role.
//!
//! Pure: no I/O and no clock.

use std::fmt;
use std::str::FromStr;

use super::AdminError;
use super::text::Answer;

/// The role a server plays, as it says itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mode {
    /// Orders the writes of the ensemble.
    Leader,
    /// Votes and serves.
    Follower,
    /// Serves without a vote.
    Observer,
    /// The only server of its ensemble.
    Standalone,
    /// Cut off from the quorum, serving reads to clients that accept that.
    ReadOnly,
}

/// Request latency since the server started, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Latency {
    /// The fastest request.
    pub min: u64,
    /// The mean of all requests.
    pub avg: f64,
    /// The slowest request.
    pub max: u64,
}

/// Sizes in bytes of the proposals a leader has sent; -1 before the first one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProposalSizes {
    /// The newest proposal.
    pub last: i64,
    /// The smallest one.
    pub min: i64,
    /// The largest one.
    pub max: i64,
}

/// The answer to `srvr`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Srvr {
    /// The release, such as `3.9.3`.
    pub version: String,
    /// The whole version line, with revision and build date.
    pub build: String,
    /// Request latency since the start.
    pub latency: Latency,
    /// Packets received.
    pub received: u64,
    /// Packets sent.
    pub sent: u64,
    /// Open client connections, the one that asks included.
    pub connections: u64,
    /// Requests that wait for an answer.
    pub outstanding: u64,
    /// The newest transaction this server has applied.
    ///
    /// A follower that has applied nothing since it joined says 0 where the leader names its new epoch already.
    pub zxid: u64,
    /// The server's role.
    pub mode: Mode,
    /// How many nodes the tree has.
    pub node_count: u64,
    /// What a leader says about its proposals; `None` from any other server.
    pub proposal_sizes: Option<ProposalSizes>,
}

impl Srvr {
    /// Returns the epoch of the newest transaction: the upper half of the zxid.
    pub const fn epoch(&self) -> u64 {
        self.zxid >> 32
    }

    /// Reads the lines of `srvr`, which are also the larger part of `stat`.
    ///
    /// Lines that are not known are skipped, so that a newer server may say more.
    pub(super) fn from_lines<'a>(
        answer: Answer<'a>,
        lines: impl Iterator<Item = &'a str>,
    ) -> Result<Self, AdminError> {
        let mut build = None;
        let mut latency = None;
        let mut received = None;
        let mut sent = None;
        let mut connections = None;
        let mut outstanding = None;
        let mut zxid = None;
        let mut mode = None;
        let mut node_count = None;
        let mut proposal_sizes = None;
        for line in lines {
            let Some((key, value)) = line.split_once(':') else {
                return Err(answer.unexpected(line, "a line of the form `key: value`"));
            };
            let number = || answer.value::<u64>(value, line, "a number after the colon");
            match key {
                "Zookeeper version" => build = Some(value.trim()),
                "Latency min/avg/max" => latency = Some(parse_latency(answer, value, line)?),
                "Received" => received = Some(number()?),
                "Sent" => sent = Some(number()?),
                "Connections" => connections = Some(number()?),
                "Outstanding" => {
                    // The server adds and subtracts in no particular order, and may be below zero for a moment.
                    let number = answer.value::<i64>(value, line, "a number after the colon")?;
                    outstanding = Some(u64::try_from(number).unwrap_or_default());
                }
                "Zxid" => zxid = Some(answer.hex(value, line, "a hexadecimal zxid")?),
                "Mode" => mode = Some(answer.value(value, line, MODES)?),
                "Node count" => node_count = Some(number()?),
                "Proposal sizes last/min/max" => {
                    proposal_sizes = Some(parse_sizes(answer, value, line)?);
                }
                _ => {}
            }
        }
        let missing = |wanted| answer.unexpected("", wanted);
        let build = build.ok_or_else(|| missing("the line `Zookeeper version: …`"))?;
        Ok(Self {
            version: release_of(build).to_owned(),
            build: build.to_owned(),
            latency: latency.ok_or_else(|| missing("the line `Latency min/avg/max: …`"))?,
            received: received.ok_or_else(|| missing("the line `Received: …`"))?,
            sent: sent.ok_or_else(|| missing("the line `Sent: …`"))?,
            connections: connections.ok_or_else(|| missing("the line `Connections: …`"))?,
            outstanding: outstanding.ok_or_else(|| missing("the line `Outstanding: …`"))?,
            zxid: zxid.ok_or_else(|| missing("the line `Zxid: …`"))?,
            mode: mode.ok_or_else(|| missing("the line `Mode: …`"))?,
            node_count: node_count.ok_or_else(|| missing("the line `Node count: …`"))?,
            proposal_sizes,
        })
    }
}

impl FromStr for Srvr {
    type Err = AdminError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let answer = Answer::new("srvr", text)?;
        Self::from_lines(answer, answer.lines())
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
            other => Err(Answer::new("srvr", other)?.unexpected(other, MODES)),
        }
    }
}

/// Cuts `3.9.3` out of `3.9.3-c26634f3, built on 2024-10-17 23:21 UTC`.
pub(super) fn release_of(build: &str) -> &str {
    build.split(['-', ',', ' ']).next().unwrap_or(build)
}

fn parse_latency(answer: Answer<'_>, value: &str, line: &str) -> Result<Latency, AdminError> {
    const WANTED: &str = "three numbers, as in 0/0.5/3";
    let mut parts = value.split('/');
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(min), Some(avg), Some(max), None) => Ok(Latency {
            min: answer.value(min, line, WANTED)?,
            avg: answer.value(avg, line, WANTED)?,
            max: answer.value(max, line, WANTED)?,
        }),
        _ => Err(answer.unexpected(line, WANTED)),
    }
}

fn parse_sizes(answer: Answer<'_>, value: &str, line: &str) -> Result<ProposalSizes, AdminError> {
    const WANTED: &str = "three numbers, as in 90/48/90";
    let mut parts = value.split('/');
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(last), Some(min), Some(max), None) => Ok(ProposalSizes {
            last: answer.value(last, line, WANTED)?,
            min: answer.value(min, line, WANTED)?,
            max: answer.value(max, line, WANTED)?,
        }),
        _ => Err(answer.unexpected(line, WANTED)),
    }
}

const MODES: &str = "leader, follower, observer, standalone or read-only";
